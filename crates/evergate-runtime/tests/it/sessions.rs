//! Session loss in every known shape: one new handshake, nothing lost, nothing twice.

use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evergate_runtime::{CallFailure, HttpKind, Outcome, Settings, StateKind};
use evergate_testkit::{Fault, HttpServer, Server, SessionLoss};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::*;

fn shapes() -> Vec<SessionLoss> {
    vec![
        SessionLoss::NotFound404,
        SessionLoss::NotFound404Empty,
        SessionLoss::BadRequest400NoValidSession,
        SessionLoss::BadRequest400NotInitialized,
        SessionLoss::BadRequest400Opaque,
        SessionLoss::Ok200(-32600, "Session not found".into()),
        SessionLoss::Ok200(-32001, "Session not found".into()),
        SessionLoss::Ok200(-32015, "unknown session".into()),
        SessionLoss::Unauthorized401,
        SessionLoss::Unprocessable422,
        SessionLoss::Unavailable503,
    ]
}

async fn start() -> (Server, HttpServer) {
    let server = Server::new();
    // Without a stream to notice the loss first, the call has to.
    server.set_listening_stream(false);
    let http = HttpServer::start(server.clone()).await;
    (server, http)
}

#[tokio::test]
async fn every_shape_of_session_loss_is_renewed_and_the_call_answered() {
    for shape in shapes() {
        let (server, http) = start().await;
        let (hub, s) = hub(Settings::http(http.url()));
        s.call_tool("bump", json!({ "call_id": "before" })).await.unwrap();
        server.expire_sessions(shape.clone());
        s.call_tool("bump", json!({ "call_id": "after" }))
            .await
            .unwrap_or_else(|e| panic!("{shape:?}: {}", e.chain()));
        assert_eq!(server.executions("after"), 1, "{shape:?}");
        assert_eq!(server.counters().handshakes, 2, "{shape:?}");
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn sixty_four_callers_on_one_expired_session_cause_one_handshake() {
    for shape in [SessionLoss::NotFound404, SessionLoss::BadRequest400Opaque] {
        let (server, http) = start().await;
        let (_hub, s) = hub(Settings::http(http.url()));
        connected(&s).await;
        server.expire_sessions(shape.clone());
        let mut calls = JoinSet::new();
        for n in 0..64 {
            let s = s.clone();
            calls.spawn(
                async move { s.call_tool("bump", json!({ "call_id": format!("c{n}") })).await },
            );
        }
        let answers = calls.join_all().await;
        assert!(answers.iter().all(Result::is_ok), "{shape:?}: {answers:?}");
        let counters = server.counters();
        assert_eq!(counters.handshakes, 2, "{shape:?}: the first, and one for all");
        assert!((0..64).all(|n| server.executions(&format!("c{n}")) == 1), "{shape:?}");
    }
}

#[tokio::test]
async fn a_plain_server_with_sessions_is_renewed_too() {
    let (server, http) = start().await;
    server.set_rpc_sessions(true);
    let (_hub, s) = hub(Settings::http(http.rpc_url()).http_kind(HttpKind::Plain));
    connected(&s).await;
    server.expire_sessions(SessionLoss::NotFound404);
    s.call_tool("bump", json!({ "call_id": "x" })).await.unwrap();
    assert_eq!((server.counters().handshakes, server.executions("x")), (2, 1));
}

#[tokio::test]
async fn a_bad_request_is_passed_on_and_disturbs_nobody() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    let neighbour = tokio::spawn({
        let s = s.clone();
        async move { s.call_tool("hold", json!({ "call_id": "neighbour" })).await }
    });
    server.wait_for(|c| c.executions.contains_key("neighbour")).await;
    let body =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such thing","x":1}}"#;
    server.inject(Fault::Status(400, body.into())).on_tool("bump").forever();
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Answered);
    let CallFailure::Rpc(rpc) = &error.source else { panic!("{error:?}") };
    assert_eq!(rpc.raw.as_str(), r#"{"code":-32602,"message":"no such thing","x":1}"#);
    // The verdict is remembered: no second check.
    s.call_tool("bump", json!({})).await.unwrap_err();
    assert_eq!(server.counters().handshakes, 2, "one check beside the first session");
    assert_eq!(s.status().generation.unwrap().get(), 1, "the first session still serves");
    server.release_held();
    neighbour.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_second_loss_in_a_row_is_an_error() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    server.inject(Fault::SessionLoss(SessionLoss::NotFound404)).on("tools/call").times(2);
    let error = s.call_tool("bump", json!({ "call_id": "x" })).await.unwrap_err();
    assert_eq!((error.outcome, error.retryable), (Outcome::Rejected, true));
    assert_eq!(server.executions("x"), 0);
}

#[tokio::test]
async fn the_original_error_is_kept_when_the_renewal_fails() {
    let (server, http) = start().await;
    let (_hub, s) = hub(steady(Settings::http(http.url())));
    connected(&s).await;
    server.expire_sessions(SessionLoss::NotFound404);
    server.inject(Fault::Status(500, "broken".into())).on("initialize").forever();
    let error = s.call_tool("bump", json!({})).deadline(3 * SECOND).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Rejected);
    let chain = error.chain();
    assert!(chain.contains("Session not found"), "the server's own words: {chain}");
    assert!(chain.contains("reconnecting"), "and what became of the renewal: {chain}");
    assert!(s.status().last_error.unwrap().contains("500"));
}

#[tokio::test]
async fn renewing_a_session_lets_accepted_calls_finish() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    let accepted = tokio::spawn({
        let s = s.clone();
        async move { s.call_tool("hold", json!({ "call_id": "accepted" })).await }
    });
    server.wait_for(|c| c.executions.contains_key("accepted")).await;
    server.expire_sessions(SessionLoss::NotFound404);
    s.call_tool("bump", json!({})).await.unwrap();
    assert_eq!(s.status().generation.unwrap().get(), 2);
    server.release_held();
    accepted.await.unwrap().unwrap();
    assert_eq!(server.executions("accepted"), 1);
}

#[tokio::test]
async fn only_a_successful_initialize_gives_a_session_id_and_it_never_leaks() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()).header("x-key", "hunter2"));
    connected(&s).await;
    s.call_tool("echo", json!({ "text": "x" })).await.unwrap();
    let headers = server.counters().last_headers;
    let session = headers["mcp-session-id"].clone();
    assert_eq!(&headers["x-key"], "hunter2");
    assert_eq!(&headers["mcp-protocol-version"], "2025-11-25");
    let body = format!("Session {session} not found for hunter2");
    server.inject(Fault::Status(404, body)).on("tools/call");
    s.call_tool("echo", json!({})).await.unwrap();
    let shown = format!("{s:?} {:?}", s.status());
    assert!(shown.contains("<secret> not found for <secret>"), "{shown}");
    assert!(!shown.contains(&session) && !shown.contains("hunter2"), "{shown}");
    // Headers are kept through the renewal, the session id is not.
    assert_eq!(&server.counters().last_headers["x-key"], "hunter2");
    assert_ne!(server.counters().last_headers.get("mcp-session-id"), Some(&session));
}

#[tokio::test]
async fn not_session_loss_means_no_new_handshake() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    for (status, body) in
        [(500, "session not found"), (403, "session not found"), (429, "slow down")]
    {
        server.inject(Fault::Status(status, body.into())).on("tools/call");
        let error = s.call_tool("bump", json!({})).await.unwrap_err();
        let expected = if status == 500 { Outcome::Unknown } else { Outcome::Rejected };
        assert_eq!((error.outcome, error.retryable), (expected, status == 429), "{status}");
    }
    for tool in ["fail", "rpc_error"] {
        let _ = s.call_tool(tool, json!({})).await;
    }
    assert_eq!(server.counters().handshakes, 1);
}

#[tokio::test]
async fn credentials_refused_park_the_server() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    server.inject(Fault::Status(401, "invalid_token".into())).forever();
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert_eq!((error.outcome, error.retryable), (Outcome::Rejected, false));
    reach(&s, StateKind::PermanentlyFailed).await;
    assert_eq!(s.status().reason.as_str(), "auth_required");
    assert!(s.status().reason.revival().is_some());
    let handshakes = server.counters().handshakes;
    s.call_tool("bump", json!({})).await.unwrap_err();
    assert_eq!(server.counters().handshakes, handshakes, "parked, not hammered");
    server.clear_faults();
    s.restart();
    s.call_tool("bump", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_failed_handshake_deletes_its_provisional_session() {
    let server = Server::new();
    server.inject(Fault::Status(500, "no".into())).on("notifications/initialized").times(1);
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(steady(Settings::http(http.url())));
    connected(&s).await;
    server.wait_for(|c| c.sessions_deleted == 1 && c.sessions_open == 1).await;
}

#[tokio::test]
async fn a_revision_nobody_speaks_parks_the_server_and_leaves_no_session() {
    let (server, http) = start().await;
    server.set_protocol("1999-01-01");
    let (_hub, s) = hub(Settings::http(http.url()));
    reach(&s, StateKind::PermanentlyFailed).await;
    assert_eq!(s.status().reason.as_str(), "unsupported_protocol");
    server.wait_for(|c| c.sessions_open == 0 && c.sessions_deleted == 1).await;
}

/// Serves `/any` as `/sse` or as `/mcp`: same length, so that the bytes can be replaced as they pass.
async fn switching_proxy(to: SocketAddr, as_sse: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/any", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let as_sse = as_sse.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                let (mut from_server, mut to_server) = server.split();
                let (mut from_client, mut to_client) = client.split();
                let back = tokio::io::copy(&mut from_server, &mut to_client);
                let forth = async {
                    let mut chunk = vec![0; 64 * 1024];
                    while let Ok(n @ 1..) = from_client.read(&mut chunk).await {
                        let path =
                            if as_sse.load(Ordering::SeqCst) { b" /sse " } else { b" /mcp " };
                        if let Some(at) = chunk[..n].windows(6).position(|part| part == b" /any ") {
                            chunk[at..at + 6].copy_from_slice(path);
                        }
                        to_server.write_all(&chunk[..n]).await.unwrap();
                    }
                };
                tokio::select! { _ = back => (), () = forth => () }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_dialect_is_remembered_and_probed_again_when_it_fails() {
    let (server, http) = start().await;
    let as_sse = Arc::new(AtomicBool::new(true));
    let (_hub, s) = hub(fast(Settings::http(switching_proxy(http.addr(), as_sse.clone()).await)));
    connected(&s).await;
    assert_eq!(s.status().transport, Some("sse"));
    let initializes = || server.counters().requests["initialize"];
    let before = initializes();
    s.restart();
    beyond(&s, 1).await;
    assert_eq!((s.status().transport, initializes()), (Some("sse"), before + 1), "no probe needed");
    // The server was replaced by one that speaks another dialect.
    as_sse.store(false, Ordering::SeqCst);
    s.restart();
    beyond(&s, 2).await;
    assert_eq!(s.status().transport, Some("streamable_http"));
    s.call_tool("bump", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_server_that_never_acknowledges_is_not_waited_for_longer_than_the_header_timeout() {
    let (server, http) = start().await;
    server.inject(Fault::HangBeforeHeaders).on("notifications/initialized");
    let (_hub, s) = hub(fast(Settings::http(http.url())).header_timeout(SECOND / 5));
    connected(&s).await;
    assert!(server.counters().handshakes >= 2);
    assert!(s.status().last_error.unwrap().contains("no response within 200ms"));
}

#[tokio::test]
async fn what_became_of_a_request_in_doubt_is_what_became_of_it_on_the_candidate() {
    let (server, http) = start().await;
    let (_hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    server.expire_sessions(SessionLoss::BadRequest400Opaque);
    let error =
        s.call_tool("hold", json!({ "call_id": "late" })).deadline(2 * SECOND).await.unwrap_err();
    assert_eq!((error.outcome, server.executions("late")), (Outcome::Unknown, 1));
    assert!(matches!(error.source, CallFailure::TimedOut { .. }));

    let (server, http) = start().await;
    let (_hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    server.expire_sessions(SessionLoss::BadRequest400Opaque);
    server.inject(Fault::ExecuteThenCut).on_tool("bump").times(2);
    let error = s.call_tool("bump", json!({ "call_id": "cut" })).await.unwrap_err();
    assert_eq!(
        (error.outcome, server.executions("cut")),
        (Outcome::Unknown, 1),
        "{}",
        error.chain()
    );
}

#[tokio::test]
async fn a_caller_in_doubt_that_gives_up_leaves_the_others_their_turn() {
    let (server, http) = start().await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    server.expire_sessions(SessionLoss::BadRequest400Opaque);
    let token = CancellationToken::new();
    let scout = tokio::spawn(
        s.call_tool("hold", json!({ "call_id": "a" })).cancel(token.clone()).into_future(),
    );
    server.wait_for(|c| c.executions.contains_key("a")).await;
    let other = tokio::spawn(s.call_tool("bump", json!({ "call_id": "b" })).into_future());
    let refused = server.counters().requests["tools/call"];
    server.wait_for(|c| c.requests["tools/call"] > refused).await;
    token.cancel();
    assert_eq!(scout.await.unwrap().unwrap_err().outcome, Outcome::Unknown);
    other.await.unwrap().unwrap();
    assert_eq!((server.executions("b"), server.counters().handshakes), (1, 2));
}
