//! Held calls: how long they wait, and what ends the wait.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evergate_runtime::{
    CallFailure, Hub, OnExhausted, Outcome, Profile, ReconnectLimiter, StateKind,
};
use evergate_testkit::Fault;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_reconnect_of_31_seconds_serves_a_waiter_with_60() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    let (call, started) = (s.call_tool("bump", json!({})).deadline(60 * SECOND), Instant::now());
    let back = async {
        tokio::time::sleep(31 * SECOND).await;
        memory.revive();
    };
    let (answer, ()) = tokio::join!(call.into_future(), back);
    answer.unwrap();
    assert!(started.elapsed() >= 31 * SECOND, "{:?}", started.elapsed());
}

/// Delays grow for nobody's sake but the server's; a call that waits is worth an attempt every few seconds, however often
/// the server has died.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_meets_its_server_soon() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    for _ in 0..4 {
        memory.kill();
        s.wait_until(PATIENCE, |s| s.state != StateKind::Connected).await.unwrap();
        let call = s.call_tool("bump", json!({}));
        let back = async {
            tokio::time::sleep(7 * SECOND).await;
            memory.revive();
            Instant::now()
        };
        let (answer, back) = tokio::join!(call.into_future(), back);
        answer.unwrap();
        assert!(back.elapsed() <= 4 * SECOND, "{:?}", back.elapsed());
    }
}

/// Attempts that calls ask for do not use up those that are planned.
#[tokio::test(start_paused = true)]
async fn waiting_calls_do_not_exhaust_the_attempts() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings.on_exhausted(OnExhausted::Fail));
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    s.call_tool("bump", json!({})).deadline(25 * SECOND).await.unwrap_err();
    assert_eq!(s.status().state, StateKind::Reconnecting);
    assert!(s.status().attempts <= 5, "{}", s.status().attempts);
    reach(&s, StateKind::PermanentlyFailed).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_ends_at_its_own_deadline_and_says_why() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    let started = Instant::now();
    let error = s.call_tool("bump", json!({})).deadline(5 * SECOND).await.unwrap_err();
    assert_eq!(started.elapsed(), 5 * SECOND);
    assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, true));
    let CallFailure::NotConnected { state, next_retry, last_error, .. } = &error.source else {
        panic!("{error:?}")
    };
    assert_eq!(*state, StateKind::Reconnecting);
    assert!(next_retry.is_some() && last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_call_is_held_for_the_hold_of_its_server() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings.max_attempts(None));
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    let started = Instant::now();
    s.call_tool("bump", json!({})).await.unwrap_err();
    assert_eq!(started.elapsed(), 45 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn cancelling_one_waiter_leaves_the_others() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    let token = CancellationToken::new();
    let cancelled = tokio::spawn({
        let call = s.call_tool("bump", json!({})).cancel(token.clone());
        async move { call.await }
    });
    let other = tokio::spawn({
        let s = s.clone();
        async move { s.call_tool("bump", json!({})).await }
    });
    while s.status().held < 2 {
        tokio::task::yield_now().await;
    }
    token.cancel();
    let error = cancelled.await.unwrap().unwrap_err();
    assert!(matches!(error.source, CallFailure::Cancelled));
    assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, false));
    assert_eq!(s.status().held, 1);
    memory.revive();
    other.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn disable_and_permanent_failure_wake_waiters_at_once() {
    for disable in [true, false] {
        let (server, memory, settings) = memory();
        let (_hub, s) = hub(settings.max_attempts(Some(1)).on_exhausted(OnExhausted::Fail));
        connected(&s).await;
        memory.kill();
        reach(&s, StateKind::Reconnecting).await;
        let waiter = tokio::spawn({
            let s = s.clone();
            async move { s.call_tool("bump", json!({})).await }
        });
        while s.status().held == 0 {
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        if disable {
            s.disable();
        }
        let error = waiter.await.unwrap().unwrap_err();
        assert!(started.elapsed() <= SECOND, "{:?}", started.elapsed());
        assert!(!error.retryable);
        match error.source {
            CallFailure::Disabled => assert!(disable),
            CallFailure::PermanentlyFailed { reason, .. } => {
                assert!(!disable);
                assert_eq!(reason.as_str(), "attempts_exhausted");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(server.counters().calls, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_are_turned_away_at_once() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings.max_held(2));
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    for _ in 0..2 {
        let s = s.clone();
        tokio::spawn(async move { s.call_tool("bump", json!({})).await });
    }
    while s.status().held < 2 {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::TooManyHeld { limit: 2 }));
    assert_eq!((started.elapsed(), error.retryable), (Duration::ZERO, true));
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_of_the_server_wait_their_turn() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.max_in_flight(2));
    connected(&s).await;
    let calls: Vec<_> = (0..4)
        .map(|n| {
            let s = s.clone();
            tokio::spawn(
                async move { s.call_tool("hold", json!({ "call_id": format!("c{n}") })).await },
            )
        })
        .collect();
    server.wait_for(|c| c.calls == 2).await;
    while s.status().held < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.counters().calls, 2);
    server.release_held();
    server.wait_for(|c| c.calls == 4).await;
    server.release_held();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

/// Whatever else happens to the server meanwhile: whoever waits keeps its place.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_served_in_the_order_in_which_they_came() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.max_in_flight(1).refresh_every(Some(SECOND / 3)));
    connected(&s).await;
    let served: Arc<Mutex<Vec<u32>>> = Arc::default();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (s, served) = (s.clone(), served.clone());
        calls.spawn(async move {
            s.call_tool("slow", json!({ "ms": 1000 })).await.unwrap();
            served.lock().unwrap().push(n);
        });
        // Some come while others are served.
        sleep(if n % 5 == 4 { 2 * SECOND } else { SECOND / 100 }).await;
    }
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_got_its_turn_says_that_the_server_is_busy() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.max_in_flight(1));
    let _busy = tokio::spawn(s.call_tool("hold", json!({})).into_future());
    server.wait_for(|c| c.calls == 1).await;
    let started = Instant::now();
    let error = s.call_tool("bump", json!({})).hold(5 * SECOND).await.unwrap_err();
    assert_eq!(started.elapsed(), 5 * SECOND);
    assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, true));
    assert!(matches!(error.source, CallFailure::TooBusy { limit: 1 }), "{error}");
    assert!(error.to_string().contains("at most 1 call"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_call_pulls_a_slow_probe_forward_but_does_not_hammer() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Disconnected).await;
    memory.revive();
    let started = Instant::now();
    s.call_tool("bump", json!({})).await.unwrap();
    // The next slow probe was due after a minute; on demand it comes a tenth of the time that the server has been gone,
    // which is as long as the quick attempts took, after the last dial.
    assert_eq!(started.elapsed().as_millis(), 3100);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_served_in_time_fails_at_once() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Disconnected).await;
    let started = Instant::now();
    let error = s.call_tool("bump", json!({})).deadline(3 * SECOND).await.unwrap_err();
    assert_eq!(started.elapsed(), Duration::ZERO, "nothing can happen within 3 s");
    assert!(matches!(error.source, CallFailure::NotConnected { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_call_right_after_start_waits_for_the_first_connect() {
    let (_server, memory, settings) = memory();
    memory.set_connect_delay(3 * SECOND);
    let (_hub, s) = hub(settings);
    let started = Instant::now();
    s.call_tool("bump", json!({})).await.unwrap();
    assert!(started.elapsed() >= 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn one_bad_server_delays_nothing() {
    let (_a, bad_memory, bad) = memory();
    let (_b, _good_memory, good) = memory();
    bad_memory.set_connect_delay(PATIENCE);
    let started = Instant::now();
    let hub = Hub::builder()
        .server("bad", bad.required())
        .server("good", good.required())
        .start()
        .unwrap();
    hub.server("good").unwrap().call_tool("bump", json!({})).await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    let not_ready = hub.ready(SECOND).await.unwrap_err();
    assert_eq!(not_ready.names, ["bad"]);
    assert!(hub.catalog().server("good").is_some());
    assert_eq!(hub.server("good").unwrap().status().state, StateKind::Connected);
}

#[tokio::test(start_paused = true)]
async fn progress_starts_the_timeout_over_up_to_the_maximum() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.timeout(2 * SECOND).max_timeout(10 * SECOND));
    connected(&s).await;
    // Six steps of one second: longer than the timeout, never silent for as long.
    s.call_tool("progress", json!({ "steps": 6, "ms": 1000 })).on_progress(|_| ()).await.unwrap();
    let started = Instant::now();
    let error = s
        .call_tool("progress", json!({ "steps": 60, "ms": 1000, "call_id": "long" }))
        .on_progress(|_| ())
        .await
        .unwrap_err();
    assert_eq!(started.elapsed(), 10 * SECOND);
    assert_eq!(error.outcome, Outcome::Unknown);
    server.wait_for(|c| c.cancelled.len() == 1).await;
    // Without progress the timeout is the timeout.
    let started = Instant::now();
    s.call_tool("slow", json!({ "ms": 60_000 })).await.unwrap_err();
    assert_eq!(started.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_server_may_start_switched_off() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.disabled());
    let error = s.call_tool("bump", json!({})).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::Disabled));
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(server.counters().handshakes, 0);
    s.enable();
    s.call_tool("bump", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_to_connect_ends_at_its_timeout_and_the_next_follows() {
    let (_server, memory, settings) = memory();
    memory.set_connect_delay(PATIENCE);
    let (_hub, s) = hub(settings.connect_timeout(7 * SECOND));
    let started = Instant::now();
    reach(&s, StateKind::Reconnecting).await;
    assert_eq!(started.elapsed(), 7 * SECOND);
    assert!(s.status().last_error.unwrap().contains("no handshake within 7s"));
    memory.set_connect_delay(Duration::ZERO);
    s.call_tool("bump", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_strict_server_is_required_and_not_started_again() {
    let (_server, memory, settings) = memory();
    let (hub, s) = hub(settings.profile(Profile::Strict));
    hub.ready(SECOND).await.unwrap();
    memory.kill();
    reach(&s, StateKind::PermanentlyFailed).await;
    assert_eq!(s.status().reason.as_str(), "not_restarted");
    assert_eq!(hub.ready(SECOND).await.unwrap_err().names, ["s"]);
}

#[tokio::test(start_paused = true)]
async fn a_herd_of_reconnects_is_spread_out_but_first_connects_are_not() {
    let servers: Vec<_> = (0..10).map(|_| memory()).collect();
    let mut builder = Hub::builder().limiter(ReconnectLimiter::new(2, 1));
    for (n, (_, _, settings)) in servers.iter().enumerate() {
        builder = builder.server(format!("s{n}"), settings.clone());
    }
    let started = Instant::now();
    let hub = builder.start().unwrap();
    for s in hub.servers() {
        connected(&s).await;
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "first connects all at once");
    for (_, memory, _) in &servers {
        memory.kill();
        memory.revive();
    }
    let started = Instant::now();
    let mut back = Vec::new();
    for s in hub.servers() {
        beyond(&s, 1).await;
        back.push(started.elapsed());
    }
    let last = back.iter().max().unwrap();
    // One backoff step, then two reconnects a second: nine half seconds after the first.
    assert!((5 * SECOND..6 * SECOND).contains(last), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_and_a_deadline_both_hold_and_no_duration_is_too_long() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    s.call_tool("bump", json!({})).deadline(Duration::MAX).timeout(Duration::MAX).await.unwrap();
    server.inject(Fault::HangBeforeHeaders).on("tools/call").times(2);
    for (timeout, deadline) in [(1, 60), (60, 1)] {
        let started = Instant::now();
        let call =
            s.call_tool("bump", json!({})).timeout(timeout * SECOND).deadline(deadline * SECOND);
        call.await.unwrap_err();
        assert_eq!(started.elapsed(), SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_calls_with_the_server_from_calls_that_wait() {
    let (server, memory, settings) = memory();
    let (_hub, s) = hub(settings.max_in_flight(2));
    connected(&s).await;
    let call = || tokio::spawn(s.call_tool("hold", json!({})).into_future());
    let calls = [call(), call(), call()];
    server.wait_for(|c| c.calls == 2).await;
    while s.status().held == 0 {
        tokio::task::yield_now().await;
    }
    let status = s.status();
    assert_eq!((status.in_flight, status.held, status.queued), (2, 1, 1));
    assert_eq!((status.max_in_flight, status.max_held), (2, 1024));
    server.release_held();
    server.wait_for(|c| c.calls == 3).await;
    server.release_held();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!((s.status().in_flight, s.status().held), (0, 0));
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    let _waiting = call();
    while s.status().held == 0 {
        tokio::task::yield_now().await;
    }
    // Not for others to end, but for a connection.
    assert_eq!((s.status().in_flight, s.status().queued), (0, 0));
}
