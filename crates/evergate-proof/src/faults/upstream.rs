//! The servers behind the products: they die on demand and count what was really executed.
//!
//! HTTP and SSE servers are the test kit's, in this process. A stdio server is the test kit's program, which the
//! product starts; it writes down every execution in a file, and files tell it what to do.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use evergate_testkit::{Eras, Fault, HttpServer, ListKind, Server, SessionLoss, stdio_server_path};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::product::{Address, Port, Program, Transport, Upstream};

/// One server.
#[derive(Debug)]
pub struct Backend {
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Port { http: HttpServer, transport: Transport, modern: bool, _port: Port },
    Child(Box<Scripted>),
}

/// A program that others start. Everything is told to it through files in a folder of its own, whose path in its command
/// line also tells its processes from all others.
#[derive(Debug)]
struct Scripted {
    folder: TempDir,
    program: PathBuf,
    modern: bool,
    slow_start: Option<Duration>,
}

/// How many bytes of a response come through before it breaks: on HTTP its head and a little more, on an event stream a
/// part of one event.
const BROKEN_AFTER: (usize, usize) = (150, 20);

/// A parent that has not noticed for a second that its child is dead will not.
const BURIAL_GLANCES: u32 = 50;
const BURIAL_GLANCE: Duration = Duration::from_millis(20);

// === impl Backend ===

impl Backend {
    /// Starts a server of this name, or prepares one that the product will start, and that may take a while to start
    /// each time. A modern one speaks 2026-07-28 and nothing else.
    pub async fn start(
        name: &str,
        transport: Transport,
        modern: bool,
        slow_start: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let kind = if transport == Transport::Stdio {
            let folder = tempfile::Builder::new().prefix("evergate-faults-").tempdir()?;
            let program = stdio_server_path()
                .context("scripted-stdio-server is not built: cargo build -p evergate-testkit")?;
            let scripted = Scripted { folder, program, modern, slow_start };
            // It stalls once, in the first call that finds no such file.
            scripted.set("stalled", true)?;
            Kind::Child(Box::new(scripted))
        } else {
            let port = Port::free()?;
            let address = (Ipv4Addr::LOCALHOST, port.number()).into();
            let server = Server::new();
            if modern {
                server.set_eras(Eras::Modern);
            }
            let http = HttpServer::start_on(server, address).await;
            Kind::Port { http, transport, modern, _port: port }
        };
        Ok(Self { name: name.to_owned(), kind })
    }

    /// What the product is told about it.
    pub fn upstream(&self) -> Upstream {
        let at = match &self.kind {
            Kind::Port { http, transport: Transport::Sse, .. } => Address::Sse(http.sse_url()),
            Kind::Port { http, .. } => Address::Http(http.url()),
            Kind::Child(scripted) => Address::Stdio(scripted.as_program()),
        };
        Upstream { name: self.name.clone(), at }
    }

    /// How often the call of this id was executed.
    pub fn executions(&self, call_id: &str) -> u64 {
        match &self.kind {
            Kind::Port { http, .. } => http.server().executions(call_id),
            Kind::Child(scripted) => {
                let record = std::fs::read_to_string(scripted.path("executed")).unwrap_or_default();
                let ids = record.lines().filter_map(|line| line.split_once(' '));
                ids.filter(|(_, id)| *id == call_id).count() as u64
            }
        }
    }

    /// Dies and stays dead.
    pub async fn die(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Port { http, .. } => http.kill().await,
            Kind::Child(scripted) => {
                scripted.set("down", true)?;
                self.kill_children();
            }
        }
        Ok(())
    }

    /// Comes back, ready for connections when this returns; as a child: able to be started again.
    pub async fn come_back(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Port { http, .. } => http.revive().await,
            Kind::Child(scripted) => scripted.set("down", false)?,
        }
        Ok(())
    }

    /// Dies and is back at once, without a memory of its sessions.
    pub async fn restart(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Port { http, .. } => {
                http.kill().await;
                http.revive().await;
            }
            Kind::Child(_) => self.kill_children(),
        }
        Ok(())
    }

    /// Waits until whoever started the processes that were just killed knows of it: a child that nobody waited for is
    /// still in the table.
    pub async fn until_buried(&self, killed: &[u32]) {
        for _ in 0..BURIAL_GLANCES {
            if killed.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                break;
            }
            tokio::time::sleep(BURIAL_GLANCE).await;
        }
        if !killed.is_empty() {
            tokio::time::sleep(BURIAL_GLANCE).await;
        }
    }

    /// Forgets its sessions.
    pub fn expire(&self, how: SessionLoss) {
        if let Kind::Port { http, .. } = &self.kind {
            http.server().expire_sessions(how);
        }
    }

    /// Takes its time for handshakes from now on; without handshakes, to say what it is, and for its next call. A child
    /// does from its first start.
    pub fn slow_handshakes(&self, by: Duration) {
        if let Kind::Port { http, modern, .. } = &self.kind {
            for method in ["initialize", "server/discover"] {
                http.server().inject(Fault::DelayAnswer(by)).on(method).forever();
            }
            if *modern {
                // Nobody has to ask what it is before calling it.
                http.server().inject(Fault::DelayAnswer(by)).on("tools/call");
            }
        }
    }

    /// Reads whatever comes and never answers, until [`Backend::answer_again`].
    pub fn fall_silent(&self) {
        if let Kind::Port { http, .. } = &self.kind {
            http.server().inject(Fault::HangBeforeHeaders).on_every_request().forever();
        }
    }

    /// The end of [`Backend::fall_silent`].
    pub fn answer_again(&self) {
        if let Kind::Port { http, .. } = &self.kind {
            http.server().clear_faults();
        }
    }

    /// Breaks the next answer to a call of this tool: on a port the connection, in the middle of it; a child stops after
    /// executing the next call of any tool, and has to be killed.
    pub fn break_next_answer(&self, tool: &str) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Port { http, transport, .. } => {
                let bytes =
                    if *transport == Transport::Sse { BROKEN_AFTER.1 } else { BROKEN_AFTER.0 };
                http.server().inject(Fault::CloseAfterBytes(bytes)).on_tool(tool);
                Ok(())
            }
            Kind::Child(scripted) => scripted.set("stalled", false),
        }
    }

    /// Whether an answer was broken, or a child stalled, since [`Backend::break_next_answer`].
    pub fn has_struck(&self) -> bool {
        match &self.kind {
            Kind::Port { http, .. } => http.server().counters().faults > 0,
            Kind::Child(scripted) => scripted.path("stalled").exists(),
        }
    }

    /// Offers one tool more, called `extra`; a child does from its next start.
    pub fn offer_more(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Port { http, .. } => {
                let result = json!({ "content": [{ "type": "text", "text": "extra" }] });
                http.server().tool("extra", Value::Null, move |_| result.clone());
                Ok(())
            }
            Kind::Child(scripted) => scripted.set("extra", true),
        }
    }

    /// Tells everybody who listens that its tools changed.
    pub fn tell_news(&self) {
        if let Kind::Port { http, .. } = &self.kind {
            http.server().notify_list_changed(ListKind::Tools);
        }
    }

    /// Cuts the connections on which somebody listens.
    pub fn cut_listening(&self) {
        if let Kind::Port { http, .. } = &self.kind {
            http.server().cut_listening();
        }
    }

    /// How many listen now.
    pub fn listeners(&self) -> u64 {
        match &self.kind {
            Kind::Port { http, .. } => http.server().counters().listening,
            Kind::Child(_) => 0,
        }
    }

    /// The processes of this server that are alive.
    pub fn children(&self) -> Vec<u32> {
        match &self.kind {
            Kind::Port { .. } => Vec::new(),
            Kind::Child(scripted) => scripted.processes(),
        }
    }

    /// `kill -9` for all of them.
    pub fn kill_children(&self) {
        for pid in self.children() {
            kill(pid);
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // Whoever started them may have failed to end them.
        self.kill_children();
    }
}

// === impl Scripted ===

impl Scripted {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file that exists or not.
    fn set(&self, name: &str, exists: bool) -> anyhow::Result<()> {
        let path = self.path(name);
        let done = if exists { std::fs::write(&path, "") } else { std::fs::remove_file(&path) };
        done.with_context(|| format!("cannot change {}", path.display()))
    }

    fn as_program(&self) -> Program {
        let mut args = Vec::new();
        if self.modern {
            args.push("--modern".to_owned());
        }
        let files = [
            ("--state-file", "executed"),
            ("--crash-while", "down"),
            ("--stall-once", "stalled"),
            ("--extra-tool-if", "extra"),
        ];
        for (flag, file) in files {
            args.extend([flag.to_owned(), self.path(file).display().to_string()]);
        }
        if let Some(by) = self.slow_start {
            args.extend(["--slow-start".to_owned(), by.as_millis().to_string()]);
        }
        Program { command: self.program.clone(), args, env: Vec::new() }
    }

    fn processes(&self) -> Vec<u32> {
        let mark = self.folder.path().display().to_string();
        // Others have the command line in their own, as an argument; only the program itself is meant.
        let is_ours = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> =
                line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let runs = words.first().is_some_and(|word| Path::new(&**word) == self.program);
            runs && words.iter().skip(1).any(|word| word.starts_with(&mark))
        };
        processes().filter(is_ours).collect()
    }
}

/// The processes of a process group.
pub fn group_members(group: u32) -> Vec<u32> {
    let in_group = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may contain anything: state, parent, group.
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields.first() != Some(&"Z") && fields.get(2) == Some(&group.to_string().as_str())
    };
    processes().filter(in_group).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn kill(pid: u32) {
    #[cfg(unix)]
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = pid;
}
