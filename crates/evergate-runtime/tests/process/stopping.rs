//! Disable and shutdown, whatever is under way: prompt, and nothing is left.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{CallFailure, Hub, Outcome, ServerHandle, Settings, StateKind};
use evergate_testkit::wait::until;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::proc::{children, gone, open_files, runs};
use crate::support::*;

const SHORT: Duration = Duration::from_millis(300);

/// Runs a case twice, once to be ended by disable and once by shutdown, and counts what is left.
fn ends_clean(settings: &Settings, get_there: &impl AsyncFn(&Hub, &ServerHandle)) {
    alone(async {
        // The first use of signals, timers and the like opens files that stay.
        let (warm, s) = hub(scripted::<&str>([]));
        connected(&s).await;
        shut_down(warm).await;
        drop(s);
        let metrics = tokio::runtime::Handle::current().metrics();
        // A task is over a moment before what it owned is gone.
        let no_tasks = async || until("no task is left", || metrics.num_alive_tasks() == 0).await;
        no_tasks().await;
        let before = (children(), open_files());
        for disable in [true, false] {
            let (hub, s) = hub(settings.clone());
            get_there(&hub, &s).await;
            if disable {
                s.disable();
                state(&s, StateKind::Disabled).await;
                assert_eq!(children(), before.0, "after disable");
            }
            shut_down(hub).await;
            assert_eq!(children(), before.0, "after shutdown");
            drop(s);
            no_tasks().await;
            assert_eq!(open_files(), before.1);
        }
    });
}

#[test]
fn during_backoff() {
    let settings = scripted(["--crash-on-start"]).backoff(NEVER, NEVER, 1.0, 0.0);
    ends_clean(&settings, &async |_, s| {
        let status = state(s, StateKind::Reconnecting).await;
        assert!(status.next_retry_at.is_some());
    });
}

#[test]
fn during_connect() {
    let settings = scripted(["--hang-initialize"]).connect_timeout(NEVER);
    ends_clean(&settings, &async |_, s| {
        until("the child runs", || !children().is_empty()).await;
        assert_eq!(s.status().state, StateKind::Connecting);
    });
}

#[test]
fn during_a_connect_that_will_not_stop() {
    let flags = ["--hang-initialize", "--ignore-sigterm", "--ignore-stdin-eof"];
    let settings = scripted(flags).connect_timeout(NEVER).close_timeout(SHORT);
    ends_clean(&settings, &async |_, s| {
        until("the child runs", || !children().is_empty()).await;
        assert_eq!(s.status().state, StateKind::Connecting);
    });
}

#[test]
fn during_a_hung_close() {
    let flags = ["--ignore-sigterm", "--ignore-stdin-eof"];
    // Long enough to look at it while it hangs, however busy the machine is.
    let settings = scripted(flags).close_timeout(Duration::from_secs(4));
    ends_clean(&settings, &async |_, s| {
        let pid = connected(s).await;
        s.restart();
        state(s, StateKind::Reconnecting).await;
        assert!(runs(pid), "it is being closed, and resists");
    });
}

#[test]
fn during_a_call_to_a_child_that_reads_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let stalled = directory.path().join("stalled");
    let settings = scripted(["--stall-once".as_ref(), stalled.as_os_str()]).close_timeout(SHORT);
    ends_clean(&settings, &async |_, s| {
        let _ = std::fs::remove_file(&stalled);
        connected(s).await;
        let big = "x".repeat(1 << 20);
        let calls = (0..100).map(|_| s.call_tool("echo", json!({ "text": big })).into_future());
        let calls = futures_util::future::join_all(calls);
        tokio::select! {
            _ = calls => panic!("nothing is answered"),
            () = until("the child hangs", || stalled.exists()) => {}
        }
    });
}

#[test]
fn calls_under_way_end_with_a_disable() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let state_file = directory.path().join("state");
        let (hub, s) = hub(scripted(["--state-file".as_ref(), state_file.as_os_str()]));
        connected(&s).await;
        let call = s.call_tool("hold", json!({ "call_id": "c" })).deadline(NEVER);
        let (result, ()) = tokio::join!(call, async {
            executed(&state_file, "c").await;
            s.disable();
        });
        assert_eq!(result.unwrap_err().outcome, Outcome::Unknown);
        state(&s, StateKind::Disabled).await;
        let error = s.call_tool("echo", json!({})).deadline(NEVER).await.unwrap_err();
        assert!(matches!(error.source, CallFailure::Disabled));
        shut_down(hub).await;
    });
}

/// The shell writes the file only if nobody killed it.
#[test]
fn a_polite_child_is_not_killed() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("end");
        let (hub, s) = hub(shell("\"$SERVER\"; echo \"ended $?\" >\"$FILE\"")
            .env("FILE", &file)
            .close_timeout(PATIENCE));
        connected(&s).await;
        s.disable();
        state(&s, StateKind::Disabled).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ended 0\n");
        shut_down(hub).await;
    });
}

#[test]
fn a_child_that_waits_for_a_signal_gets_one_before_it_is_killed() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("end");
        let script = "trap : TERM; \"$SERVER\" --ignore-stdin-eof; echo \"ended $?\" >\"$FILE\"";
        // Two fifths of this pass before the signal; the rest leaves time to die of it.
        let settings = shell(script).env("FILE", &file).close_timeout(Duration::from_secs(5));
        let (hub, s) = hub(settings);
        connected(&s).await;
        s.disable();
        state(&s, StateKind::Disabled).await;
        // 128 + SIGTERM.
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ended 143\n");
        shut_down(hub).await;
    });
}

#[test]
fn a_child_that_ignores_everything_is_killed_in_time() {
    among_others(async {
        let flags = ["--ignore-sigterm", "--ignore-stdin-eof"];
        let (hub, s) = hub(scripted(flags).close_timeout(SHORT));
        let pid = connected(&s).await;
        let asked = tokio::time::Instant::now();
        s.disable();
        state(&s, StateKind::Disabled).await;
        // It cannot be sooner than it was given; later is the machine's business.
        assert!(asked.elapsed() >= SHORT * 4 / 5);
        gone([pid]).await;
        shut_down(hub).await;
    });
}

#[test]
fn a_replaced_child_finishes_its_call_and_ends() {
    among_others(async {
        let (hub, old) = hub(scripted::<&str>([]));
        let old_pid = connected(&old).await;
        let begun = Arc::new(Notify::new());
        let told = begun.clone();
        let call = old.call_tool("progress", json!({ "steps": 20, "ms": 50 }));
        let mut calls = JoinSet::new();
        calls.spawn(call.on_progress(move |_| told.notify_one()).into_future());
        begun.notified().await;
        let new = hub.replace("s", scripted::<&str>([])).unwrap();
        let new_pid = connected(&new).await;
        assert!(runs(old_pid) && old_pid != new_pid);
        calls.join_next().await.unwrap().unwrap().unwrap();
        gone([old_pid]).await;
        assert!(runs(new_pid));
        hub.remove("s").unwrap();
        gone([new_pid]).await;
        shut_down(hub).await;
    });
}
