//! Children that speak badly, late or not at all.

use std::time::Duration;

use evergate_runtime::{CallFailure, Outcome, Reason, StateKind};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use crate::proc::{children, peak_memory};
use crate::support::*;

#[test]
fn garbage_is_counted_and_calls_still_work() {
    among_others(async {
        let (hub, s) = hub(scripted(["--garbage"]));
        connected(&s).await;
        for _ in 0..3 {
            let answer = s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
            assert_eq!(text(&answer), "hi");
        }
        let status = s.status();
        // Two lines at the start, and at least one before each answer.
        assert!(status.garbage >= 5, "{status:?}");
        assert!(status.last_garbage.is_some());
        assert_eq!((status.state, status.reconnects), (StateKind::Connected, 0));
        shut_down(hub).await;
    });
}

#[test]
fn an_oversized_line_is_thrown_away_as_it_comes() {
    alone(async {
        const LIMIT: usize = 64 * 1024;
        const LINE: usize = 64 * 1024 * 1024;
        let line = LINE.to_string();
        let (hub, s) = hub(scripted(["--oversized-line", &line]).max_message_bytes(LIMIT));
        connected(&s).await;
        let before = peak_memory();
        // The end of the line tells whose answer it was.
        let error = s.call_tool("echo", json!({ "text": "hi" })).deadline(NEVER).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Unknown);
        assert!(error.chain().contains(&LIMIT.to_string()), "{}", error.chain());
        let what = s.status().last_garbage.unwrap();
        assert!(what.contains(&LIMIT.to_string()), "{what}");
        let grown = peak_memory() - before;
        assert!(grown < 16 * 1024, "{grown} KiB for a line of which next to nothing is kept");
        // The connection is as good as before.
        s.request("ping", None).await.unwrap();
        assert_eq!(s.status().state, StateKind::Connected);
        shut_down(hub).await;
    });
}

#[test]
fn second_answers_are_ignored() {
    among_others(async {
        let (hub, s) = hub(scripted(["--duplicate-answers"]));
        connected(&s).await;
        for nth in 0..20 {
            let wanted = nth.to_string();
            let answer = s.call_tool("echo", json!({ "text": wanted })).await.unwrap();
            assert_eq!(text(&answer), wanted);
        }
        let status = s.status();
        assert_eq!((status.state, status.reconnects), (StateKind::Connected, 0));
        shut_down(hub).await;
    });
}

#[test]
fn a_call_waits_for_a_slow_start() {
    among_others(async {
        let (hub, s) = hub(scripted(["--slow-start", "300"]));
        let answer = s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
        assert_eq!(text(&answer), "hi");
        assert_eq!(s.status().attempts, 0);
        shut_down(hub).await;
    });
}

#[test]
fn a_handshake_that_hangs_is_given_up_and_tried_again() {
    alone(async {
        let before = children();
        let flags = ["--hang-initialize", "--ignore-stdin-eof", "--ignore-sigterm"];
        let ms = Duration::from_millis;
        let settings = scripted(flags).connect_timeout(ms(200)).close_timeout(ms(200));
        let (hub, s) = hub(settings);
        let status = state(&s, StateKind::Reconnecting).await;
        assert_eq!(status.reason, Reason::TransportLost);
        assert!(status.last_error.unwrap().contains("no handshake within"));
        let tried = s.wait_until(PATIENCE, |status| status.attempts >= 3).await;
        tried.expect("tried again");
        let call = s.call_tool("echo", json!({})).deadline(ms(100));
        let error = call.await.unwrap_err();
        assert_eq!(error.outcome, Outcome::NotSent);
        assert!(matches!(error.source, CallFailure::NotConnected { .. }), "{error:?}");
        s.disable();
        state(&s, StateKind::Disabled).await;
        assert_eq!(children(), before);
        shut_down(hub).await;
    });
}

/// Together far more than a pipe holds, so that most of it is written in parts, and by whoever is next.
#[test]
fn what_many_callers_have_at_once_arrives_whole_and_once() {
    among_others(async {
        let (hub, s) = hub(scripted::<&str>([]).max_in_flight(200));
        connected(&s).await;
        let echoes = (0..200_usize).map(async |n| {
            let said = format!("{n} {}", "x".repeat([10, 1_000, 30_000, 100_000][n % 4]));
            let answer = s.call_tool("echo", json!({ "text": said })).await.unwrap();
            assert!(text(&answer) == said, "call {n} got another's answer");
        });
        timeout(PATIENCE, join_all(echoes)).await.unwrap();
        let bumps = (0..200).map(async |_| {
            let answer = s.call_tool("bump", json!({})).await.unwrap();
            text(&answer).parse::<usize>().unwrap()
        });
        let mut counts = timeout(PATIENCE, join_all(bumps)).await.unwrap();
        counts.sort_unstable();
        assert!(counts.into_iter().eq(1..=200), "each ran once");
        shut_down(hub).await;
    });
}
