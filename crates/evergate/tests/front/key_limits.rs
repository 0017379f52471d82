//! How often the holder of a key may have something sent to servers.

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use serde_json::{Value, json};

use crate::fixture::tool_call;
use crate::legacy_sse::Sse;
use crate::support::{Answer, Gateway, Http, Session, gateway, until};

const LIMITED: &str = "limited-has-a-long-key";
const FREE: &str = "free-has-another-long-key";

fn config(web: &HttpServer, rate: &str, more: &Value) -> Value {
    let mut config = json!({
        "mcpServers": { "web": { "url": web.url() } },
        "gateway": { "auth": { "keys": [
            { "name": "limited", "key": LIMITED, "rate_limit": rate },
            { "name": "free", "key": FREE },
        ] } },
    });
    for (name, server) in more.as_object().unwrap() {
        config["mcpServers"][name] = server.clone();
    }
    config
}

async fn start(rate: &str) -> (HttpServer, Gateway) {
    let web = HttpServer::start(Server::new()).await;
    let gateway = gateway(&config(&web, rate, &json!({}))).start();
    (web, gateway)
}

fn of(gateway: &Gateway, path: &str, key: &str) -> Http {
    Http::new(&gateway.at(path)).header("authorization", &format!("Bearer {key}"))
}

async fn bump(client: &Session) -> Answer {
    client.post(tool_call(&json!(7), "web__bump", &json!({})).to_string()).await
}

/// A refusal that names its request and says when to come back.
fn assert_refused(answer: &Answer, id: &Value, within: u64) {
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{}", answer.text());
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=within).contains(&seconds), "{seconds}");
    let message = answer.json();
    assert_eq!((&message["id"], &message["error"]["code"]), (id, &json!(-31001)), "{message}");
    let data = &message["error"]["data"];
    assert_eq!((&data["outcome"], &data["retryable"]), (&json!("not_sent"), &json!(true)));
    assert_eq!(data["retry_after"], seconds);
}

#[tokio::test]
async fn requests_beyond_the_rate_are_refused_over_all_sessions_of_a_key() {
    let (web, gateway) = start("3/1h").await;
    let one = of(&gateway, "/mcp", LIMITED).initialize().await;
    let two = of(&gateway, "/mcp/web", LIMITED).initialize().await;
    for _ in 0..2 {
        assert_eq!(bump(&one).await.status, StatusCode::OK);
    }
    let read = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": "x:y" } });
    assert_eq!(two.post(read.to_string()).await.status, StatusCode::OK);
    for client in [&one, &two] {
        assert_refused(&bump(client).await, &json!(7), 1200);
    }
    assert_eq!(web.server().counters().calls, 2, "the rest was not sent");
    // What is answered here does not count, and nobody else is concerned.
    for _ in 0..10 {
        assert!(one.tool_names().await.contains(&"web__bump".to_owned()));
        assert!(one.request("ping", json!({})).await["result"].is_object());
    }
    let free = of(&gateway, "/mcp", FREE).initialize().await;
    for _ in 0..10 {
        assert_eq!(bump(&free).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn the_rate_is_the_same_without_a_session_over_sse_and_in_batches() {
    let (web, gateway) = start("1/1h").await;
    let client = of(&gateway, "/mcp", LIMITED).initialize().await;
    assert_eq!(bump(&client).await.status, StatusCode::OK);

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "1" },
    });
    let params = json!({ "name": "web__bump", "arguments": {}, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "web__bump"),
    ];
    let answer = of(&gateway, "/mcp", LIMITED).post(&headers, call.to_string()).await;
    assert_refused(&answer, &json!("a"), 3600);

    let mut sse = Sse::open(of(&gateway, "/sse", LIMITED), &gateway).await;
    sse.initialize(json!({})).await;
    assert!(sse.request("ping", json!({})).await["result"].is_object());
    let answer = sse.post(&tool_call(&json!(8), "web__bump", &json!({}))).await;
    assert_refused(&answer, &json!(8), 3600);

    let old = of(&gateway, "/mcp", LIMITED).initialize_as("2025-03-26", json!({})).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let batch = json!([tool_call(&json!(1), "web__bump", &json!({})), ping]);
    let mut events = old.http.post_for_events(&old.headers(), batch.to_string()).await;
    let (first, second) = (events.message().await.unwrap(), events.message().await.unwrap());
    let (refused, other) = if first["id"] == 1 { (first, second) } else { (second, first) };
    assert_eq!(refused["error"]["data"]["outcome"], "not_sent", "{refused}");
    assert!(other["result"].is_object());
    assert_eq!(web.server().counters().calls, 1);
}

#[tokio::test]
async fn a_client_that_comes_back_when_it_was_told_to_is_served() {
    let (_web, gateway) = start("1/1s").await;
    let client = of(&gateway, "/mcp", LIMITED).initialize().await;
    assert_eq!(bump(&client).await.status, StatusCode::OK);
    assert_refused(&bump(&client).await, &json!(7), 1);
    until("there is one again", async || bump(&client).await.status == StatusCode::OK).await;
}

#[tokio::test]
async fn a_reload_gives_nobody_anything_back_unless_the_rate_is_another() {
    let (web, gateway) = start("1/1h").await;
    let client = of(&gateway, "/mcp", LIMITED).initialize().await;
    assert_eq!(bump(&client).await.status, StatusCode::OK);
    gateway.write_config(&config(&web, "1/1h", &json!({ "more": { "url": web.url() } })));
    until("it was reloaded", async || client.tool_names().await.contains(&"more__bump".to_owned()))
        .await;
    assert_refused(&bump(&client).await, &json!(7), 3600);
    gateway.write_config(&config(&web, "2/1h", &json!({})));
    until("it may again", async || bump(&client).await.status == StatusCode::OK).await;
}
