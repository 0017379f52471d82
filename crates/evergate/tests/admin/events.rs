//! The stream of what happens.

use evergate_testkit::{HttpServer, Server};
use serde_json::{Value, json};

use crate::api::{api, post, reaches, two_servers};
use crate::support::{Events, Gateway, gateway};

async fn follow(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Events {
    api(gateway, path).listen(headers).await
}

/// The next event of this kind about this server.
async fn next(events: &mut Events, kind: &str, server: &str) -> Value {
    loop {
        let message = events.message().await.expect("the stream ended");
        if message["kind"] == kind && message["server"] == server {
            return message;
        }
    }
}

#[tokio::test]
async fn a_restart_is_seen_as_it_happens() {
    let (_docs, gateway) = two_servers(json!({})).await;
    reaches(&gateway, "docs", "connected").await;
    let mut events = follow(&gateway, "events", &[]).await;
    assert_eq!(events.message().await.unwrap()["kind"], "hello");
    post(&gateway, "servers/docs/restart", &json!({})).await;
    let action = next(&mut events, "action", "docs").await;
    assert_eq!((&action["action"], &action["by"]), (&json!("restart"), &Value::Null));
    let lost = next(&mut events, "transition", "docs").await;
    assert_eq!((&lost["from"], &lost["to"]), (&json!("connected"), &json!("reconnecting")));
    let back = next(&mut events, "transition", "docs").await;
    assert_eq!((&back["to"], &back["generation"]), (&json!("connected"), &json!(2)));
}

#[tokio::test]
async fn a_follower_takes_up_where_it_left() {
    let (_docs, gateway) = two_servers(json!({})).await;
    reaches(&gateway, "docs", "connected").await;
    post(&gateway, "servers/docs/restart", &json!({})).await;
    let mut events = follow(&gateway, "events?after=0", &[]).await;
    let first = next(&mut events, "transition", "docs").await;
    let second = next(&mut events, "transition", "docs").await;
    drop(events);
    let last = first["n"].to_string();
    let mut again = follow(&gateway, "events", &[("last-event-id", &last)]).await;
    assert_eq!(next(&mut again, "transition", "docs").await, second);
}

#[tokio::test]
async fn a_reload_is_seen() {
    let (docs, gateway) = two_servers(json!({})).await;
    let mut events = follow(&gateway, "events", &[]).await;
    events.message().await.unwrap();
    gateway.write_config(&json!({ "mcpServers": { "new": { "url": docs.url() } } }));
    let reloaded = loop {
        let message = events.message().await.unwrap();
        if message["kind"] == "reloaded" {
            break message;
        }
    };
    assert_eq!(
        (&reloaded["added"], &reloaded["removed"]),
        (&json!(["new"]), &json!(["broken", "docs"]))
    );
}

#[tokio::test]
async fn the_stream_ends_with_the_gateway() {
    let docs = HttpServer::start(Server::new()).await;
    let mut gateway = gateway(&json!({ "mcpServers": { "docs": { "url": docs.url() } } })).start();
    let events = follow(&gateway, "events", &[]).await;
    gateway.signal(rustix::process::Signal::TERM);
    events.rest().await;
    assert!(gateway.ended().await.success());
}
