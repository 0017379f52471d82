//! Strikes, budgets, and what never counts as one.

use evergate_runtime::{CallFailure, Outcome, Settings, StateKind};
use evergate_testkit::{Fault, HttpServer, Server};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn three_unanswered_calls_in_a_row_condemn_a_connection() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    server.inject(Fault::HangBeforeHeaders).on("tools/call").times(5);
    for strikes in 1..=2 {
        let error = s.call_tool("bump", json!({})).deadline(SECOND).await.unwrap_err();
        assert!(matches!(error.source, CallFailure::TimedOut { .. }));
        s.wait_until(PATIENCE, |status| status.rpc_failures == strikes).await.unwrap();
        assert!(s.status().degraded);
    }
    // An answer in between clears them.
    s.call_tool("bump", json!({})).deadline(SECOND).await.unwrap_err();
    beyond(&s, 1).await;
    assert_eq!(s.status().rpc_failures, 0, "a new connection starts clean");
}

#[tokio::test(start_paused = true)]
async fn an_answer_clears_the_strikes_of_calls_but_not_of_listings() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    s.call_tool("bump", json!({})).await.unwrap();
    server.inject(Fault::HangBeforeHeaders).on("tools/list").times(2);
    s.refresh();
    s.wait_until(PATIENCE, |status| status.discovery_failures == 1).await.unwrap();
    server.inject(Fault::HangBeforeHeaders).on("tools/call").times(2);
    for _ in 0..2 {
        s.call_tool("bump", json!({})).deadline(SECOND / 10).await.unwrap_err();
    }
    s.wait_until(PATIENCE, |status| status.rpc_failures == 2).await.unwrap();
    s.call_tool("bump", json!({})).await.unwrap();
    s.wait_until(PATIENCE, |status| status.rpc_failures == 0).await.unwrap();
    assert!(s.status().discovery_failures >= 1);
    assert_eq!(s.status().generation.unwrap().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancels_tool_errors_and_unsupported_methods_never_count() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.failure_threshold(1));
    connected(&s).await;
    for _ in 0..5 {
        let token = CancellationToken::new();
        token.cancel();
        s.call_tool("hold", json!({})).cancel(token).await.unwrap_err();
        s.call_tool("fail", json!({})).await.unwrap();
        s.call_tool("rpc_error", json!({})).await.unwrap_err();
        let error = s.request("no/such/method", None).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Answered);
    }
    let status = s.status();
    assert_eq!((status.generation.unwrap().get(), status.rpc_failures), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn garbage_shows_in_status_and_harms_nobody() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.max_message_bytes(64 * 1024));
    connected(&s).await;
    server.inject(Fault::Garbage).on("tools/call");
    s.call_tool("bump", json!({})).await.unwrap();
    let status = s.status();
    assert_eq!(status.garbage, 1);
    assert!(status.last_garbage.unwrap().contains("not a JSON-RPC message"));
    server.inject(Fault::Oversized(200_000)).on("tools/call");
    let started = tokio::time::Instant::now();
    let error = s.call_tool("bump", json!({})).deadline(SECOND).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::TooLarge { limit: 65536 }), "{error:?}");
    assert!(error.chain().contains("larger than 65536"), "{}", error.chain());
    assert!(started.elapsed() < SECOND, "known at once, not when the time is up");
    assert!(s.status().last_garbage.unwrap().contains("larger than 65536"));
    assert_eq!(s.status().rpc_failures, 0, "a large answer is no sign of illness");
    for fault in [Fault::DuplicateAnswer, Fault::Batch] {
        server.inject(fault).on("tools/call");
        s.call_tool("bump", json!({})).await.unwrap();
    }
    assert_eq!(s.status().state, StateKind::Connected);
    server.inject(Fault::WrongId).on("tools/call");
    let error = s.call_tool("bump", json!({})).deadline(SECOND).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
}

#[tokio::test]
async fn garbage_over_http_is_an_unknown_outcome_and_bounded() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(fast(Settings::http(http.url())).max_message_bytes(64 * 1024));
    connected(&s).await;
    let cases = [
        Fault::Garbage,
        Fault::Oversized(200_000),
        Fault::WrongId,
        Fault::CloseAfterBytes(40),
        Fault::HalfClose,
    ];
    for fault in cases {
        s.call_tool("read", json!({})).await.unwrap();
        server.inject(fault.clone()).on_tool("bump");
        let error = s.call_tool("bump", json!({})).deadline(SECOND * 5).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Unknown, "{fault:?} {}", error.chain());
    }
    server.inject(Fault::IdLess400).on_tool("bump").times(2);
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Answered, "bound to its POST: {}", error.chain());
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_cancelled_call_is_ignored() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    server.inject(Fault::LateAnswer(SECOND)).on("tools/call");
    s.call_tool("bump", json!({})).deadline(SECOND).await.unwrap_err();
    let answered = server.counters().answered;
    server.wait_for(|c| c.answered > answered).await;
    s.call_tool("bump", json!({})).await.unwrap();
    assert_eq!(s.status().garbage, 0);
}
