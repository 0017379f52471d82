//! What operators do to servers, and what they are told instead if it makes no sense.

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{get, post, reaches, two_servers};
use crate::support::{gateway, until};

async fn refused(gateway: &crate::support::Gateway, path: &str, because: &str) {
    let answer = post(gateway, path, &json!({})).await;
    assert_eq!(answer.status, StatusCode::CONFLICT, "{path}: {}", answer.text());
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], "conflict");
    assert!(error["message"].as_str().unwrap().contains(because), "{error}");
}

#[tokio::test]
async fn a_server_is_restarted_switched_off_and_switched_on() {
    let (_docs, gateway) = two_servers(json!({})).await;
    reaches(&gateway, "docs", "connected").await;
    let restarted = post(&gateway, "servers/docs/restart", &json!({})).await;
    assert_eq!(restarted.status, StatusCode::ACCEPTED);
    assert_eq!(restarted.json()["done"], "restart");
    until("the second connection", async || {
        let docs = get(&gateway, "servers/docs").await;
        docs["generation"] == 2 && docs["state"] == "connected"
    })
    .await;
    refused(&gateway, "servers/docs/enable", "switched on already").await;
    post(&gateway, "servers/docs/disable", &json!({})).await;
    let off = reaches(&gateway, "docs", "disabled").await;
    assert_eq!(off["enabled"], false);
    assert!(off["why"].as_str().unwrap().contains("on request"), "{off}");
    refused(&gateway, "servers/docs/disable", "switched off already").await;
    refused(&gateway, "servers/docs/restart", "enable it instead").await;
    refused(&gateway, "servers/docs/refresh", "not connected").await;
    post(&gateway, "servers/docs/enable", &json!({})).await;
    reaches(&gateway, "docs", "connected").await;
    assert_eq!(
        post(&gateway, "servers/docs/refresh", &json!({})).await.status,
        StatusCode::ACCEPTED
    );
    let client = gateway.connect().await;
    assert_eq!(client.call_text("docs__echo", json!({ "text": "back" })).await, "back");
}

#[tokio::test]
async fn a_parked_server_can_be_tried_again() {
    let (_docs, gateway) = two_servers(json!({})).await;
    reaches(&gateway, "broken", "permanently_failed").await;
    for action in ["restart", "enable"] {
        let path = format!("servers/broken/{action}");
        let before = get(&gateway, "servers/broken").await["since_unix_ms"].clone();
        assert_eq!(
            post(&gateway, &path, &json!({})).await.status,
            StatusCode::ACCEPTED,
            "{action}"
        );
        until("it was tried, and given up again", async || {
            let broken = get(&gateway, "servers/broken").await;
            broken["state"] == "permanently_failed" && broken["since_unix_ms"] != before
        })
        .await;
    }
}

#[tokio::test]
async fn what_cannot_be_acted_on_says_why() {
    let docs = HttpServer::start(Server::new()).await;
    let config = json!({ "mcpServers": {
        "own": { "url": docs.url(), "isolation": "per_client" },
        "unset": { "command": "x", "env": { "A": "${SURELY_NOBODY_SETS_THIS}" } },
    } });
    let gateway = gateway(&config).start();
    refused(&gateway, "servers/own/restart", "of its own").await;
    refused(&gateway, "servers/unset/enable", "SURELY_NOBODY_SETS_THIS").await;
    let own = get(&gateway, "servers/own").await;
    assert_eq!((&own["state"], &own["connections"]), (&json!("per_client"), &json!(0)));
    let unset = get(&gateway, "servers/unset").await;
    assert_eq!((&unset["state"], &unset["enabled"]), (&json!("unusable"), &json!(false)));
}

#[tokio::test]
async fn a_tool_can_be_tried() {
    let (_docs, gateway) = two_servers(json!({})).await;
    let body = json!({ "tool": "echo", "arguments": { "text": "tried" } });
    let tried = post(&gateway, "servers/docs/call", &body).await.json();
    assert_eq!((&tried["outcome"], &tried["error"]), (&json!("answered"), &Value::Null));
    assert_eq!(tried["result"]["content"][0]["text"], "tried");
    until("docs is listed", async || !get(&gateway, "servers/docs").await["catalog"].is_null())
        .await;
    let answer = post(&gateway, "servers/docs/call", &json!({ "tool": "ehco" })).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.json()["error"]["nearest"], "echo");
    let wrong =
        post(&gateway, "servers/docs/call", &json!({ "tool": "echo", "arguments": [] })).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let call = &get(&gateway, "calls").await["calls"][0];
    assert_eq!((&call["client"], &call["tool"]), (&json!("(operator)"), &json!("echo")));
    let down =
        post(&gateway, "servers/broken/call", &json!({ "tool": "x", "timeout_ms": 1000 })).await;
    assert_eq!(down.status, StatusCode::OK);
    let down = down.json();
    assert_eq!((&down["outcome"], &down["result"]), (&json!("not_sent"), &Value::Null));
    assert!(down["error"]["message"].as_str().unwrap().contains("permanently"), "{down}");
}
