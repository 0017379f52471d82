//! A process of a product, from start to end.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::Program;
use super::adapter::Service;
use super::http::get;
use super::tree::MARK;

/// Longer than the slowest product takes on a busy machine.
const START: Duration = Duration::from_secs(60);

/// What an init system or a container runtime commonly grants between asking and killing.
const STOP: Duration = Duration::from_secs(10);

/// Often enough that start times can be compared in milliseconds.
const POLL: Duration = Duration::from_millis(2);

/// Waits for the end of its input, which we hold, and then kills the group that it was told.
const GUARDIAN: &str = "read -r _; kill -s KILL -- \"-$1\"";

/// A program that leads a process group of its own and writes to the log of its product.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: u32,
    /// Ends the group should we be killed, when nothing of ours is run any more.
    _guardian: Child,
}

// === impl Process ===

impl Process {
    /// Starts it. It may not listen yet.
    pub(super) fn start(
        program: &Program,
        folder: &Path,
        log: &Path,
        mark: &str,
    ) -> anyhow::Result<Self> {
        let log = File::options().create(true).append(true).open(log).context("no log file")?;
        let mut command = Command::new(&program.command);
        command.args(&program.args).envs(program.env.iter().map(|(name, value)| (name, value)));
        command.env(MARK, mark).current_dir(folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.process_group(0).kill_on_drop(true);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.command.display()))?;
        let pid = child.id().context("it ended at once")?;
        let mut guardian = Command::new("sh");
        guardian.args(["-c", GUARDIAN, "guardian", &pid.to_string()]);
        guardian.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not in our group, which a key press may end.
        guardian.process_group(0).kill_on_drop(true);
        let guardian = guardian.spawn().context("cannot start its guardian")?;
        Ok(Self { child, pid, _guardian: guardian })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns when it can serve.
    pub(super) async fn ready(&mut self, service: &Service) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while !is_ready(service).await {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended before it was ready: {status}");
            }
            if Instant::now() > deadline {
                bail!("it is not ready after {} s", START.as_secs());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Asks it to end, and only it: what becomes of its children is its own affair. Whether it did in time; it is killed
    /// otherwise.
    pub(super) async fn end(&mut self) -> bool {
        self.signal(Signal::TERM);
        let in_time = timeout(STOP, self.child.wait()).await.is_ok();
        if !in_time {
            drop(self.child.kill().await);
        }
        in_time
    }

    fn signal(&self, signal: Signal) {
        // None when it was waited for already: its number may be somebody else's by now.
        if let Some(pid) = self.child.id().and_then(pid) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.child.id().and_then(pid) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn is_ready(service: &Service) -> bool {
    let port = service.port.number();
    let Some((path, word)) = service.health else {
        return TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok();
    };
    match get(&format!("http://127.0.0.1:{port}{path}")).await {
        Ok((status, body)) => status.is_success() && String::from_utf8_lossy(&body).contains(word),
        Err(_) => false,
    }
}

/// Ends a process without a word.
pub(super) fn kill(number: u32) {
    if let Some(pid) = pid(number) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}
