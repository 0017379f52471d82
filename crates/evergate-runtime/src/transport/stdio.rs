//! Child processes: started under a guardian, watched until they end, ended in steps.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::last_words::StderrTail;
use super::line_splitter::LineSplitter;
#[cfg(unix)]
use super::process_group::Guardian;
use super::{OpenError, TransportError};
use crate::entrusted::Entrusted;
use crate::error::SharedError;
use crate::tasks::Tasks;

/// A running child, seen from outside its supervising task.
#[derive(Debug)]
pub(crate) struct ChildControl {
    pid: u32,
    stop: mpsc::Sender<Duration>,
    exit: watch::Receiver<Option<Exit>>,
}

/// How a child ended.
#[derive(Debug, Clone)]
pub(crate) struct Exit {
    pub(crate) clean: bool,
    pub(crate) description: String,
}

/// The pipes of a started child.
pub(crate) struct Started {
    pub(crate) control: ChildControl,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// A group that was killed closes its end of stderr at once. Only a process that left the group can still hold it,
/// and for that nobody waits.
const STDERR_ENDS: Duration = Duration::from_millis(500);

/// Starts a command; its end is watched from the first moment.
pub(crate) fn start(
    command: &OsString,
    args: &[OsString],
    env: &[(OsString, OsString)],
    cwd: Option<&PathBuf>,
    (tail, entrusted): (StderrTail, Entrusted),
    tasks: &Tasks,
) -> Result<Started, OpenError> {
    let spawn_error = |error: std::io::Error| {
        let kind = error.kind();
        OpenError::Spawn(SharedError::new(error), kind)
    };
    let mut builder = Command::new(command);
    builder
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(cwd) = cwd {
        // The system says "not found" for this too, as if the command were.
        if !cwd.is_dir() {
            return Err(OpenError::NoDirectory);
        }
        builder.current_dir(cwd);
    }
    #[cfg(unix)]
    let guardian =
        Guardian::start().map_err(|error| OpenError::Guardian(SharedError::new(error)))?;
    #[cfg(unix)]
    guardian.guard(&mut builder);
    #[cfg(not(unix))]
    let guardian = Guardian;

    let mut child = match builder.spawn() {
        Ok(child) => child,
        Err(error) => {
            tasks.spawn(guardian.finish());
            return Err(spawn_error(error));
        }
    };
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id());
    let (Some(stdin), Some(stdout), Some(stderr), Some(pid)) = pipes else {
        // All were asked for above, so this cannot be; if it is, the child is killed by being dropped.
        tasks.spawn(guardian.finish());
        return Err(spawn_error(std::io::Error::other("the child has no pipes")));
    };
    let stderr = tasks.spawn(keep_tail(stderr, tail, entrusted));
    let (stop, stopping) = mpsc::channel(1);
    let (ended, exit) = watch::channel(None);
    tasks.spawn(supervise(child, guardian, stderr, stopping, ended));
    Ok(Started { control: ChildControl { pid, stop, exit }, stdin, stdout })
}

/// Owns the child until it is reaped, whatever becomes of everybody else.
async fn supervise(
    mut child: Child,
    guardian: Guardian,
    mut stderr: JoinHandle<()>,
    mut stop: mpsc::Receiver<Duration>,
    ended: watch::Sender<Option<Exit>>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        // `None`: nobody holds the connection any more, so nobody cares for a polite end.
        within = stop.recv() => end(&mut child, &guardian, within.unwrap_or_default()).await,
    };
    // Helpers the child left behind go with it; that also closes the pipes they share.
    if let Err(error) = guardian.finish().await {
        tracing::warn!(%error, "could not reap a guardian process");
    }
    if timeout(STDERR_ENDS, &mut stderr).await.is_err() {
        stderr.abort();
    }
    ended.send_replace(Some(Exit::new(status)));
}

/// Its standard input is closed already. Wait, ask, kill: two fifths of the time for each of the first two.
async fn end(
    child: &mut Child,
    guardian: &Guardian,
    within: Duration,
) -> std::io::Result<ExitStatus> {
    let grace = within * 2 / 5;
    if let Ok(status) = timeout(grace, child.wait()).await {
        return status;
    }
    guardian.terminate();
    if let Ok(status) = timeout(grace, child.wait()).await {
        return status;
    }
    guardian.kill();
    // The group's end is the child's; where there are no groups, this is.
    let _ = child.start_kill();
    child.wait().await
}

async fn keep_tail(mut stderr: ChildStderr, tail: StderrTail, entrusted: Entrusted) {
    let mut splitter = LineSplitter::new(64 * 1024);
    loop {
        while let Some(line) = splitter.next_line() {
            tail.keep(&line, &entrusted);
        }
        match stderr.read_buf(splitter.space(4096)).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    // Last words are often not ended properly.
    if let Some(line) = splitter.rest() {
        tail.keep(&line, &entrusted);
    }
}

// === impl ChildControl ===

impl ChildControl {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Resolves when the child has been reaped and its group is gone.
    pub(crate) async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await;
        let known = ended.ok().and_then(|exit| exit.clone());
        known.unwrap_or_else(|| Exit { clean: false, description: "its supervisor is gone".into() })
    }

    /// Has it killed, without waiting for that.
    pub(crate) fn abandon(&self) {
        // Full or closed: it is being stopped, or has ended, already.
        let _ = self.stop.try_send(Duration::ZERO);
    }

    /// Ends it in steps. Ends after `within` and the time the kernel takes to kill.
    pub(crate) async fn stop(&self, within: Duration) -> Result<(), TransportError> {
        // Full or closed: it is being stopped, or has ended, already.
        let _ = self.stop.try_send(within);
        let patience = within + Duration::from_secs(1);
        match timeout(patience, self.exited()).await {
            Ok(_) => Ok(()),
            Err(elapsed) => Err(TransportError::NotStopped(SharedError::new(elapsed))),
        }
    }
}

// === impl Exit ===

impl Exit {
    fn new(status: std::io::Result<ExitStatus>) -> Self {
        match status {
            Ok(status) => Self { clean: status.success(), description: status.to_string() },
            Err(error) => Self { clean: false, description: error.to_string() },
        }
    }
}

/// Where there are no process groups, only the child itself is ended.
#[cfg(not(unix))]
struct Guardian;

#[cfg(not(unix))]
impl Guardian {
    fn terminate(&self) {}
    fn kill(&self) {}
    async fn finish(self) -> std::io::Result<()> {
        Ok(())
    }
}
