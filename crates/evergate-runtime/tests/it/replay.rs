//! What is sent again, and what never is.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};

use evergate_runtime::{
    CallFailure, Hub, MemoryConnector, Outcome, Protocol, Replay, ServerCatalog, ServerHandle,
    Settings, StateKind,
};
use evergate_testkit::{Fault, HttpServer, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::*;

async fn http() -> (Server, HttpServer) {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    (server, http)
}

#[tokio::test]
async fn a_call_of_unknown_fate_is_resent_only_where_that_does_no_harm() {
    let (server, http) = http().await;
    let rows = [
        ("bump", Replay::Safe, false),
        ("read", Replay::Safe, true),
        ("again", Replay::Safe, true),
        ("bump", Replay::Always, true),
        ("read", Replay::Never, false),
    ];
    for (n, (tool, replay, resent)) in rows.into_iter().enumerate() {
        let (hub, s) = hub(fast(Settings::http(http.url())).replay(replay));
        hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
        let id = format!("row{n}");
        server.inject(Fault::ExecuteThenCut).on("tools/call");
        let result = s.call_tool(tool, json!({ "call_id": id })).await;
        if resent {
            result.unwrap();
            assert_eq!(server.executions(&id), 2, "{tool} {replay:?}");
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.outcome, Outcome::Unknown, "{tool} {replay:?}");
            assert_eq!(server.executions(&id), 1, "{tool} {replay:?}");
            assert!(matches!(error.source, CallFailure::Transport(_)));
        }
        hub.shutdown(SECOND).await;
    }
}

/// Who says that running twice does no harm must be the server that would run it, not whoever had its name before.
#[tokio::test]
async fn a_call_is_not_resent_on_the_word_of_a_predecessor() {
    let (_old, old_http) = http().await;
    let (before, _s) = hub(fast(Settings::http(old_http.url())));
    before.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    let listed = before.catalog().server("s").unwrap().clone();
    assert!(listed.tool("read").unwrap().harmless);
    let check = async |server: Server, s: &ServerHandle| {
        connected(s).await;
        server.inject(Fault::ExecuteThenCut).on("tools/call");
        let error = s.call_tool("read", json!({ "call_id": "x" })).await.unwrap_err();
        assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false));
        assert_eq!(server.executions("x"), 1);
    };

    // Replaced, and not listed yet.
    let (server, new_http) = http().await;
    server.inject(Fault::HangBeforeHeaders).on("tools/list").forever();
    let s = before.replace("s", fast(Settings::http(new_http.url()))).unwrap();
    check(server, &s).await;
    assert!(before.catalog().server("s").is_some(), "the old list still stands");

    // Listed by an earlier process; since then it hangs, or refuses to be listed.
    let refusal = Fault::Status(
        500,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}"#.into(),
    );
    for fault in [Fault::HangBeforeHeaders, refusal] {
        let (server, new_http) = http().await;
        let refuses = matches!(fault, Fault::Status(..));
        server.inject(fault).on("tools/list").forever();
        let restored = ServerCatalog::clone(&listed);
        let hub = Hub::builder()
            .server("s", fast(Settings::http(new_http.url())))
            .restore("s", restored)
            .start()
            .unwrap();
        while refuses && hub.catalog().server("s").unwrap().generation.is_none() {
            tokio::time::sleep(SECOND / 100).await;
        }
        check(server, &hub.server("s").unwrap()).await;
        assert!(hub.catalog().server("s").unwrap().tool("read").is_some());
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn the_word_of_the_operator_on_one_tool_wins() {
    let (server, http) = http().await;
    let settings = Settings::http(http.url()).replay_tool("bump", Replay::Always);
    let (_hub, s) = hub(fast(settings).replay_tool("again", Replay::Never));
    connected(&s).await;
    server.inject(Fault::ExecuteThenCut).on("tools/call");
    s.call_tool("bump", json!({ "call_id": "a" })).await.unwrap();
    assert_eq!(server.executions("a"), 2);
    server.inject(Fault::ExecuteThenCut).on("tools/call");
    s.call_tool("again", json!({ "call_id": "b" })).await.unwrap_err();
    assert_eq!(server.executions("b"), 1);
}

#[tokio::test]
async fn reads_are_resent_once_and_only_once() {
    let (server, http) = http().await;
    let (_hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    server.inject(Fault::CutBeforeExecute).on("resources/read").times(1);
    let params = || Some(json!({ "uri": "test://a" }).into());
    s.request("resources/read", params()).await.unwrap();
    server.inject(Fault::CutBeforeExecute).on("resources/read").times(2);
    let error = s.request("resources/read", params()).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_left_is_sent_when_the_server_returns() {
    let (server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    let held = tokio::spawn({
        let s = s.clone();
        async move { s.call_tool("bump", json!({ "call_id": "x" })).await }
    });
    reach(&s, StateKind::Reconnecting).await;
    memory.revive();
    held.await.unwrap().unwrap();
    assert_eq!(server.executions("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_stream_cut_in_the_middle_of_a_call_leaves_its_fate_unknown() {
    let (server, memory, settings) = memory();
    let (hub, s) = hub(settings);
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    let call = |tool: &'static str, id: &'static str| {
        let s = s.clone();
        tokio::spawn(async move { s.call_tool(tool, json!({ "call_id": id })).await })
    };
    let held = call("hold", "unsafe");
    server.wait_for(|c| c.executions.contains_key("unsafe")).await;
    memory.kill();
    memory.revive();
    let error = held.await.unwrap().unwrap_err();
    assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false));
    beyond(&s, 1).await;
    assert_eq!(server.executions("unsafe"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_generation_that_holds_the_call() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    let token = CancellationToken::new();
    let call = tokio::spawn({
        let call = s.call_tool("hold", json!({ "call_id": "x" })).cancel(token.clone());
        async move { call.await }
    });
    server.wait_for(|c| c.executions.contains_key("x")).await;
    token.cancel();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false));
    server.wait_for(|c| c.cancelled.len() == 1).await;
    // A caller that drops its call cancels it too.
    let dropped = tokio::spawn({
        let s = s.clone();
        async move { s.call_tool("hold", json!({ "call_id": "y" })).await }
    });
    server.wait_for(|c| c.executions.contains_key("y")).await;
    dropped.abort();
    server.wait_for(|c| c.cancelled.len() == 2).await;
    assert_eq!(s.status().rpc_failures, 0, "neither counts against the server");
}

#[tokio::test]
async fn over_http_a_cancel_goes_to_the_session_that_holds_the_call() {
    let (server, http) = http().await;
    // No stream and no listings: the only POSTs are the calls and the cancellation.
    server.set_listening_stream(false);
    server.set_capabilities(json!({}));
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    let token = CancellationToken::new();
    let call = tokio::spawn({
        let call = s.call_tool("hold", json!({ "call_id": "x" })).cancel(token.clone());
        async move { call.await }
    });
    server.wait_for(|c| c.executions.contains_key("x")).await;
    let old = server.counters().last_headers["mcp-session-id"].clone();
    s.restart();
    beyond(&s, 1).await;
    s.call_tool("bump", json!({})).await.unwrap();
    assert_ne!(server.counters().last_headers["mcp-session-id"], old);
    token.cancel();
    call.await.unwrap().unwrap_err();
    server.wait_for(|c| c.cancelled.len() == 1).await;
    assert_eq!(server.counters().last_headers["mcp-session-id"], old);
}

#[tokio::test]
async fn progress_never_goes_backwards_across_a_resend() {
    let (server, http) = http().await;
    let settings = Settings::http(http.url()).replay_tool("progress", Replay::Always);
    let (_hub, s) = hub(fast(settings));
    connected(&s).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let call = tokio::spawn(
        s.call_tool("progress", json!({ "steps": 5, "ms": 20, "call_id": "p" }))
            .on_progress(move |progress| sink.lock().unwrap().push(progress.progress))
            .into_future(),
    );
    while seen.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    http.kill().await;
    http.revive().await;
    call.await.unwrap().unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    assert_eq!((seen.last().copied(), server.executions("p")), (Some(5.0), 2));
}

/// A server that shakes hands and then reads nothing until told to; what it reads then is returned.
async fn stalling_server(stream: DuplexStream, go_on: Arc<Notify>) -> Vec<Value> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::with_capacity(16, reader).lines();
    let hello: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} });
    let answer = json!({ "jsonrpc": "2.0", "id": hello["id"], "result": result });
    writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    lines.next_line().await.unwrap();
    go_on.notified().await;
    let mut seen = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        seen.push(serde_json::from_str(&line).unwrap());
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_in_the_queue_is_never_sent() {
    let go_on = Arc::new(Notify::new());
    let servers = Arc::new(Mutex::new(Vec::new()));
    let connector = MemoryConnector::new({
        let (go_on, servers) = (go_on.clone(), servers.clone());
        move || {
            let (ours, theirs) = tokio::io::duplex(64);
            servers.lock().unwrap().push(tokio::spawn(stalling_server(theirs, go_on.clone())));
            Ok(ours)
        }
    });
    let (hub, s) = hub(Settings::memory(connector).protocol(Protocol::Legacy));
    connected(&s).await;
    let blocked = tokio::spawn(
        s.call_tool("first", json!({ "filler": "x".repeat(1000) }))
            .deadline(5 * SECOND)
            .into_future(),
    );
    tokio::time::sleep(SECOND / 10).await;
    let queued = s.call_tool("second", json!({})).deadline(SECOND).await.unwrap_err();
    assert_eq!((queued.outcome, queued.retryable), (Outcome::NotSent, true));
    // Part of the first had left.
    assert_eq!(blocked.await.unwrap().unwrap_err().outcome, Outcome::Unknown);
    go_on.notify_one();
    tokio::time::sleep(SECOND).await;
    hub.shutdown(SECOND).await;
    let server = servers.lock().unwrap().remove(0);
    let seen = server.await.unwrap();
    let methods: Vec<&str> = seen.iter().filter_map(|m| m["method"].as_str()).collect();
    assert_eq!(methods, ["tools/call", "notifications/cancelled"], "{seen:?}");
    assert_eq!(seen[0]["params"]["name"], "first");
}

#[tokio::test]
async fn a_call_that_may_have_run_once_stays_unknown_whatever_comes_of_its_resend() {
    let (server, http) = http().await;
    let (hub, s) = hub(fast(Settings::http(http.url())));
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    server.inject(Fault::ExecuteThenCut).on_tool("again").times(1);
    server.inject(Fault::Status(403, "no".into())).on_tool("again").forever();
    let error = s.call_tool("again", json!({ "call_id": "a" })).await.unwrap_err();
    assert_eq!((error.outcome, server.executions("a")), (Outcome::Unknown, 1));
}
