//! A server made with the official Rust SDK.

use std::path::Path;

use evergate_runtime::{Protocol, ServerHandle, Settings};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rmcp-server");

fn over_http(log: &Path) -> (Peer, Settings) {
    let port = free_port();
    let mut command = Command::new(PROGRAM);
    command.args(["http", &port.to_string()]).arg(log);
    (Peer::start(command), Settings::http(format!("http://127.0.0.1:{port}/mcp")))
}

fn over_stdio(log: &Path) -> Settings {
    Settings::stdio(PROGRAM, ["stdio".as_ref(), log.as_os_str()])
}

/// Long enough that some calls are always under way.
fn echo(call_id: &str) -> Value {
    json!({ "text": call_id, "call_id": call_id, "ms": 20 })
}

fn add(call_id: &str) -> Value {
    json!({ "a": 2, "b": 3, "call_id": call_id, "ms": 20 })
}

async fn basics(hub: &evergate_runtime::Hub, s: &ServerHandle, transport: &str) {
    let catalog = listed(hub).await;
    assert_eq!(keys(&catalog.tools), ["add", "echo"]);
    let answer = s.call_tool("echo", echo("hi")).await.unwrap();
    assert_eq!(text(&answer), "hi");
    let answer = s.call_tool("add", add("sum")).await.unwrap();
    assert_eq!(text(&answer), "5");
    let status = s.status();
    assert_eq!(status.transport, Some(transport));
    assert_eq!((status.reconnects, status.garbage), (0, 0), "{status:?}");
}

#[tokio::test]
async fn http_handshake_catalog_and_calls() {
    let directory = tempfile::tempdir().unwrap();
    let (peer, settings) = over_http(&directory.path().join("log"));
    let (hub, s) = hub(settings);
    basics(&hub, &s, "streamable_http").await;
    shut_down(hub).await;
    peer.stop().await;
}

#[tokio::test]
async fn stdio_handshake_catalog_and_calls() {
    let directory = tempfile::tempdir().unwrap();
    let (hub, s) = hub(over_stdio(&directory.path().join("log")));
    basics(&hub, &s, "stdio").await;
    shut_down(hub).await;
}

#[tokio::test]
async fn http_restart_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (mut peer, settings) = over_http(&log);
    let (hub, s) = hub(settings);
    listed(&hub).await;
    let ended = under_load(&s, "echo", echo, async || peer.restart().await).await;
    assert_answered(&ended);
    let ended = under_load(&s, "add", add, async || peer.restart().await).await;
    assert_once(&ended, &log);
    assert!(s.status().reconnects >= 2);
    shut_down(hub).await;
    peer.stop().await;
}

#[tokio::test]
async fn stdio_kill_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (hub, s) = hub(over_stdio(&log));
    listed(&hub).await;
    let ended = under_load(&s, "echo", echo, async || kill_child(&s)).await;
    assert_answered(&ended);
    let ended = under_load(&s, "add", add, async || kill_child(&s)).await;
    assert_once(&ended, &log);
    assert_eq!(s.status().reconnects, 2);
    shut_down(hub).await;
}

/// Nothing is lost with a server that keeps nothing, and this one has nothing to say unasked: nobody need notice.
#[tokio::test]
async fn http_restart_while_idle_without_a_handshake() {
    let directory = tempfile::tempdir().unwrap();
    let (mut peer, settings) = over_http(&directory.path().join("log"));
    let (hub, s) = hub(settings.protocol(Protocol::Modern));
    listed(&hub).await;
    for _ in 0..3 {
        peer.restart().await;
        let answer = s.call_tool("echo", echo("hi")).await.unwrap();
        assert_eq!(text(&answer), "hi");
    }
    shut_down(hub).await;
    peer.stop().await;
}

/// Nobody calls anything: the listening stream notices.
#[tokio::test]
async fn http_restart_while_idle() {
    let directory = tempfile::tempdir().unwrap();
    let (mut peer, settings) = over_http(&directory.path().join("log"));
    let (hub, s) = hub(settings.protocol(Protocol::Legacy));
    listed(&hub).await;
    for _ in 0..3 {
        let before = generation(&s);
        peer.restart().await;
        beyond(&s, before).await;
    }
    let answer = s.call_tool("echo", echo("hi")).await.unwrap();
    assert_eq!(text(&answer), "hi");
    shut_down(hub).await;
    peer.stop().await;
}

#[tokio::test]
async fn stdio_kill_while_idle() {
    let directory = tempfile::tempdir().unwrap();
    let (hub, s) = hub(over_stdio(&directory.path().join("log")));
    listed(&hub).await;
    for _ in 0..3 {
        let before = generation(&s);
        kill_child(&s);
        beyond(&s, before).await;
    }
    shut_down(hub).await;
}
