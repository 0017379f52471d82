//! Servers killed between two calls: the second is answered, by the same client on the same connection.

use serde_json::json;

use crate::support::*;

/// Of each server one that it may list late.
const TOOLS: [&str; 5] = [
    "http__trigger-sampling-request",
    "sse__trigger-sampling-request",
    "stdio__trigger-sampling-request",
    "python__echo",
    "rmcp__echo",
];

/// Its own echo tool, whose arguments and answer differ from server to server.
async fn echo(client: &Client, server: &str) {
    let (arguments, expected) = match server {
        "python" => (json!({ "text": "hi" }), "hi"),
        "rmcp" => (json!({ "text": "hi", "call_id": "1" }), "hi"),
        _ => (json!({ "message": "hi" }), "Echo: hi"),
    };
    assert_eq!(client.call_text(&format!("{server}__echo"), arguments).await, expected, "{server}");
}

async fn survives_restarts_of_servers(kind: ClientKind) {
    let mut servers = [
        ("http", Upstream::everything_http()),
        ("sse", Upstream::everything_sse()),
        ("stdio", Upstream::everything_stdio()),
        ("python", Upstream::python_http()),
        ("rmcp", Upstream::rmcp_http()),
    ];
    let gateway = Gateway::start(&servers.each_ref().map(|(name, server)| (*name, server))).await;
    let client = Client::connect(kind, &gateway.all()).await;
    for (name, _) in &servers {
        echo(&client, name).await;
    }
    let before = client.tools_with(&TOOLS).await;
    for _ in 0..2 {
        for (name, server) in &mut servers {
            server.kill_and_restart().await;
            // At once, while it may still be starting: neither the list nor a call shows it.
            assert_eq!(client.tools().await, before, "{name}");
            echo(&client, name).await;
        }
    }
    // All of them together.
    for (_, server) in &mut servers {
        server.kill_and_restart().await;
    }
    for (name, _) in &servers {
        echo(&client, name).await;
    }
    assert_eq!(client.tools().await, before);
    client.close().await;
    gateway.stop().await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v1() {
    survives_restarts_of_servers(ClientKind::TsV1).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v2() {
    survives_restarts_of_servers(ClientKind::TsV2).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn python_mcp() {
    survives_restarts_of_servers(ClientKind::PythonMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn fastmcp() {
    survives_restarts_of_servers(ClientKind::FastMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn rmcp() {
    survives_restarts_of_servers(ClientKind::Rmcp).await;
}
