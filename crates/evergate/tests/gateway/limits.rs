//! Filters, required servers, and results that are too large.

use serde_json::json;

use crate::kit::{at, at_with, begin, child_with, connect_to, merged, quick, servers, text, web};
use crate::support::{Gateway, Http, gateway, until};

#[tokio::test]
async fn filters_hold_in_lists_and_in_calls() {
    let http = web().await;
    let rules = json!({ "allow": ["e*", "b*", "read"], "deny": ["big", "elic?t"] });
    let gateway =
        gateway(&servers(json!({ "web": at_with(&http, json!({ "tools": rules })) }))).start();
    let client = gateway.connect().await;
    assert_eq!(client.tool_names().await, ["web__echo", "web__bump", "web__read"]);
    for tool in ["web__big", "web__hold", "web__elicit", "web__nothing"] {
        let answer = client.call(tool, json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{tool}: {answer}");
    }
    assert_eq!(http.server().counters().calls, 0);
    let direct = connect_to(&gateway, "web").await;
    assert_eq!(direct.tool_names().await, ["echo", "bump", "read"]);
    assert_eq!(direct.call("big", json!({})).await["error"]["code"], -32602);
    assert_eq!(direct.call_text("bump", json!({})).await, "1");
}

#[tokio::test]
async fn a_filtered_tool_of_a_server_that_was_never_listed_cannot_be_called_either() {
    let http = web().await;
    http.kill().await;
    let entry = at_with(&http, json!({ "tools": { "deny": ["bump"] }, "hold": "20s" }));
    let config = json!({ "gateway": { "startup_wait": "100ms" }, "mcpServers": { "web": entry } });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    assert_eq!(client.call("web__bump", json!({})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn the_gateway_is_ready_when_every_required_server_is() {
    let (must, may) = (web().await, web().await);
    must.kill().await;
    may.kill().await;
    let entries = json!({ "must": at_with(&must, json!({ "required": true })), "may": at(&may) });
    let gateway = gateway(&servers(entries)).start();
    let ready = Http::new(&gateway.at("/readyz"));
    let answer = ready.get(&[]).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["waiting_for"], json!(["must"]));
    assert_eq!(Http::new(&gateway.at("/livez")).get(&[]).await.status, 200);
    // The port is open all the same.
    let client = gateway.connect().await;
    assert!(client.request("ping", json!({})).await["result"].is_object());
    must.revive().await;
    until("it is ready", async || ready.get(&[]).await.status == 200).await;
    must.kill().await;
    until("it is not", async || ready.get(&[]).await.status == 503).await;
}

#[tokio::test]
async fn a_result_over_the_limit_is_an_error_that_says_so_and_nothing_else_breaks() {
    let http = web().await;
    let config = json!({
        "gateway": { "max_result_bytes": "64KiB" },
        "mcpServers": { "web": at(&http), "c": child_with(&[], json!({})) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    for server in ["web", "c"] {
        let big = format!("{server}__big");
        let fits = client.call_text(&big, json!({ "bytes": 60_000 })).await;
        assert_eq!(fits.len(), 60_000);
        for bytes in [65_530, 70_000, 300_000] {
            let answer = client.call(&big, json!({ "bytes": bytes })).await;
            let error = &answer["error"];
            assert_eq!(error["code"], -31004, "{server} {bytes}: {answer}");
            assert_eq!(error["data"]["retryable"], false);
            assert_eq!(error["data"]["server"], server);
            assert_eq!(error["data"]["outcome"], "answered");
            assert!(error["message"].as_str().unwrap().contains("max_result_bytes"), "{answer}");
        }
        assert_eq!(client.call_text(&format!("{server}__bump"), json!({})).await, "1");
    }
    assert_eq!(http.server().counters().handshakes, 1, "the connection was not given up");
}

#[tokio::test]
async fn a_large_result_goes_to_a_file_and_a_preview_to_the_client() {
    let (http, folder) = (web().await, tempfile::tempdir().unwrap());
    let config = json!({
        "gateway": { "payload_dir": folder.path(), "payload_threshold": 1000 },
        "mcpServers": { "web": at(&http) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    assert_eq!(client.call_text("web__big", json!({ "bytes": 500 })).await.len(), 500);
    let answer = client.call("web__big", json!({ "bytes": 100_000 })).await;
    let note = answer["result"]["content"][0]["text"].as_str().unwrap();
    let note: serde_json::Value = serde_json::from_str(note).unwrap();
    let stored = std::fs::read_to_string(note["payloadPath"].as_str().unwrap()).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["content"][0]["text"].as_str().unwrap().len(), 100_000);
    assert!(note["payloadPreview"].as_str().unwrap().len() <= 500);
    assert!(note["originalSize"].as_u64().unwrap() > 100_000);
    assert!(
        answer["result"].get("structuredContent").is_none(),
        "the tool may have promised another"
    );
}

#[tokio::test]
async fn a_call_to_a_server_that_is_switched_off_says_so_in_data_too() {
    let http = web().await;
    let off = json!({ "url": http.url(), "disabled": true });
    let config = json!({ "mcpServers": { "web": at(&http), "off": off } });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let error = client.call("off__echo", json!({})).await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["server"]), (&json!(-31001), &json!("off")));
    assert_eq!(error["data"]["outcome"], "not_sent");
    assert_eq!(error["data"]["retryable"], false);
    assert!(error["data"]["hint"].is_string(), "{error}");
}

#[tokio::test]
async fn calls_queue_for_a_busy_server_in_their_order_and_too_many_are_turned_away() {
    let http = web().await;
    let lifecycle = merged(quick(), json!({ "max_in_flight": 1, "max_held": 3 }));
    let entry = at_with(&http, json!({ "lifecycle": lifecycle }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let busy = begin(&client, "web__hold", json!({}));
    until("the first is with the server", async || http.server().counters().calls == 1).await;
    let mut waiting = Vec::new();
    for n in 1..=3 {
        // Of different clients.
        waiting.push(begin(&gateway.connect().await, "web__bump", json!({})));
        until(&format!("{n} wait"), async || held(&gateway).await == n).await;
    }
    let error = client.call("web__bump", json!({})).await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-31001), &json!("not_sent")));
    assert!(error["message"].as_str().unwrap().contains("3 calls wait"), "{error}");
    assert_eq!(http.server().counters().calls, 1, "one at a time");
    http.server().release_held();
    assert!(busy.await.unwrap()["result"].is_object());
    for (n, call) in waiting.into_iter().enumerate() {
        assert_eq!(text(&call.await.unwrap()), (n + 1).to_string(), "first come, first served");
    }
}

async fn held(gateway: &Gateway) -> u64 {
    let server = Http::new(&gateway.at("/api/v1/servers/web")).get(&[]).await.json();
    server["held"].as_u64().unwrap_or_default()
}
