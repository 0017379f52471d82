//! What most tests here begin with, and what they look at.

use evergate_testkit::{HttpServer, Server};
use serde_json::{Value, json};

use crate::support::{Events, Gateway, Http, Session, gateway, until};

/// Revisions that streamable HTTP clients may ask for.
pub(crate) const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// One event as it stands in a stream.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Block {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: Option<String>,
    pub(crate) comment: bool,
}

/// A gateway in front of one server that is called `web` and connected.
pub(crate) async fn one_server() -> (HttpServer, Gateway) {
    one_server_with(json!({})).await
}

/// The same with a `gateway` section.
pub(crate) async fn one_server_with(section: Value) -> (HttpServer, Gateway) {
    let http = HttpServer::start(Server::new()).await;
    let gateway = gateway(&json!({
        "mcpServers": { "web": quick_to_recover(&http) },
        "gateway": &section,
    }));
    let gateway = gateway.start();
    let key = section["auth"]["keys"][0]["key"].as_str().unwrap_or("none is needed");
    let health = Http::new(&gateway.at("/health")).header("x-api-key", key);
    until("the server is listed", async || {
        let web = health.get(&[]).await.json()["servers"]["web"].clone();
        // Not every key is told what it offers.
        web["catalog"]["tools"].is_u64()
            || (web.get("catalog").is_none() && web["status"] == "running")
    })
    .await;
    (http, gateway)
}

/// Its attempts to reconnect come so soon that no test has to wait for them.
pub(crate) fn quick_to_recover(http: &HttpServer) -> Value {
    let backoff = json!({ "initial": "50ms", "max": "50ms", "jitter": 0 });
    let lifecycle = json!({ "backoff": backoff, "max_attempts": -1 });
    json!({ "url": http.url(), "lifecycle": lifecycle })
}

pub(crate) fn tool_call(id: &Value, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// The params of a call that reports so many steps.
pub(crate) fn steps(steps: u64, ms: u64) -> Value {
    json!({
        "name": "web__progress",
        "arguments": { "steps": steps, "ms": ms, "call_id": "steps" },
        "_meta": { "progressToken": "token" },
    })
}

pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let events = text.split("\n\n").filter(|event| !event.is_empty());
    events
        .map(|event| {
            let mut block = Block::default();
            for line in event.lines() {
                let (field, value) = line.split_once(':').unwrap();
                let value = Some(value.trim_start().to_owned());
                match field {
                    "" => block.comment = true,
                    "id" => block.id = value,
                    "retry" => block.retry = value,
                    "event" => block.event = value,
                    "data" => block.data = value,
                    _ => panic!("no such field: {line}"),
                }
            }
            block
        })
        .collect()
}

/// The next event with a message in it, and its id.
pub(crate) async fn identified(events: &mut Events) -> Option<(String, Value)> {
    loop {
        let event = events.next().await?;
        if !event.data.is_empty() {
            let message = serde_json::from_slice(event.data.as_ref()).unwrap();
            return Some((event.id.expect("an event id"), message));
        }
    }
}

/// Waits until the gateway listens to what the server says unasked.
pub(crate) async fn listened_to(http: &HttpServer) {
    until("the gateway listens", async || http.server().counters().listening > 0).await;
}

/// Whether everything is as it was.
pub(crate) async fn still_works(client: &Session) {
    assert_eq!(client.call_text("web__echo", json!({ "text": "fine" })).await, "fine");
}
