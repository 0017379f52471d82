//! Connections that nobody uses are pinged.

use evergate_runtime::{Handlers, ServerHandle, Settings, StateKind, Status};
use evergate_testkit::{Eras, Fault, MemoryServer, Server, SessionLoss};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::*;

const EVERY: std::time::Duration = std::time::Duration::from_secs(1500);

fn pings(server: &Server) -> u64 {
    server.counters().requests.get("ping").copied().unwrap_or_default()
}

/// Without a listening stream, whose end would tell.
fn deaf() -> Server {
    let server = Server::new();
    server.inject(Fault::Status(405, String::new())).on("GET").forever();
    server
}

async fn renewed(s: &ServerHandle) {
    let again = |status: &Status| status.reconnects > 0 && status.state == StateKind::Connected;
    assert!(s.wait_until(3 * EVERY, again).await.is_ok(), "{:?}", s.status());
}

fn by_memory(server: &Server) -> Settings {
    let memory = MemoryServer::new(server.clone());
    steady(Settings::memory(connector(&memory))).refresh_every(None)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_pinged_and_stays() {
    for over in [Over::Http, Over::Lines] {
        let server = deaf();
        let (_hub, s) = hub_over(over, &server, Handlers::new());
        connected(&s).await;
        sleep(1490 * SECOND).await;
        assert_eq!(pings(&server), 0);
        sleep(20 * SECOND).await;
        assert_eq!(pings(&server), 1, "{over:?}");
        sleep(10 * EVERY).await;
        assert_eq!(pings(&server), 11, "{over:?}");
        let status = s.status();
        assert_eq!((status.reconnects, status.in_flight, status.rpc_failures), (0, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_forgotten_meanwhile_is_renewed_without_any_call() {
    let shapes = [
        SessionLoss::NotFound404,
        SessionLoss::BadRequest400NoValidSession,
        // Says nothing about sessions: a second handshake decides.
        SessionLoss::BadRequest400Opaque,
    ];
    for shape in shapes {
        let server = deaf();
        let (_hub, s) = hub_over(Over::Http, &server, Handlers::new());
        connected(&s).await;
        sleep(SECOND).await;
        server.expire_sessions(shape.clone());
        let expired = Instant::now();
        renewed(&s).await;
        assert!(expired.elapsed() <= EVERY + SECOND, "{shape:?}: {:?}", expired.elapsed());
        assert_eq!(server.counters().calls, 0);
        s.call_tool("bump", json!({})).await.unwrap();
        assert_eq!(server.counters().handshakes, 2, "{shape:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_calls_flow_nothing_is_pinged() {
    let server = deaf();
    let (_hub, s) = hub_over(Over::Http, &server, Handlers::new());
    connected(&s).await;
    for _ in 0..40 {
        sleep(EVERY / 4).await;
        s.call_tool("echo", json!({})).await.unwrap();
    }
    assert_eq!(pings(&server), 0);
    // Not longer after the last of them than it says.
    sleep(EVERY + SECOND).await;
    assert_eq!(pings(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_at_work_is_left_to_it() {
    let server = Server::new();
    let (_hub, s) = hub(by_memory(&server).max_timeout(10 * EVERY));
    connected(&s).await;
    let call = tokio::spawn(s.call_tool("hold", json!({})).timeout(5 * EVERY).into_future());
    sleep(4 * EVERY).await;
    assert_eq!(pings(&server), 0);
    server.release_held();
    call.await.unwrap().unwrap();
    sleep(2 * EVERY).await;
    assert!(pings(&server) >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_use_too() {
    let server = Server::new();
    let (_hub, s) = hub(by_memory(&server).refresh_every(Some(EVERY / 3)));
    connected(&s).await;
    sleep(20 * EVERY).await;
    assert_eq!(pings(&server), 0);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_an_answer_and_silence_condemns_the_connection() {
    let server = Server::new();
    let (_hub, s) = hub(by_memory(&server));
    connected(&s).await;
    server.inject(Fault::Status(0, "Method not found".into())).on("ping").times(5);
    sleep(5 * EVERY + SECOND).await;
    assert_eq!((pings(&server), s.status().reconnects), (5, 0));
    server.inject(Fault::HangBeforeHeaders).on("ping").times(3);
    let silent = Instant::now();
    renewed(&s).await;
    // Three of them, ten seconds each and half a minute apart.
    assert!(silent.elapsed() < EVERY + 100 * SECOND, "{:?}", silent.elapsed());
    assert_eq!(server.counters().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn switched_off_nothing_is_pinged() {
    let server = Server::new();
    let (_hub, s) = hub(by_memory(&server).ping_every(None));
    connected(&s).await;
    sleep(100 * EVERY).await;
    assert_eq!(pings(&server), 0);
    assert_eq!(s.status().state, StateKind::Connected);
}

/// There is no ping without a handshake.
#[tokio::test(start_paused = true)]
async fn a_server_without_a_handshake_is_asked_what_it_is() {
    for over in [Over::Http, Over::Lines] {
        let server = Server::new();
        server.set_eras(Eras::Modern);
        let (_hub, s) = hub_over(over, &server, Handlers::new());
        connected(&s).await;
        let asked = || server.counters().requests.get("server/discover").copied();
        let before = asked().unwrap_or_default();
        sleep(2 * EVERY + SECOND).await;
        assert_eq!(asked(), Some(before + 2), "{over:?}");
        assert_eq!((pings(&server), s.status().reconnects), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_ping_closes_no_breaker_and_is_not_kept_back_by_one() {
    let server = Server::new();
    let settings = by_memory(&server).rate_limit(1, 100 * EVERY).ping_every(Some(60 * SECOND));
    let (_hub, s) = hub(settings);
    connected(&s).await;
    server.inject(Fault::RateLimited { retry_after: Some(3600) }).on_tool("bump").arm();
    s.call_tool("bump", json!({})).await.unwrap_err();
    sleep(601 * SECOND).await;
    assert_eq!(pings(&server), 10);
    assert!(s.status().rate_limited.is_some());
}

#[tokio::test(start_paused = true)]
async fn who_refuses_to_be_pinged_is_not_pinged_more_often() {
    let server = deaf();
    let (_hub, s) = hub_over(Over::Http, &server, Handlers::new());
    connected(&s).await;
    server.inject(Fault::Status(429, String::new())).on("ping").forever();
    sleep(10 * EVERY + SECOND).await;
    assert!((9..=11).contains(&pings(&server)), "{}", pings(&server));
    assert_eq!(s.status().reconnects, 0);
}
