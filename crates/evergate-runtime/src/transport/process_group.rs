//! Nothing a server starts survives it, nor us.
//!
//! Each child lives in the process group of a guardian: a shell that was started first, leads the group, and waits on
//! a pipe only we hold. When we are gone, however abruptly, the pipe closes and the guardian kills its group, itself
//! included. And while the guardian has not been reaped nobody else can get its group id, so that a group kill can
//! never hit a stranger. `docs/decisions/0004` says why this and not a parent-death signal.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, Command};

/// The leader of a child's process group.
#[derive(Debug)]
pub(crate) struct Guardian {
    shell: Child,
    /// Held, never written to: its end is the signal.
    _lifeline: Option<ChildStdin>,
    group: Pid,
}

/// Ignores what may be sent to the whole group to end it politely, waits for the pipe to close, kills the group.
const SCRIPT: &str = "trap '' TERM INT HUP QUIT; read -r _; kill -KILL 0";

// === impl Guardian ===

impl Guardian {
    pub(crate) fn start() -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(SCRIPT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let group = shell
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the guardian ended at once"))?;
        Ok(Self { _lifeline: shell.stdin.take(), shell, group })
    }

    /// Puts a command under this guardian's care.
    pub(crate) fn guard(&self, command: &mut Command) {
        command.process_group(self.group.as_raw_nonzero().get());
    }

    /// Asks every process of the group to end.
    pub(crate) fn terminate(&self) {
        // Fails only if nobody is left to ask.
        let _ = kill_process_group(self.group, Signal::TERM);
    }

    /// Ends every process of the group.
    pub(crate) fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }

    /// Ends whatever is left, and reaps the guardian.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        self.kill();
        self.shell.wait().await.map(drop)
    }
}
