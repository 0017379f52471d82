//! What may be held for clients in all.

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use serde_json::json;

use crate::fixture::tool_call;
use crate::support::{Answer, Gateway, Session, gateway, until};

async fn start(limit: &str) -> (HttpServer, Gateway) {
    let web = HttpServer::start(Server::new()).await;
    let gateway = gateway(&json!({
        "mcpServers": { "web": { "url": web.url() } },
        "gateway": { "max_buffered_bytes": limit },
    }));
    (web, gateway.start())
}

async fn echo(client: &Session) -> Answer {
    let call = tool_call(&json!(1), "web__echo", &json!({ "text": "hi" }));
    client.post(call.to_string()).await
}

#[tokio::test]
async fn when_too_much_is_held_new_requests_are_refused_and_what_is_under_way_goes_on() {
    let (web, gateway) = start("100KiB").await;
    let client = gateway.connect().await;
    assert_eq!(echo(&client).await.status, StatusCode::OK);
    // A call that keeps its large request as long as it takes.
    let padding = "x".repeat(150_000);
    let held = client.clone();
    let held =
        tokio::spawn(async move { held.call("web__hold", json!({ "padding": padding })).await });
    until("it is with the server", async || web.server().counters().calls == 2).await;
    let refused = echo(&client).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("5"));
    let error = &refused.json()["error"];
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-31001), &json!("not_sent")));
    assert!(error["message"].as_str().unwrap().contains("max_buffered_bytes"), "{error}");
    assert_eq!(web.server().counters().calls, 2);
    // What needs nothing of a server is answered.
    assert!(client.request("ping", json!({})).await["result"].is_object());
    assert!(client.tool_names().await.contains(&"web__echo".to_owned()));
    web.server().release_held();
    assert!(held.await.unwrap()["result"].is_object());
    until("there is room again", async || echo(&client).await.status == StatusCode::OK).await;
}

#[tokio::test]
async fn a_large_result_counts_until_it_is_sent() {
    let (_web, gateway) = start("100KiB").await;
    let client = gateway.connect().await;
    for _ in 0..20 {
        assert_eq!(client.call_text("web__big", json!({ "bytes": 90_000 })).await.len(), 90_000);
    }
    assert_eq!(echo(&client).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_new_limit_counts_at_once() {
    let (web, gateway) = start("1GiB").await;
    let client = gateway.connect().await;
    let padding = "x".repeat(150_000);
    let held = client.clone();
    let held =
        tokio::spawn(async move { held.call("web__hold", json!({ "padding": padding })).await });
    until("it is with the server", async || web.server().counters().calls == 1).await;
    gateway.write_config(&json!({
        "mcpServers": { "web": { "url": web.url() } },
        "gateway": { "max_buffered_bytes": "100KiB" },
    }));
    until("it is refused", async || echo(&client).await.status == StatusCode::SERVICE_UNAVAILABLE)
        .await;
    web.server().release_held();
    assert!(held.await.unwrap()["result"].is_object());
}
