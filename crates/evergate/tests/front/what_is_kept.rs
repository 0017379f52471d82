//! What clients send is as long as they like; what is kept of it after a call is not.

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use serde_json::{Value, json};

use crate::fixture::tool_call;
use crate::support::{Gateway, Http, gateway};

async fn start(settings: Value) -> (HttpServer, Gateway) {
    let web = HttpServer::start(Server::new()).await;
    let config = json!({ "mcpServers": { "web": { "url": web.url() } }, "gateway": settings });
    let gateway = gateway(&config).start();
    (web, gateway)
}

async fn calls(gateway: &Gateway) -> Value {
    Http::new(&gateway.at("/api/v1/calls")).get(&[]).await.json()["calls"].clone()
}

#[tokio::test]
async fn a_method_that_is_longer_than_any_is_refused_and_not_kept() {
    let (_web, gateway) = start(json!({})).await;
    let client = Http::new(&gateway.at("/mcp/web")).initialize().await;
    let known = calls(&gateway).await.as_array().unwrap().len();
    let refused = client.request(&"x".repeat(100_000), json!({})).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(refused.to_string().len() < 200, "{refused}");
    assert_eq!(calls(&gateway).await.as_array().unwrap().len(), known);
    // One that is only unusual is the server's business.
    let unknown = client.request(&"x".repeat(200), json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert_eq!(calls(&gateway).await[0]["method"], "x".repeat(200));
}

#[tokio::test]
async fn of_a_long_name_of_a_tool_only_the_beginning_is_kept() {
    let (_web, gateway) = start(json!({})).await;
    let client = Http::new(&gateway.at("/mcp/web")).initialize().await;
    client.call(&"ä".repeat(50_000), json!({})).await;
    let tool = calls(&gateway).await[0]["tool"].as_str().unwrap().to_owned();
    assert_eq!(tool, format!("{}…", "ä".repeat(128)));
}

#[tokio::test]
async fn arguments_that_are_recorded_do_not_keep_the_request_they_came_in() {
    let settings = json!({ "record_arguments": true, "max_buffered_bytes": "100KiB" });
    let (_web, gateway) = start(settings).await;
    // By its own name, so that the params reach the server as they came.
    let client = Http::new(&gateway.at("/mcp/web")).initialize().await;
    let padding = " ".repeat(30_000);
    for n in 0..10 {
        let call = tool_call(&json!(n), "echo", &json!({ "text": n.to_string() }));
        let answer = client.post(format!("{call}{padding}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{n}: {}", answer.text());
    }
    assert_eq!(calls(&gateway).await[0]["arguments"], json!({ "text": "9" }));
    // What is too large to be read is not kept at all.
    client.call("echo", json!({ "text": "x".repeat(20_000) })).await;
    assert_eq!(calls(&gateway).await[0]["arguments"], Value::Null);
}
