//! Nothing that a server started outlives it.

use std::ffi::OsStr;
use std::path::Path;

use evergate_runtime::{Settings, StateKind};
use rustix::process::Signal;

use crate::proc::{gone, kill, pids, runs, stat};
use crate::support::*;

fn family(pid_file: &Path) -> Settings {
    let flags = ["--spawn-grandchildren", "3", "--pid-file"].map(OsStr::new);
    scripted(flags.into_iter().chain([pid_file.as_os_str()]))
}

/// A connected server with its grandchildren and its guardian, all running.
async fn everybody(pid: u32, pid_file: &Path) -> Vec<u32> {
    let mut everybody = pids(pid_file).await;
    assert_eq!(everybody.len(), 3);
    everybody.extend([pid, stat(pid).unwrap().group]);
    assert!(everybody.iter().all(|&pid| runs(pid)));
    everybody
}

#[test]
fn grandchildren_die_with_a_killed_child() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pids");
        let (hub, s) = hub(family(&pid_file));
        let pid = connected(&s).await;
        let first = everybody(pid, &pid_file).await;
        std::fs::remove_file(&pid_file).unwrap();
        kill(pid, Signal::KILL);
        let next = beyond(&s, 1).await;
        gone(first).await;
        let second = everybody(next, &pid_file).await;
        shut_down(hub).await;
        gone(second).await;
    });
}

#[test]
fn grandchildren_die_on_disable_and_on_restart() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pids");
        let (hub, s) = hub(family(&pid_file));
        let pid = connected(&s).await;
        let first = everybody(pid, &pid_file).await;
        std::fs::remove_file(&pid_file).unwrap();
        s.restart();
        let pid = beyond(&s, 1).await;
        // The old family was gone before the new one began.
        assert!(
            !first
                .iter()
                .any(|&pid| runs(pid) && stat(pid).is_some_and(|stat| stat.group == first[4]))
        );
        gone(first).await;
        let second = everybody(pid, &pid_file).await;
        s.disable();
        state(&s, StateKind::Disabled).await;
        gone(second).await;
        shut_down(hub).await;
    });
}

#[test]
fn a_dropped_hub_leaves_nobody_behind() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pids");
        let (hub, s) = hub(family(&pid_file));
        let pid = connected(&s).await;
        listed(&hub).await;
        let all = everybody(pid, &pid_file).await;
        // The handle lives on, as handles do.
        drop(hub);
        gone(all).await;
        drop(s);
    });
}
