//! One trace through three processes, two of them with OpenTelemetry's own SDK, and a receiver that reads the gateway's spans
//! with OpenTelemetry's own definitions, as they are and after a collector that others wrote has had them.

use std::path::{Path, PathBuf};

use evergate_peers::{Peer, free_port, installed, ours};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::*;

fn python(script: &str) -> Command {
    let mut command = Command::new(installed("python/bin/python"));
    command.arg(ours(script)).kill_on_drop(true);
    command
}

/// What a process wrote down.
fn spans(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let spans: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let problem = spans.iter().find(|line| line.get("problem").is_some());
    assert_eq!(problem, None);
    spans
}

async fn span(log: &Path, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    until("a span is written", async || {
        found = spans(log).into_iter().find(|span| wanted(span));
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test]
#[ignore = "needs Python peers; ./scripts/test runs it"]
async fn a_client_the_gateway_and_a_server_are_one_trace() {
    one_trace(None).await;
}

#[tokio::test]
#[ignore = "needs Python peers; ./scripts/test runs it"]
async fn a_collector_understands_it_too() {
    one_trace(Some(free_port())).await;
}

/// With a collector at this port between the gateway and whoever writes its spans down.
async fn one_trace(collected_at: Option<u16>) {
    let directory = tempfile::tempdir().unwrap();
    let log = |name: &str| -> PathBuf { directory.path().join(name) };
    let port = free_port();
    let mut receiver = python("servers/otlp_receiver.py");
    receiver.arg(port.to_string()).arg(log("gateway"));
    let receiver = Peer::start(receiver);
    let collector = collected_at.map(|at| {
        let mut collector = python("servers/collector.py");
        collector.arg(at.to_string()).arg(format!("http://127.0.0.1:{port}"));
        Peer::start(collector)
    });
    let endpoint = format!("http://127.0.0.1:{}", collected_at.unwrap_or(port));
    let server_port = free_port();
    let mut server = python("servers/traced_server.py");
    server.arg("streamable-http").arg(server_port.to_string()).arg(log("server"));
    let server = Peer::start(server);
    let child = json!({
        "command": installed("python/bin/python"),
        "args": [ours("servers/traced_server.py"), "stdio", "0", log("child")],
    });
    let config = json!({
        "gateway": { "otlp": { "endpoint": endpoint } },
        "mcpServers": {
            "http": { "url": format!("http://127.0.0.1:{server_port}/mcp") },
            "stdio": child,
        },
    });
    let gateway = Gateway::start_with(&config).await;
    for (server, server_log) in [("http", log("server")), ("stdio", log("child"))] {
        let client_log = log(&format!("client-of-{server}"));
        let mut client = python("clients/traced_client.py");
        client.arg(gateway.url()).arg(format!("{server}__echo")).arg(&client_log);
        let output = timeout(PATIENCE, client.output()).await.expect("the client hangs").unwrap();
        assert!(output.status.success(), "{output:?}");
        let called = |name: &'static str| move |span: &Value| span["name"] == name;
        let agent = span(&client_log, called("agent")).await;
        let own = |span: &Value| {
            span["name"] == "tools/call echo" && span["attributes"]["evergate.server"] == server
        };
        let ours = span(&log("gateway"), own).await;
        let theirs = span(&server_log, called("tools/call echo")).await;
        assert_eq!((&ours["trace"], &theirs["trace"]), (&agent["trace"], &agent["trace"]));
        assert_eq!(theirs["parent"], ours["id"]);
        // The SDK has a span of its own for what it sends.
        let sent = spans(&client_log).into_iter().find(|span| span["id"] == ours["parent"]);
        assert_eq!(sent.expect("the parent is the client's")["parent"], agent["id"]);
        assert_eq!(
            (&ours["kind"], &ours["status"]),
            (&json!("SPAN_KIND_SERVER"), &json!("STATUS_CODE_UNSET"))
        );
        assert_eq!((&ours["service"], &ours["scope"]), (&json!("evergate"), &json!("evergate")));
        assert_eq!(ours["attributes"]["gen_ai.tool.name"], "echo");
        assert!(ours["began"].as_u64() < ours["ended"].as_u64());
    }
    let handshake = span(&log("gateway"), |span| span["name"] == "handshake").await;
    assert_eq!(handshake["kind"], "SPAN_KIND_CLIENT");
    if let Some(collector) = collector {
        collector.stop().await;
    }
    receiver.stop().await;
    server.stop().await;
}
