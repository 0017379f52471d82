//! The gateway's own program, on a port to which it can come back.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use evergate_peers::{PATIENCE, free_port};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Target, Upstream, built};

/// A gateway in front of some servers. It does not outlive this value, nor do its children.
pub(crate) struct Gateway {
    directory: TempDir,
    port: u16,
    url: String,
    child: Child,
}

/// How much of the log is shown when a test fails.
const LOG_TAIL_BYTES: usize = 6000;

// === impl Gateway ===

impl Gateway {
    /// A configuration file with these servers.
    pub(crate) fn write_config(directory: &TempDir, servers: &[(&str, &Upstream)]) -> PathBuf {
        // The servers of a test die more often than those of anybody else, for which the usual delays would grow.
        let lifecycle =
            json!({ "backoff": { "initial": "50ms", "max": "500ms" }, "max_attempts": -1 });
        let entry = |server: &Upstream| {
            let mut entry = server.entry().clone();
            entry["lifecycle"] = lifecycle.clone();
            entry
        };
        let servers: Value =
            servers.iter().map(|(name, server)| ((*name).to_owned(), entry(server))).collect();
        let file = directory.path().join("config.json");
        std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
        file
    }

    /// Starts it in front of these servers, and waits until it says that it is ready.
    pub(crate) async fn start(servers: &[(&str, &Upstream)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::write_config(&directory, servers);
        Self::start_in(directory).await
    }

    /// The same with a configuration of the test's own.
    pub(crate) async fn start_with(config: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        Self::start_in(directory).await
    }

    async fn start_in(directory: TempDir) -> Self {
        let port = free_port();
        let (child, url) = launch(&directory, port).await;
        Self { directory, port, url, child }
    }

    /// Starts it with this configuration.
    pub(crate) async fn configured(config: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        let port = free_port();
        let (child, url) = launch(&directory, port).await;
        Self { directory, port, url, child }
    }

    /// As a command that the client starts.
    pub(crate) fn as_command(arguments: impl IntoIterator<Item = OsString>) -> Target {
        Target::Command(std::iter::once(program()).chain(arguments).collect())
    }

    /// All servers, streamable HTTP.
    pub(crate) fn all(&self) -> Target {
        Target::Url(self.url.clone())
    }

    /// One server, with its own names.
    pub(crate) fn only(&self, server: &str) -> Target {
        Target::Url(format!("{}/{server}", self.url))
    }

    /// All servers, for clients of 2024.
    pub(crate) fn legacy_sse(&self) -> Target {
        Target::Sse(format!("{}/sse", self.url.strip_suffix("/mcp").unwrap()))
    }

    /// Where it is, for programs that take more than an address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Ends in order, and comes back on the same port.
    pub(crate) async fn restart(&mut self) {
        self.end().await;
        (self.child, _) = launch(&self.directory, self.port).await;
    }

    /// Ends without a word.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Comes back on the same port.
    pub(crate) async fn come_back(&mut self) {
        (self.child, _) = launch(&self.directory, self.port).await;
    }

    /// Ends in order, with success.
    pub(crate) async fn stop(mut self) {
        self.end().await;
    }

    async fn end(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let ended = timeout(PATIENCE, self.child.wait()).await.expect("the gateway does not end");
        let ended = ended.unwrap();
        assert!(ended.success(), "the gateway failed: {ended}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let log = std::fs::read(self.directory.path().join("log")).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL_BYTES)..];
        let shown =
            format!("--- the gateway's log ends with:\n{}\n", String::from_utf8_lossy(tail));
        let _ = std::io::stderr().write_all(shown.as_bytes());
    }
}

async fn launch(directory: &TempDir, port: u16) -> (Child, String) {
    let log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
    let mut command = Command::new(program());
    command.arg("serve").arg("--config").arg(directory.path().join("config.json"));
    command.arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.arg("--state-dir").arg(directory.path().join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = timeout(PATIENCE, lines.next_line()).await.expect("the gateway is never ready");
    let url = first.unwrap().expect("the gateway ended before it was ready");
    assert!(url.starts_with("http://127.0.0.1:"), "not an address: {url}");
    (child, url)
}

fn program() -> OsString {
    built("evergate").into_os_string()
}
