//! The reference server from npm, over each of its transports.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evergate_runtime::{HttpKind, Hub, ServerHandle, Settings};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::*;

fn program() -> PathBuf {
    evergate_peers::npm_program("server-everything")
}

fn over_http(mode: &str, path: &str) -> (Peer, Settings) {
    let port = free_port();
    let mut command = Command::new("node");
    command.arg(program()).arg(mode).env("PORT", port.to_string());
    (Peer::start(command), Settings::http(format!("http://127.0.0.1:{port}{path}")))
}

fn over_stdio() -> Settings {
    Settings::stdio("node", [program().into_os_string(), "stdio".into()])
}

fn echo(call_id: &str) -> Value {
    json!({ "message": call_id })
}

/// Takes a while, so that some calls are always under way.
fn operation(_: &str) -> Value {
    json!({ "duration": 0.02, "steps": 1 })
}

const OPERATION: &str = "trigger-long-running-operation";

async fn basics(hub: &Hub, s: &ServerHandle, transport: &str) {
    let catalog = listed(hub).await;
    let tools = keys(&catalog.tools);
    assert!(["echo", "get-sum", OPERATION].iter().all(|tool| tools.contains(tool)), "{tools:?}");
    assert!(keys(&catalog.prompts).contains(&"simple-prompt"));
    assert!(!catalog.resources.is_empty());
    let text_template = "demo://resource/dynamic/text/{resourceId}";
    assert!(keys(&catalog.resource_templates).contains(&text_template));
    let answer = s.call_tool("echo", echo("hi")).await.unwrap();
    assert_eq!(text(&answer), "Echo: hi");
    let answer = s.call_tool("get-sum", json!({ "a": 2, "b": 3 })).await.unwrap();
    assert!(text(&answer).contains('5'), "{}", text(&answer));
    let params = Some(json!({ "uri": "demo://resource/dynamic/text/1" }).into());
    let read: Value = s.request("resources/read", params).await.unwrap().parse().unwrap();
    assert!(read["contents"][0]["text"].is_string(), "{read}");
    let steps = Arc::new(AtomicU64::new(0));
    let counted = steps.clone();
    let call = s.call_tool(OPERATION, json!({ "duration": 0.2, "steps": 4 }));
    let count = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    call.on_progress(count).await.unwrap();
    assert_eq!(steps.load(Ordering::Relaxed), 4);
    let status = s.status();
    assert_eq!(status.transport, Some(transport));
    assert_eq!((status.reconnects, status.garbage), (0, 0), "{status:?}");
}

async fn restarts(peer: &mut Peer, s: &ServerHandle) {
    // While calls are under way.
    let ended = under_load(s, OPERATION, operation, async || peer.restart().await).await;
    assert_answered(&ended);
    // While nobody calls anything.
    let before = generation(s);
    peer.restart().await;
    beyond(s, before).await;
    let answer = s.call_tool("echo", echo("hi")).await.unwrap();
    assert_eq!(text(&answer), "Echo: hi");
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn stdio() {
    let (hub, s) = hub(over_stdio());
    basics(&hub, &s, "stdio").await;
    let ended = under_load(&s, OPERATION, operation, async || kill_child(&s)).await;
    assert_answered(&ended);
    let before = generation(&s);
    kill_child(&s);
    beyond(&s, before).await;
    shut_down(hub).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn streamable_http() {
    let (mut peer, settings) = over_http("streamableHttp", "/mcp");
    let (hub, s) = hub(settings);
    basics(&hub, &s, "streamable_http").await;
    restarts(&mut peer, &s).await;
    shut_down(hub).await;
    peer.stop().await;
}

/// Without its listening stream nothing tells the runtime of a restart but the answer to a call: 400, "No valid
/// session ID provided", where the specification wants 404.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn streamable_http_a_call_right_after_a_restart_is_answered() {
    let (mut peer, settings) = over_http("streamableHttp", "/mcp");
    let (hub, s) = hub(settings);
    listed(&hub).await;
    for _ in 0..3 {
        peer.restart().await;
        let answer = s.call_tool("echo", echo("hi")).await.unwrap();
        assert_eq!(text(&answer), "Echo: hi");
    }
    shut_down(hub).await;
    peer.stop().await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn legacy_sse() {
    for kind in [HttpKind::Auto, HttpKind::Sse] {
        let (mut peer, settings) = over_http("sse", "/sse");
        let (hub, s) = hub(settings.http_kind(kind));
        basics(&hub, &s, "sse").await;
        restarts(&mut peer, &s).await;
        shut_down(hub).await;
        peer.stop().await;
    }
}
