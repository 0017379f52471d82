//! A started product.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::adapter::{Adapter, Naming, Plan, Service, Site};
use super::process::{Process, kill};
use super::tree::{self, Tree};
use super::{Address, Places, Upstream};

/// How much of the log is shown when something goes wrong.
const LOG_TAIL_BYTES: usize = 6000;

/// How long children may take to notice that their parent has ended.
const AFTERLIFE: Duration = Duration::from_secs(2);

/// A product that stands in front of some servers. It does not outlive this value, nor do its children.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    services: Vec<Service>,
    address: Address,
    naming: Naming,
    processes: Vec<Process>,
    tree: Mutex<Tree>,
    mark: String,
    /// Its configuration, its state and its log.
    folder: TempDir,
}

/// What was left when a product had been asked to end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftover {
    /// It did not end within 10 s of being asked, and was killed.
    pub stubborn: bool,
    /// Its children that were alive 2 s after it had ended. They were killed.
    pub outlived: Vec<Outliver>,
}

/// A process that outlived its product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outliver {
    /// Its number.
    pub pid: u32,
    /// What it was.
    pub command: String,
}

// === impl Running ===

impl Running {
    pub(super) async fn start(
        adapter: &Adapter,
        upstreams: &[Upstream],
        places: &Places,
        call_timeout: Option<Duration>,
    ) -> anyhow::Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{run}", std::process::id());
        let folder = TempDir::with_prefix("evergate-proof-").context("no temporary folder")?;
        let plan =
            (adapter.plan)(&Site { upstreams, places, folder: folder.path(), call_timeout })?;
        let Plan { services, address, naming, setup } = plan;
        let tree = Mutex::new(Tree::new(&mark));
        let name = adapter.name;
        let mut this =
            Self { name, services, address, naming, processes: Vec::new(), tree, mark, folder };
        this.launch().await?;
        if let Some(setup) = setup {
            setup.await.with_context(|| this.complaint("cannot be set up"))?;
        }
        Ok(this)
    }

    /// Where a client goes. A program is for the client to start.
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// What the client has to call a tool of a server.
    pub fn tool_name(&self, server: &str, tool: &str) -> String {
        self.naming.tool(server, tool)
    }

    /// All its processes that are alive now. What the client starts is the client's.
    pub fn pids(&self) -> Vec<u32> {
        if self.services.is_empty() { Vec::new() } else { self.tree().alive() }
    }

    /// Processor time of all of them, and of those that ended and were waited for, in hundredths.
    pub fn cpu_seconds(&self) -> f64 {
        self.pids().into_iter().map(tree::cpu_seconds).sum()
    }

    /// What they hold in memory together.
    pub fn resident_bytes(&self) -> u64 {
        self.pids().into_iter().map(tree::resident_bytes).sum()
    }

    /// Ends it as an init system would, and starts it again: same port, same configuration, same state.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        if self.services.is_empty() {
            bail!("{} has no process of its own to restart", self.name);
        }
        self.end().await;
        self.launch().await
    }

    /// Ends it as an init system would, and says what was left. Nothing is, afterwards.
    pub async fn stop(mut self) -> Leftover {
        self.end().await
    }

    /// The end of what it printed.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL_BYTES)..];
        String::from_utf8_lossy(tail).into_owned()
    }

    async fn launch(&mut self) -> anyhow::Result<()> {
        let log = self.log();
        for at in 0..self.services.len() {
            let service = &self.services[at];
            let folder = self.folder.path();
            let mut process = Process::start(&service.program, folder, &log, &self.mark)?;
            self.tree().add_leader(process.pid());
            let ready = process.ready(service).await;
            self.processes.push(process);
            ready.with_context(|| self.complaint("did not start"))?;
        }
        // Remembered now, since some of them may lose their parents later.
        self.pids();
        Ok(())
    }

    async fn end(&mut self) -> Leftover {
        // Remembered before anything dies.
        self.pids();
        let mut left = Leftover::default();
        for mut process in self.processes.drain(..).rev() {
            left.stubborn |= !process.end().await;
        }
        let deadline = Instant::now() + AFTERLIFE;
        let mut alive = self.pids();
        while !alive.is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
            alive = self.pids();
        }
        let outliver = |pid: u32| Outliver { pid, command: tree::command_line(pid) };
        left.outlived = alive.into_iter().map(outliver).collect();
        // Until nobody is left: one of them might be about to start another.
        while self.kill_all() && Instant::now() < deadline + AFTERLIFE {
            sleep(Duration::from_millis(1)).await;
        }
        left
    }

    /// Whether there was anybody.
    fn kill_all(&self) -> bool {
        let alive = self.pids();
        alive.iter().copied().for_each(kill);
        !alive.is_empty()
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn complaint(&self, what: &str) -> String {
        format!("{} {what}; its log ends with:\n{}", self.name, self.log_tail())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Twice, since one of them may have been about to start another.
        if self.kill_all() {
            self.kill_all();
        }
    }
}
