//! What one client, key or call must not do to another.
use http::StatusCode;
use serde_json::{Value, json};

use crate::kit::{at, at_with, next_of, servers, until_listed, web};
use crate::support::{Http, gateway, until};

const KEY: &str = "alice-key-0123456789abcdef";

#[tokio::test]
async fn one_clients_bad_header_does_not_park_the_server_for_all() {
    let http = web().await;
    http.server().set_bearer_token(Some("good"));
    let entry = at_with(
        &http,
        json!({ "headers": { "Authorization": "Bearer good" },
        "headers_from_client": ["authorization"], "hold": "500ms" }),
    );
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let good = gateway.connect().await;
    until_listed(&good, "web__bump").await;
    assert_eq!(good.call_text("web__bump", json!({})).await, "1");
    let bad = gateway.http().header("authorization", "Bearer bad").initialize().await;
    let refused = bad.call("web__bump", json!({})).await;
    assert!(refused["error"].is_object(), "{refused}");
    let answer = good.call("web__bump", json!({})).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn a_quick_call_of_a_batch_does_not_take_back_anothers_question() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.http().initialize_as("2025-03-26", json!({ "sampling": {} })).await;
    until_listed(&client, "web__sample").await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "web__sample", "arguments": {} } },
        { "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "web__slow", "arguments": { "ms": 500 } } },
    ]);
    let mut events = client.http.post_for_events(&client.headers(), batch.to_string()).await;
    let question = next_of(&mut events, "sampling/createMessage").await;
    loop {
        let m: Value = events.message().await.expect("ended");
        if m["id"] == 2 {
            break;
        }
    }
    client.respond(&question["id"], json!({ "role": "assistant", "content": { "type": "text", "text": "hi" }, "model": "m" })).await;
    let m = next(&mut events).await;
    assert!(!m.to_string().contains("has ended"), "{m}");
}
async fn next(events: &mut crate::support::Events) -> Value {
    loop {
        let m = events.message().await.expect("ended");
        if m["id"] == 1 && m.get("method").is_none() {
            return m;
        }
    }
}

#[tokio::test]
async fn a_reload_takes_rights_from_an_sse_client_that_introduces_itself_again() {
    let http = web().await;
    let config = |tools: Value| {
        json!({ "mcpServers": { "web": at(&http) },
        "gateway": { "auth": { "keys": [{ "name": "alice", "key": KEY, "tools": tools }] } } })
    };
    let gateway = gateway(&config(json!(["web__*"]))).start();
    let auth = format!("Bearer {KEY}");
    let base = Http::new(&gateway.at("/sse")).header("authorization", &auth);
    let mut stream = base.listen(&[]).await;
    let first = stream.next().await.unwrap();
    let endpoint = std::str::from_utf8(&first.data).unwrap().to_owned();
    let posts = Http::new(&gateway.at(&endpoint)).header("authorization", &auth);
    let probe = Http::new(&gateway.at("/mcp")).header("authorization", &auth).initialize().await;
    until_listed(&probe, "web__bump").await;
    gateway.write_config(&config(json!(["web__read"])));
    until("reloaded", async || !probe.tool_names().await.contains(&"web__bump".to_owned())).await;
    let init = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    assert_eq!(posts.post(&[], init.to_string()).await.status, StatusCode::ACCEPTED);
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "web__bump", "arguments": {} } });
    assert_eq!(posts.post(&[], call.to_string()).await.status, StatusCode::ACCEPTED);
    loop {
        let m = stream.message().await.unwrap();
        if m["id"] == 2 {
            assert!(m["error"].is_object(), "ran: {m}");
            break;
        }
    }
}

#[tokio::test]
async fn a_doubled_progress_token_is_refused() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    until_listed(&client, "web__echo").await;
    let body = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"web__echo","arguments":{},"_meta":{"progressToken":5,"progressToken":5}}}"#;
    assert_eq!(client.post(body).await.json()["error"]["code"], -32602);
    assert!(http.server().received("tools/call").is_empty());
}

#[tokio::test]
async fn a_large_resource_stays_a_resource_with_payload_dir() {
    let http = web().await;
    let dir = tempfile::tempdir().unwrap();
    let config = json!({ "mcpServers": { "web": at(&http) }, "gateway": { "payload_dir": dir.path(), "payload_threshold": 1 } });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let list = client.request("resources/list", json!({})).await;
    let uri = list["result"]["resources"][0]["uri"].clone();
    let read = client.request("resources/read", json!({ "uri": uri })).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
}

#[tokio::test]
async fn keys_by_public_name_at_one_servers_endpoint() {
    let http = web().await;
    let config = json!({ "mcpServers": { "web": at(&http) },
        "gateway": { "auth": { "keys": [{ "name": "alice", "key": KEY, "tools": ["web__bump"] }] } } });
    let gateway = gateway(&config).start();
    let auth = format!("Bearer {KEY}");
    let all = Http::new(&gateway.at("/mcp")).header("authorization", &auth).initialize().await;
    until_listed(&all, "web__bump").await;
    let one = Http::new(&gateway.at("/mcp/web")).header("authorization", &auth).initialize().await;
    assert_eq!(one.tool_names().await, ["bump"]);
}

#[tokio::test]
async fn a_restricted_key_sees_only_its_servers_and_ends_nothing() {
    let (one, two) = (web().await, web().await);
    let config = json!({ "mcpServers": { "one": at(&one), "two": at(&two) },
        "gateway": { "auth": { "keys": [{ "name": "alice", "key": KEY, "servers": ["one"] }] } } });
    let gateway = gateway(&config).start();
    let auth = format!("Bearer {KEY}");
    let with_key = |path: &str| Http::new(&gateway.at(path)).header("authorization", &auth);
    let health = with_key("/health").get(&[]).await.json();
    assert_eq!(health["servers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["one"]);
    assert_eq!(with_key("/close").post(&[], "").await.status, StatusCode::FORBIDDEN);
    let (hidden, absent) = (with_key("/mcp/two"), with_key("/mcp/three"));
    assert_eq!(hidden.post(&[], "{}").await.text(), absent.post(&[], "{}").await.text());
}

#[tokio::test]
async fn the_gateways_own_key_reaches_no_server() {
    let http = web().await;
    http.server().set_bearer_token(Some("for-the-server-0123456789"));
    let entry = at_with(
        &http,
        json!({ "headers_from_client": ["authorization"], "isolation": "per_client" }),
    );
    let config = json!({ "mcpServers": { "web": entry },
        "gateway": { "auth": { "keys": [{ "name": "alice", "key": KEY }] } } });
    let gateway = gateway(&config).start();
    // The client's own credentials come beside the key, and are on the handshake already.
    let client = gateway
        .http()
        .header("x-api-key", KEY)
        .header("authorization", "Bearer for-the-server-0123456789")
        .initialize()
        .await;
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
    assert_eq!(http.server().counters().unauthorized, 0);
}
