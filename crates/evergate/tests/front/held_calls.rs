//! Calls to a server that is away for a moment.

use std::time::Duration;

use evergate_testkit::SessionLoss;
use serde_json::json;

use crate::fixture::{blocks, one_server_with, still_works, tool_call};
use crate::support::until;

#[tokio::test]
async fn a_held_call_shows_signs_of_life_until_its_answer_comes() {
    let (http, gateway) = one_server_with(json!({ "keep_alive": "100ms" })).await;
    let client = gateway.connect().await;
    still_works(&client).await;
    http.kill().await;
    let call = tool_call(&json!("held"), "web__bump", &json!({ "call_id": "held" }));
    let mut stream = client.http.post_for_events(&client.headers(), call.to_string()).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let mut text = String::new();
    while text.matches(": still here").count() < 3 {
        text.push_str(std::str::from_utf8(&stream.bytes().await.unwrap()).unwrap());
    }
    assert!(!text.contains("jsonrpc"), "{text}");
    http.revive().await;
    text.push_str(&stream.rest().await);
    let last = blocks(&text).pop().unwrap();
    let answer: serde_json::Value = serde_json::from_str(&last.data.unwrap()).unwrap();
    assert_eq!(answer["id"], "held");
    assert_eq!(answer["result"]["content"][0]["text"], "1");
    assert_eq!(http.server().executions("held"), 1);
}

#[tokio::test]
async fn a_quick_recovery_is_not_even_seen() {
    let (http, gateway) = one_server_with(json!({})).await;
    let client = gateway.connect().await;
    for round in 0..5 {
        still_works(&client).await;
        http.server().expire_sessions(SessionLoss::NotFound404);
        let call = tool_call(&json!(1), "web__bump", &json!({ "call_id": format!("{round}") }));
        let answer = client.post(call.to_string()).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(http.server().executions(&format!("{round}")), 1);
    }
}

#[tokio::test]
async fn a_held_call_that_loses_its_client_still_runs_once_and_can_be_fetched() {
    let (http, gateway) = one_server_with(json!({ "keep_alive": "100ms" })).await;
    let client = gateway.connect().await;
    still_works(&client).await;
    http.kill().await;
    let call = tool_call(&json!(1), "web__bump", &json!({ "call_id": "held" }));
    let mut stream = client.http.post_for_events(&client.headers(), call.to_string()).await;
    let primer = stream.next().await.unwrap().id.unwrap();
    drop(stream);
    http.revive().await;
    until("it ran", async || http.server().executions("held") == 1).await;
    let mut again = client.listen_from(&primer).await;
    assert_eq!(again.message().await.unwrap()["result"]["content"][0]["text"], "1");
    assert_eq!(again.message().await, None);
}

#[tokio::test]
async fn a_held_call_that_is_cancelled_never_runs() {
    let (http, gateway) = one_server_with(json!({})).await;
    let client = gateway.connect().await;
    still_works(&client).await;
    http.kill().await;
    let call = tool_call(&json!(1), "web__bump", &json!({ "call_id": "held" }));
    let mut stream = client.http.post_for_events(&client.headers(), call.to_string()).await;
    client.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    let ended = tokio::time::timeout(Duration::from_secs(10), stream.message()).await.unwrap();
    assert!(ended.is_none_or(|answer| answer.get("result").is_none()));
    http.revive().await;
    still_works(&client).await;
    assert_eq!(http.server().executions("held"), 0);
}
