//! Calls to a server that is away wait, within limits, and what they end with can be acted on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::{at, at_with, begin, merged, quick, servers, soon, status, text, web};
use crate::support::{Gateway, Session, gateway, until};

async fn start(entry: Value) -> (Gateway, Session) {
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    (gateway, client)
}

#[tokio::test]
async fn a_call_to_a_dead_server_ends_within_its_hold_and_says_all_there_is_to_say() {
    let http = web().await;
    let (gateway, client) = start(at_with(&http, json!({ "hold": "400ms" }))).await;
    http.kill().await;
    let began = Instant::now();
    let answer = client.call("web__bump", json!({ "call_id": "x" })).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
    let error = &answer["error"];
    assert_eq!(error["code"], -31001, "{answer}");
    let data = &error["data"];
    assert_eq!(data["server"], "web");
    assert_eq!(data["outcome"], "not_sent");
    assert_eq!(data["retryable"], true);
    assert!(data.get("generation").is_some());
    let state = status(&gateway, "web").await["state"].clone();
    assert!(["reconnecting", "disconnected"].contains(&data["state"].as_str().unwrap()), "{data}");
    assert!(state.is_string());
    assert!(data.get("next_retry_ms").is_some(), "{data}");
    assert!(data["hint"].as_str().unwrap().contains("did not run"), "{data}");
    http.revive().await;
    client.call_text("web__bump", json!({})).await;
    assert_eq!(http.server().executions("x"), 0, "it was given up, not forgotten");
}

#[tokio::test]
async fn only_so_many_calls_wait_for_one_server() {
    let http = web().await;
    let lifecycle = merged(quick(), json!({ "max_held": 2 }));
    let (gateway, client) = start(at_with(&http, json!({ "lifecycle": lifecycle }))).await;
    http.kill().await;
    let held = ["a", "b"].map(|id| begin(&client, "web__bump", json!({ "call_id": id })));
    until("two are held", async || status(&gateway, "web").await["held"] == 2).await;
    let refused = client.call("web__bump", json!({ "call_id": "c" })).await;
    assert_eq!(refused["error"]["code"], -31001, "{refused}");
    assert_eq!(refused["error"]["data"]["retryable"], true);
    let hint = refused["error"]["data"]["hint"].as_str().unwrap();
    assert!(hint.contains("too many calls"), "{refused}");
    http.revive().await;
    for call in held {
        assert!(soon("an answer", call).await.unwrap()["result"].is_object());
    }
    assert_eq!(http.server().executions("c"), 0);
}

#[tokio::test]
async fn a_client_may_take_back_a_call_that_is_held() {
    let http = web().await;
    let (gateway, client) = start(at(&http)).await;
    http.kill().await;
    let params = json!({ "name": "web__bump", "arguments": { "call_id": "x" } });
    let held = tokio::spawn({
        let client = client.clone();
        async move { client.request_with_id(json!("mine"), "tools/call", params).await }
    });
    until("it is held", async || status(&gateway, "web").await["held"] == 1).await;
    client.notify("notifications/cancelled", json!({ "requestId": "mine" })).await;
    until("it is not held any more", async || status(&gateway, "web").await["held"] == 0).await;
    assert!(soon("an end", held).await.unwrap().get("error").is_some());
    http.revive().await;
    client.call_text("web__bump", json!({})).await;
    assert_eq!(http.server().executions("x"), 0);
}

#[tokio::test]
async fn a_tool_may_have_times_of_its_own() {
    let http = web().await;
    let overrides = json!({ "bump": { "hold": "200ms" }, "slo*": { "timeout": "300ms" } });
    let entry = at_with(&http, json!({ "tools": { "overrides": overrides } }));
    let (_gateway, client) = start(entry).await;
    let began = Instant::now();
    let answer = client.call("web__slow", json!({ "ms": 60_000 })).await;
    assert_eq!(answer["error"]["code"], -31003, "{answer}");
    assert_eq!(answer["error"]["data"]["outcome"], "unknown");
    soon("the server is told", http.server().wait_for(|now| now.cancelled.len() == 1)).await;
    http.kill().await;
    let answer = client.call("web__bump", json!({})).await;
    assert_eq!(answer["error"]["code"], -31001, "{answer}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // Another tool waits as long as its server says.
    let patient = begin(&client, "web__read", json!({}));
    tokio::time::sleep(Duration::from_millis(400)).await;
    http.revive().await;
    assert_eq!(text(&soon("an answer", patient).await.unwrap()), "read");
}

async fn with_progress(client: &Session, steps: u64, ms: u64) -> Value {
    let params = json!({
        "name": "web__progress",
        "arguments": { "steps": steps, "ms": ms },
        "_meta": { "progressToken": 1 },
    });
    client.request("tools/call", params).await
}

#[tokio::test]
async fn progress_keeps_a_call_alive_but_not_for_ever() {
    let http = web().await;
    let entry = at_with(&http, json!({ "timeout": "400ms", "max_timeout": "1500ms" }));
    let (_gateway, client) = start(entry).await;
    let answer = with_progress(&client, 6, 150).await;
    assert_eq!(
        text(&answer),
        "all steps done",
        "longer than its timeout, never silent for so long"
    );
    let began = Instant::now();
    let answer = with_progress(&client, 100_000, 50).await;
    assert_eq!(answer["error"]["code"], -31003, "{answer}");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1400) && took < Duration::from_secs(6), "{took:?}");
    soon("the server is told", http.server().wait_for(|now| now.cancelled.len() == 1)).await;
}

#[tokio::test]
async fn a_silent_server_is_given_up_and_the_next_call_works() {
    let http = web().await;
    let (_gateway, client) = start(at_with(&http, json!({ "timeout": "400ms" }))).await;
    http.server().inject(evergate_testkit::Fault::HangBeforeHeaders).on_tool("bump");
    let answer = client.call("web__bump", json!({})).await;
    assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
}

#[tokio::test]
async fn a_call_to_a_command_that_does_not_exist_says_what_would_help() {
    let config = servers(json!({ "none": { "command": "/no/such/command" } }));
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let answer = client.call("none__anything", json!({})).await;
    let data = &answer["error"]["data"];
    assert_eq!(answer["error"]["code"], -31001, "{answer}");
    assert_eq!(data["retryable"], false, "{answer}");
    assert_eq!(data["state"], "permanently_failed");
    assert!(!data["hint"].as_str().unwrap().is_empty());
}
