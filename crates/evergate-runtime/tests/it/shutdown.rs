//! Off means off: promptly, with nothing left behind.

use std::future::IntoFuture as _;
use std::time::Duration;

use evergate_runtime::{CallFailure, Outcome, Settings, StateKind};
use evergate_testkit::{Fault, HttpServer, Server};
use serde_json::json;
use tokio::time::Instant;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn disable_and_shutdown_interrupt_a_backoff_and_a_connect_at_once() {
    for shut_down in [false, true] {
        for connecting in [false, true] {
            let (server, memory, settings) = memory();
            memory.set_connect_delay(if connecting { PATIENCE } else { Duration::ZERO });
            let (hub, s) = hub(settings);
            if connecting {
                server.wait_for(|c| c.requests.contains_key("initialize")).await;
            } else {
                connected(&s).await;
                memory.kill();
                reach(&s, StateKind::Reconnecting).await;
            }
            let started = Instant::now();
            if shut_down {
                let report = hub.shutdown(SECOND).await;
                assert_eq!(report.unfinished_tasks, 0);
            } else {
                s.disable();
                reach(&s, StateKind::Disabled).await;
            }
            assert_eq!(
                started.elapsed(),
                Duration::ZERO,
                "shut_down={shut_down} connecting={connecting}"
            );
            server.wait_for(|c| c.connections_open == 0).await;
        }
    }
}

#[tokio::test]
async fn a_hung_close_is_bounded_and_always_ends_disabled() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = hub(Settings::http(http.url()).close_timeout(SECOND / 2));
    connected(&s).await;
    server.inject(Fault::HangInDelete).forever();
    s.disable();
    reach(&s, StateKind::Disabled).await;
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::Disabled));
    s.enable();
    s.call_tool("bump", json!({})).await.unwrap();
    let report = hub.shutdown(SECOND).await;
    assert_eq!((report.interrupted_calls, report.unfinished_tasks), (0, 0));
}

#[tokio::test]
async fn closing_deletes_the_session() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    s.disable();
    server.wait_for(|c| c.sessions_deleted == 1 && c.sessions_open == 0).await;
    s.enable();
    connected(&s).await;
    hub.shutdown(SECOND).await;
    server.wait_for(|c| c.sessions_deleted == 2 && c.sessions_open == 0 && c.listening == 0).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_calls_finish_until_its_deadline() {
    let (server, _memory, settings) = memory();
    let (hub, s) = hub(settings);
    connected(&s).await;
    let short = tokio::spawn(s.call_tool("slow", json!({ "ms": 1000 })).into_future());
    let long = tokio::spawn(s.call_tool("hold", json!({ "call_id": "long" })).into_future());
    server.wait_for(|c| c.calls == 2).await;
    let report = tokio::spawn(async move { hub.shutdown(5 * SECOND).await });
    tokio::task::yield_now().await;
    let late = s.call_tool("bump", json!({})).await.unwrap_err();
    assert!(matches!(late.source, CallFailure::ShuttingDown));
    short.await.unwrap().unwrap();
    let report = report.await.unwrap();
    assert_eq!((report.interrupted_calls, report.unfinished_tasks), (1, 0));
    assert_eq!(long.await.unwrap().unwrap_err().outcome, Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_racing_a_shutdown_installs_nothing() {
    for delay in [0, 1, 500, 999, 1000, 1001, 1500] {
        let (server, memory, settings) = memory();
        let (hub, s) = hub(settings);
        connected(&s).await;
        memory.kill();
        memory.revive();
        memory.set_connect_delay(SECOND / 2);
        tokio::time::sleep(Duration::from_millis(delay)).await;
        let report = hub.shutdown(Duration::ZERO).await;
        assert_eq!(report.unfinished_tasks, 0, "{delay}");
        server.wait_for(|c| c.connections_open == 0).await;
        assert_eq!(s.status().state, StateKind::Disabled, "{delay}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_toggles_ends_in_the_last_asked_state() {
    let mut random = fastrand_like(7);
    for last in [true, false] {
        let (server, _memory, settings) = memory();
        let (hub, s) = hub(settings);
        for _ in 0..1000 {
            match random() % 4 {
                0 => s.enable(),
                1 => s.disable(),
                2 => s.restart(),
                _ => tokio::time::sleep(Duration::from_millis(random() % 3)).await,
            }
        }
        if last {
            s.enable();
        } else {
            s.disable();
        }
        reach(&s, if last { StateKind::Connected } else { StateKind::Disabled }).await;
        tokio::time::sleep(10 * SECOND).await;
        let expected = u64::from(last);
        server.wait_for(|c| c.connections_open == expected).await;
        assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
    }
}

/// A small deterministic generator; nothing here needs a better one.
fn fastrand_like(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_hub_cuts_everything_off() {
    let (server, _memory, settings) = memory();
    let (hub, s) = hub(settings);
    connected(&s).await;
    drop(hub);
    server.wait_for(|c| c.connections_open == 0).await;
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::ShuttingDown));
}

#[tokio::test(start_paused = true)]
async fn a_handle_stays_valid_through_everything() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    s.call_tool("bump", json!({})).await.unwrap();
    s.disable();
    reach(&s, StateKind::Disabled).await;
    s.restart(); // Means nothing to a server that is off.
    tokio::time::sleep(SECOND).await;
    assert_eq!(s.status().state, StateKind::Disabled);
    s.enable();
    s.call_tool("bump", json!({})).await.unwrap();
    memory.kill();
    memory.revive();
    s.restart();
    s.call_tool("bump", json!({})).await.unwrap();
    assert!(s.status().generation.unwrap().get() >= 3);
}

#[tokio::test]
async fn a_call_between_disable_and_enable_waits_for_the_server_to_return() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(Settings::http(http.url()).close_timeout(SECOND));
    connected(&s).await;
    server.inject(Fault::HangInDelete).forever();
    s.disable();
    s.enable();
    s.call_tool("bump", json!({})).await.unwrap();
    s.disable();
    reach(&s, StateKind::Disabling).await;
    s.enable();
    reach_returning(&s).await;
    s.call_tool("bump", json!({})).await.unwrap();
    assert_eq!(s.status().generation.unwrap().get(), 3);
}

/// Until the driver has heard of the enable, a call sees the command; after that, the state. Both must do.
async fn reach_returning(s: &evergate_runtime::ServerHandle) {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(s.status().state, StateKind::Disabling);
}

#[tokio::test]
async fn nothing_is_opened_during_a_shutdown() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = hub(Settings::http(http.url()).close_timeout(SECOND));
    connected(&s).await;
    server.inject(Fault::HangInDelete).times(1);
    let down = tokio::spawn(async move { hub.shutdown(SECOND).await });
    reach(&s, StateKind::Disabling).await;
    s.enable();
    s.restart();
    assert_eq!(down.await.unwrap().unfinished_tasks, 0);
    assert_eq!((server.counters().handshakes, s.status().state), (1, StateKind::Disabled));
}

#[test]
fn a_call_may_be_dropped_anywhere() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, _memory, settings) = runtime.block_on(async { memory() });
    let (_hub, s) = runtime.block_on(async { hub(settings) });
    let mut call = s.call_tool("hold", json!({ "call_id": "x" })).into_future();
    runtime.block_on(async {
        tokio::select! {
            _ = &mut call => panic!("it holds"),
            () = server.wait_for(|c| c.executions.contains_key("x")) => {}
        }
    });
    drop(call); // Outside of the runtime.
    runtime.block_on(server.wait_for(|c| c.cancelled.len() == 1));
}
