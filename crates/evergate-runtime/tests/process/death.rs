//! Children that end by themselves, are killed, or never start.

use evergate_runtime::{CallFailure, OnExhausted, Outcome, Reason, Restart, Settings, StateKind};
use evergate_testkit::wait::until;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::timeout;

use crate::proc::{gone, kill, pids, runs};
use crate::support::*;

#[test]
fn a_kill_while_idle_is_seen_without_any_call() {
    among_others(async {
        let (hub, s) = hub(scripted::<&str>([]));
        let mut events = hub.events();
        let pid = connected(&s).await;
        kill(pid, Signal::KILL);
        let left = leaves(&mut events, StateKind::Connected).await;
        assert_eq!((left.to, left.reason), (StateKind::Reconnecting, Reason::ProcessExited));
        let next = beyond(&s, 1).await;
        assert_ne!(next, pid);
        let error = s.status().last_error.unwrap();
        assert!(error.contains("SIGKILL"), "{error}");
        let answer = s.call_tool("pid", json!({})).await.unwrap();
        assert_eq!(text(&answer), next.to_string());
        shut_down(hub).await;
    });
}

#[test]
fn a_call_cut_by_a_kill_is_unknown_at_once_and_never_repeated() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let state_file = directory.path().join("state");
        let (hub, s) = hub(scripted(["--state-file".as_ref(), state_file.as_os_str()]));
        let mut events = hub.events();
        let pid = connected(&s).await;
        let call = s.call_tool("hold", json!({ "call_id": "held" })).deadline(NEVER);
        let (result, ()) = tokio::join!(timeout(PATIENCE, call), async {
            executed(&state_file, "held").await;
            kill(pid, Signal::KILL);
        });
        let error = result.expect("the call ends at once").unwrap_err();
        assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false), "{error:?}");
        assert!(error.chain().contains("SIGKILL"), "{}", error.chain());
        // The caller's own report of the loss must not hide how the process ended.
        let left = leaves(&mut events, StateKind::Connected).await;
        assert_eq!(left.reason, Reason::ProcessExited);
        beyond(&s, 1).await;
        s.call_tool("echo", json!({ "call_id": "next", "text": "" })).await.unwrap();
        assert_eq!((executions(&state_file, "held"), executions(&state_file, "next")), (1, 1));
        shut_down(hub).await;
    });
}

#[test]
fn a_harmless_call_cut_by_a_kill_is_sent_once_more_and_answered() {
    among_others(async {
        for tool in ["read", "again"] {
            let directory = tempfile::tempdir().unwrap();
            let (state_file, stalled) =
                (directory.path().join("state"), directory.path().join("once"));
            let args = ["--state-file".as_ref(), state_file.as_os_str()];
            let (hub, s) = hub(scripted(
                args.into_iter().chain(["--stall-once".as_ref(), stalled.as_os_str()]),
            ));
            let pid = connected(&s).await;
            listed(&hub).await;
            let call = s.call_tool(tool, json!({ "call_id": "c" }));
            let (result, ()) = tokio::join!(call, async {
                until("the call hangs", || stalled.exists()).await;
                kill(pid, Signal::KILL);
            });
            assert_eq!(text(&result.unwrap()), tool);
            assert_eq!(executions(&state_file, "c"), 2);
            assert_eq!(s.status().generation.unwrap().get(), 2);
            shut_down(hub).await;
        }
    });
}

/// What becomes of a server that was connected and ended with a code.
const POLICIES: [(u8, Restart, StateKind, Reason); 6] = {
    use Reason::{NotRestarted, ProcessExited, ProcessExitedCleanly};
    use Restart::{Always, Never, OnFailure};
    use StateKind::{PermanentlyFailed, Reconnecting};
    [
        (0, Never, PermanentlyFailed, NotRestarted),
        (0, OnFailure, PermanentlyFailed, NotRestarted),
        (0, Always, Reconnecting, ProcessExitedCleanly),
        (3, Never, PermanentlyFailed, NotRestarted),
        (3, OnFailure, Reconnecting, ProcessExited),
        (3, Always, Reconnecting, ProcessExited),
    ]
};

#[test]
fn exit_codes_follow_the_restart_policy_when_idle() {
    among_others(async {
        for (code, restart, to, reason) in POLICIES {
            let code_text = code.to_string();
            let args = ["--exit-after", "1", "--exit-code", &code_text];
            let (hub, s) = hub(scripted(args).restart(restart));
            let mut events = hub.events();
            connected(&s).await;
            s.call_tool("echo", json!({ "text": "" })).await.unwrap();
            let left = leaves(&mut events, StateKind::Connected).await;
            assert_eq!((left.to, left.reason), (to, reason), "{code} {restart:?}");
            let error = s.status().last_error.unwrap();
            assert!(error.contains(&format!("exit status: {code}")), "{error}");
            if to == StateKind::PermanentlyFailed {
                // Parked, not stuck.
                s.enable();
            }
            beyond(&s, 1).await;
            shut_down(hub).await;
        }
    });
}

/// The same with calls in the way, each of which reports the loss too: the policy goes by how the process ended.
#[test]
fn exit_codes_follow_the_restart_policy_under_load() {
    among_others(async {
        for (code, restart, to, reason) in POLICIES {
            let (hub, s) = hub(scripted::<&str>([]).restart(restart));
            let mut events = hub.events();
            connected(&s).await;
            let calls =
                (0..16).map(|_| s.call_tool("hold", json!({})).deadline(NEVER).into_future());
            let calls = futures_util::future::join_all(calls);
            let crash = s.call_tool("crash", json!({ "code": code })).into_future();
            let late = async {
                let left = leaves(&mut events, StateKind::Connected).await;
                assert_eq!((left.to, left.reason), (to, reason), "{code} {restart:?}");
            };
            let (results, crash, ()) = tokio::join!(calls, crash, late);
            for result in results.into_iter().chain([crash]) {
                assert_eq!(result.unwrap_err().outcome, Outcome::Unknown);
            }
            shut_down(hub).await;
        }
    });
}

#[test]
fn a_crash_at_start_shows_what_the_child_said() {
    among_others(async {
        let args = ["--crash-on-start", "--exit-code", "3", "--stderr", "no such database"];
        let settings = scripted(args).max_attempts(Some(2)).on_exhausted(OnExhausted::Fail);
        let (hub, s) = hub(settings);
        let status = state(&s, StateKind::PermanentlyFailed).await;
        assert_eq!(status.reason, Reason::AttemptsExhausted);
        assert_eq!(status.stderr_tail, ["no such database"; 3]);
        assert!(status.last_error.unwrap().contains("exit status: 3"));
        shut_down(hub).await;
    });
}

#[test]
fn last_words_without_a_line_end_are_kept() {
    among_others(async {
        let settings = shell("printf 'first\\nlast words' >&2; exit 3");
        let (hub, s) = hub(settings.max_attempts(Some(0)).on_exhausted(OnExhausted::Fail));
        let status = state(&s, StateKind::PermanentlyFailed).await;
        assert_eq!(status.stderr_tail, ["first", "last words"]);
        shut_down(hub).await;
    });
}

#[test]
fn the_stderr_of_a_running_child_is_in_its_status() {
    among_others(async {
        let (hub, s) = hub(scripted(["--stderr", "listening"]));
        connected(&s).await;
        until("the line is there", || s.status().stderr_tail == ["listening"]).await;
        shut_down(hub).await;
    });
}

#[test]
fn a_command_that_cannot_be_run_is_parked_at_once() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let not_executable = directory.path().join("data");
        std::fs::write(&not_executable, "data").unwrap();
        for command in
            ["/no/such/command".into(), "no-such-command-anywhere".into(), not_executable]
        {
            let (hub, s) = hub(Settings::stdio(command, ["x"]));
            let status = state(&s, StateKind::PermanentlyFailed).await;
            assert_eq!((status.reason, status.attempts), (Reason::CommandNotFound, 0));
            let call = s.call_tool("echo", json!({})).deadline(NEVER);
            let error = timeout(PATIENCE, call).await.expect("fails fast").unwrap_err();
            assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, false));
            let reason = Reason::CommandNotFound;
            let CallFailure::PermanentlyFailed { reason: named, .. } = &error.source else {
                panic!("{error:?}")
            };
            assert_eq!(*named, reason);
            shut_down(hub).await;
        }
    });
}

/// A helper in a session of its own is beyond our reach, and it keeps the child's pipes open. That must neither hide
/// the child's end nor keep anything of ours waiting.
#[test]
fn a_daemon_that_keeps_the_pipes_does_not_hide_the_end_of_its_parent() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("daemon");
        let script = "setsid sh -c 'echo $$ >>\"$FILE\"; exec sleep 600' & exec \"$SERVER\"";
        let (hub, s) = hub(shell(script).env("FILE", &file));
        let mut events = hub.events();
        let pid = connected(&s).await;
        pids(&file).await;
        kill(pid, Signal::KILL);
        let left = leaves(&mut events, StateKind::Connected).await;
        assert_eq!((left.to, left.reason), (StateKind::Reconnecting, Reason::ProcessExited));
        beyond(&s, 1).await;
        until("both daemons run", || {
            std::fs::read_to_string(&file).is_ok_and(|text| text.lines().count() == 2)
        })
        .await;
        shut_down(hub).await;
        let daemons = pids(&file).await;
        for &daemon in &daemons {
            assert!(runs(daemon), "it was to outlive its parent");
            kill(daemon, Signal::KILL);
        }
        gone(daemons).await;
    });
}

#[test]
fn a_server_that_ends_when_it_hears_no_handshake_is_started_again_with_one() {
    among_others(async {
        let script = "read -r line; case $line in *server/discover*) exit 3;; esac; \
                      { printf '%s\\n' \"$line\"; exec cat; } | exec \"$SERVER\"";
        let (hub, s) = hub(shell(script));
        connected(&s).await;
        assert_eq!(s.protocol().unwrap().as_str(), "2025-11-25");
        let error = s.status().last_error.unwrap();
        assert!(error.contains("asked which revision"), "{error}");
        s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
        shut_down(hub).await;
    });
}
