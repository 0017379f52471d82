//! Answers that come as event streams: resumed where the server allows, never replayed where it does not.

use evergate_runtime::{Outcome, Settings, StateKind};
use evergate_testkit::{AnswerStyle, Fault, HttpServer, Server};
use serde_json::json;

use crate::support::*;

async fn start() -> (Server, HttpServer, evergate_runtime::Hub, evergate_runtime::ServerHandle) {
    let server = Server::new();
    server.set_answer_style(AnswerStyle::Sse);
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    (server, http, hub, s)
}

#[tokio::test]
async fn a_stream_cut_after_an_event_id_is_resumed() {
    let (server, _http, _hub, s) = start().await;
    server.inject(Fault::CutMidStream { event_id: true }).on("tools/call");
    s.call_tool("bump", json!({ "call_id": "x" })).await.unwrap();
    assert_eq!((server.executions("x"), server.counters().handshakes), (1, 1));
}

#[tokio::test]
async fn a_server_may_close_the_stream_and_be_polled() {
    let (server, _http, _hub, s) = start().await;
    server.inject(Fault::SseRetry(20)).on("tools/call");
    s.call_tool("bump", json!({ "call_id": "x" })).await.unwrap();
    assert_eq!(server.executions("x"), 1);
}

#[tokio::test]
async fn without_an_event_id_the_fate_of_the_call_is_unknown() {
    let (server, _http, _hub, s) = start().await;
    server.inject(Fault::CutMidStream { event_id: false }).on("tools/call");
    let error = s.call_tool("bump", json!({ "call_id": "x" })).await.unwrap_err();
    assert_eq!((error.outcome, server.executions("x")), (Outcome::Unknown, 1));
}

#[tokio::test]
async fn a_session_lost_after_the_call_was_accepted_is_renewed_but_the_call_is_not_replayed() {
    let (server, _http, _hub, s) = start().await;
    server.inject(Fault::CutMidStream { event_id: true }).on("tools/call").no_resume();
    let error = s.call_tool("bump", json!({ "call_id": "x" })).await.unwrap_err();
    assert_eq!((error.outcome, server.executions("x")), (Outcome::Unknown, 1));
    assert!(error.chain().contains("after it had accepted"), "{}", error.chain());
    beyond(&s, 1).await;
    assert_eq!(server.executions("x"), 1);
}

#[tokio::test]
async fn a_silent_stream_ends_with_the_deadline_of_the_call() {
    let (server, _http, _hub, s) = start().await;
    server.inject(Fault::HangMidStream).on("tools/call");
    let error = s.call_tool("bump", json!({})).deadline(2 * SECOND).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
    server.wait_for(|c| c.cancelled.len() == 1).await;
    assert_eq!(s.status().state, StateKind::Connected);
}

#[tokio::test]
async fn notifications_before_the_answer_do_not_confuse_it() {
    let (server, _http, _hub, s) = start().await;
    for tool in ["log", "progress"] {
        s.call_tool(tool, json!({ "steps": 3, "ms": 1 })).on_progress(|_| ()).await.unwrap();
    }
    server.inject(Fault::DuplicateAnswer).on("tools/call");
    s.call_tool("bump", json!({})).await.unwrap();
    server.inject(Fault::Batch).on("tools/call");
    s.call_tool("bump", json!({})).await.unwrap();
}

#[tokio::test]
async fn connections_are_used_again_after_a_streamed_answer() {
    let (server, _http, _hub, s) = start().await;
    for _ in 0..20 {
        s.call_tool("bump", json!({})).await.unwrap();
    }
    let open = server.counters().connections_open;
    assert!(open <= 4, "{open} connections for 20 calls in a row");
}
