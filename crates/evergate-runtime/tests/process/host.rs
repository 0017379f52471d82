//! The host process itself is killed. The host is this test program, started again with a job to do.

use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::Command;

use crate::proc::{gone, kill, pids, runs, stat};
use crate::support::*;

const JOB: &str = "EVERGATE_TEST_HOST_DIRECTORY";

/// Does nothing unless it was started as the host.
#[tokio::test]
async fn as_the_host() {
    let Some(directory) = std::env::var_os(JOB).map(PathBuf::from) else { return };
    let pid_file = directory.join("grandchildren");
    let flags = ["--ignore-sigterm", "--ignore-stdin-eof", "--spawn-grandchildren", "2"];
    let flags =
        flags.map(Into::into).into_iter().chain(["--pid-file".into(), pid_file.into_os_string()]);
    let (_hub, s) = hub(scripted::<std::ffi::OsString>(flags));
    let pid = connected(&s).await;
    let unfinished = directory.join("unfinished");
    std::fs::write(&unfinished, format!("{pid}\n")).unwrap();
    std::fs::rename(unfinished, directory.join("child")).unwrap();
    // Should the test that started it be killed, this must not stay for ever.
    tokio::time::sleep(NEVER).await;
}

#[test]
fn nothing_survives_a_killed_host() {
    among_others(async {
        let directory = tempfile::tempdir().unwrap();
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::as_the_host", "--nocapture"])
            .env(JOB, directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut all = pids(&directory.path().join("child")).await;
        let guardian = stat(all[0]).unwrap().group;
        assert!(guardian != all[0] && guardian != host.id().unwrap());
        all.push(guardian);
        all.extend(pids(&directory.path().join("grandchildren")).await);
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|&pid| runs(pid)));
        kill(host.id().unwrap(), Signal::KILL);
        host.wait().await.unwrap();
        gone(all).await;
    });
}
