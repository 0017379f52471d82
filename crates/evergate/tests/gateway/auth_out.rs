//! What servers are shown on behalf of the gateway and its clients, and what happens when it is not enough.

use std::time::{Duration, SystemTime};

use evergate_testkit::HttpServer;
use serde_json::json;

use crate::kit::{at, at_with, servers, soon, status, until_listed, web};
use crate::support::{Gateway, gateway, until};

fn sent(http: &HttpServer, header: &str) -> Option<String> {
    http.server().counters().last_headers.get(header).cloned()
}

#[tokio::test]
async fn headers_of_the_entry_are_sent_with_their_variables_filled_in() {
    let http = web().await;
    let headers = json!({ "X-Static": "plain", "Authorization": "Bearer ${SECRET_OF_TEST}", "X-Default": "${NOT_SET_HERE:-d}" });
    let config = servers(json!({ "web": at_with(&http, json!({ "headers": headers })) }));
    let gateway = gateway(&config).env("SECRET_OF_TEST", "s3cr3t-value").start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__bump", json!({})).await;
    assert_eq!(sent(&http, "x-static").as_deref(), Some("plain"));
    assert_eq!(sent(&http, "authorization").as_deref(), Some("Bearer s3cr3t-value"));
    assert_eq!(sent(&http, "x-default").as_deref(), Some("d"));
    let health = gateway.health().await.to_string();
    assert!(!health.contains("s3cr3t-value") && !gateway.stderr().contains("s3cr3t-value"));
}

#[tokio::test]
async fn chosen_headers_of_a_client_reach_the_server_that_wants_them_and_no_other() {
    let (wants, other) = (web().await, web().await);
    let entry = at_with(&wants, json!({ "headers_from_client": ["X-User", "X-Team"] }));
    let gateway = gateway(&servers(json!({ "wants": entry, "other": at(&other) }))).start();
    let http = gateway
        .http()
        .header("x-user", "ada")
        .header("x-team", "a")
        .header("x-team", "b")
        .header("x-private", "mine")
        .header("cookie", "c=1");
    let client = http.initialize().await;
    client.tool_names().await;
    client.call_text("wants__bump", json!({})).await;
    client.call_text("other__bump", json!({})).await;
    assert_eq!(sent(&wants, "x-user").as_deref(), Some("ada"));
    assert!(sent(&wants, "x-team").is_some());
    for name in ["x-private", "cookie"] {
        assert_eq!(sent(&wants, name), None);
    }
    for name in ["x-user", "x-team", "x-private", "cookie"] {
        assert_eq!(sent(&other, name), None);
    }
    // Each call shows what its own request brought.
    let second = gateway.http().header("x-user", "bob").initialize().await;
    second.call_text("wants__bump", json!({})).await;
    assert_eq!(sent(&wants, "x-user").as_deref(), Some("bob"));
    assert_eq!(sent(&wants, "x-team"), None);
}

/// A server that demands a token, and a gateway that reads one from a file.
fn with_token_file(http: &HttpServer, more: serde_json::Value, token: &str) -> Gateway {
    let config = json!({ "gateway": { "startup_wait": "2s" }, "mcpServers": {} });
    let gateway = gateway(&config).start();
    let path = gateway.folder.path().join("token");
    std::fs::write(&path, format!("{token}\n")).unwrap();
    // It has been there for long.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let entry = at_with(http, json!({ "bearer_token_file": path }));
    gateway.write_config(&servers(json!({ "web": crate::kit::merged(entry, more) })));
    gateway
}

fn write_token(gateway: &Gateway, token: &str) {
    std::fs::write(gateway.folder.path().join("token"), token).unwrap();
}

#[tokio::test]
async fn a_token_file_is_read_again_when_it_changes() {
    let http = web().await;
    http.server().set_bearer_token(Some("first"));
    let gateway = with_token_file(&http, json!({}), "first");
    let client = gateway.connect().await;
    until_listed(&client, "web__bump").await;
    client.call_text("web__bump", json!({})).await;
    assert_eq!(sent(&http, "authorization").as_deref(), Some("Bearer first"));
    http.server().set_bearer_token(None);
    write_token(&gateway, "second");
    until("the new one is used", async || {
        client.call_text("web__read", json!({})).await;
        sent(&http, "authorization").as_deref() == Some("Bearer second")
    })
    .await;
    assert_eq!(http.server().counters().handshakes, 1, "no reconnect was needed");
}

#[tokio::test]
async fn a_server_that_refuses_the_token_is_parked_and_not_hammered_until_the_file_changes() {
    let http = web().await;
    http.server().set_bearer_token(Some("good"));
    let gateway = with_token_file(&http, json!({ "hold": "300ms" }), "bad");
    until("it is parked", async || status(&gateway, "web").await["state"] == "permanently_failed")
        .await;
    let now = status(&gateway, "web").await;
    assert_eq!(now["reason"], "auth_required", "{now}");
    assert_eq!(now["status"], "error");
    assert!(!now.to_string().contains("bad\""), "{now}");
    let refused = http.server().counters().unauthorized;
    let client = gateway.connect().await;
    for _ in 0..3 {
        let answer = client.call("web__bump", json!({})).await;
        assert_eq!(answer["error"]["code"], -31001, "{answer}");
        assert_eq!(answer["error"]["data"]["retryable"], false);
        assert_eq!(answer["error"]["data"]["state"], "permanently_failed");
    }
    assert_eq!(http.server().counters().unauthorized, refused, "nobody knocked again");
    write_token(&gateway, "good");
    until_listed(&client, "web__bump").await;
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
}

#[tokio::test]
async fn a_token_that_expires_is_replaced_while_clients_stay() {
    let http = web().await;
    http.server().set_bearer_token(Some("first"));
    let gateway = with_token_file(&http, json!({ "hold": "10s" }), "first");
    let client = gateway.connect().await;
    until_listed(&client, "web__bump").await;
    http.server().set_bearer_token(Some("second"));
    // Whatever the order of the two, the server comes back.
    write_token(&gateway, "second");
    let _ = client.call("web__read", json!({})).await;
    until("it works again", async || {
        client.call("web__read", json!({})).await["result"].is_object()
    })
    .await;
}

#[tokio::test]
async fn a_clients_own_connection_is_revived_by_its_token_file_too() {
    let http = web().await;
    http.server().set_bearer_token(Some("good"));
    let own = json!({ "isolation": "per_client" });
    let gateway = with_token_file(&http, own, "bad");
    let client = gateway.connect().await;
    soon("it knocks", http.server().wait_for(|now| now.unauthorized > 0)).await;
    write_token(&gateway, "good");
    until_listed(&client, "web__bump").await;
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
}
