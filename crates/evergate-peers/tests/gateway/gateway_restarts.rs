//! The gateway itself is ended and started again: its clients do not notice.

use serde_json::json;

use crate::support::*;

async fn survives_restarts_of_the_gateway(kind: ClientKind) {
    let (http, stdio) = (Upstream::everything_http(), Upstream::everything_stdio());
    let mut gateway = Gateway::start(&[("http", &http), ("stdio", &stdio)]).await;
    let client = Client::connect(kind, &gateway.all()).await;
    let echo = async || {
        for tool in ["http__echo", "stdio__echo"] {
            assert_eq!(client.call_text(tool, json!({ "message": "hi" })).await, "Echo: hi");
        }
    };
    echo().await;
    let expected = ["http__trigger-sampling-request", "stdio__trigger-sampling-request"];
    let tools = client.tools_with(&expected).await;

    gateway.restart().await;
    echo().await;
    assert_eq!(client.tools().await, tools);

    let children = stdio.children();
    assert!(!children.is_empty());
    gateway.kill().await;
    until("no orphan", async || stdio.children().is_empty()).await;
    gateway.come_back().await;
    // Right after the start, from what it knew before.
    assert_eq!(client.tools().await, tools);
    echo().await;

    client.close().await;
    gateway.stop().await;
    until("no orphan", async || stdio.children().is_empty()).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v1() {
    survives_restarts_of_the_gateway(ClientKind::TsV1).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v2() {
    survives_restarts_of_the_gateway(ClientKind::TsV2).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn python_mcp() {
    survives_restarts_of_the_gateway(ClientKind::PythonMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn fastmcp() {
    survives_restarts_of_the_gateway(ClientKind::FastMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn rmcp() {
    survives_restarts_of_the_gateway(ClientKind::Rmcp).await;
}

/// A call that is under way when the gateway is told to end is answered before it does.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn a_call_under_way_is_answered_first() {
    let python = Upstream::python_http();
    let gateway = Gateway::start(&[("python", &python)]).await;
    let client = Client::connect(ClientKind::TsV1, &gateway.all()).await;
    let slow = client.call_text("python__slow", json!({ "ms": 1500, "steps": 3 }));
    let ended = async {
        // Progress says that the server is at work.
        until("progress", async || client.events().await["progress"].as_u64() > Some(0)).await;
        gateway.stop().await;
    };
    let (answer, ()) = tokio::join!(slow, ended);
    assert_eq!(answer, "done");
}
