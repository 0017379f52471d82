//! The gateway's own log as JSON: fields that do not change, and no more lines than there is news.

use serde_json::{Value, json};

use crate::kit::{at, servers, web};
use crate::support::{Gateway, Http, gateway, until};

fn lines(gateway: &Gateway) -> Vec<Value> {
    let text = gateway.stderr();
    // The last one may not be whole yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

fn of(gateway: &Gateway, message: &str) -> Vec<Value> {
    let mut lines = lines(gateway);
    lines.retain(|line| line["message"] == message);
    lines
}

/// `2026-07-28T09:05:01.250000Z`
fn is_rfc3339(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("0000-00-00T00:00:00.") && shape.ends_with('Z')
}

#[tokio::test]
async fn a_line_is_an_object_with_a_time_a_level_and_a_message() {
    let http = web().await;
    let gateway =
        gateway(&servers(json!({ "web": at(&http) }))).arg("--log-format").arg("json").start();
    gateway.connect().await.tool_names().await;
    until("it is connected", async || !of(&gateway, "server state").is_empty()).await;
    for line in lines(&gateway) {
        assert!(is_rfc3339(line["timestamp"].as_str().unwrap()), "{line}");
        assert!(["INFO", "WARN"].contains(&line["level"].as_str().unwrap()), "{line}");
        assert!(line["target"].as_str().unwrap().starts_with("evergate"), "{line}");
        assert!(line["message"].is_string(), "{line}");
    }
    let connected = of(&gateway, "server state").pop().unwrap();
    for (name, value) in [
        ("server", json!("web")),
        ("to", json!("connected")),
        ("event", json!("dial_succeeded")),
        ("reason", json!("handshake_done")),
        ("generation", json!(1)),
    ] {
        assert_eq!(connected[name], value, "{name}");
    }
}

#[tokio::test]
async fn an_outage_is_one_warning_and_a_line_that_says_what_it_amounted_to() {
    let http = web().await;
    let gateway =
        gateway(&servers(json!({ "web": at(&http) }))).arg("--log-format").arg("json").start();
    let client = gateway.connect().await;
    client.tool_names().await;
    http.kill().await;
    until("it is gone", async || {
        crate::kit::status(&gateway, "web").await.to_string().contains("reconnecting")
    })
    .await;
    until("several attempts failed", async || {
        let status = crate::kit::status(&gateway, "web").await;
        status["attempts"].as_u64().unwrap_or_default() >= 4
    })
    .await;
    http.revive().await;
    until("it is back", async || !of(&gateway, "server back").is_empty()).await;
    assert_eq!(of(&gateway, "server down").len(), 1);
    let back = of(&gateway, "server back").pop().unwrap();
    assert!(back["failed_attempts"].as_u64().unwrap() >= 3, "{back}");
    assert!(back["down_ms"].as_u64().unwrap() > 0, "{back}");
}

#[tokio::test]
async fn calls_are_told_at_the_level_debug_with_their_trace() {
    let http = web().await;
    let gateway =
        gateway(&servers(json!({ "web": at(&http) }))).arg("--log-format").arg("json").start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__bump", json!({})).await;
    assert!(of(&gateway, "call").is_empty());
    let level = Http::new(&gateway.at("/api/v1/log-level"));
    let content = [("content-type", "application/json")];
    let answer =
        level.send(http::Method::PUT, &content, r#"{"level":"info,evergate=debug"}"#).await;
    assert!(answer.status().is_success());
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let params = json!({ "name": "web__bump", "_meta": { "traceparent": traceparent } });
    client.request("tools/call", params).await;
    until("it is told", async || !of(&gateway, "call").is_empty()).await;
    let call = of(&gateway, "call").pop().unwrap();
    assert_eq!(call["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((&call["server"], &call["generation"]), (&json!("web"), &json!(1)));
    assert_eq!((&call["outcome"], &call["level"]), (&json!("answered"), &json!("DEBUG")));
}
