//! The servers behind the gateway.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use evergate_peers::{Peer, free_port, installed, npm_program, ours};
use evergate_testkit::{Eras, HttpServer, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::{built, until};

/// One server: what the gateway's configuration says of it, and a way to kill it.
pub(crate) struct Upstream {
    entry: Value,
    life: Life,
    directory: TempDir,
}

/// Who runs it.
enum Life {
    /// This test does, on a port.
    Ours(Box<Peer>),
    /// This test does, in its own process.
    Kit(HttpServer),
    /// The gateway does, as a child with a command line that nobody else has: this word is in it.
    Child(String),
}

// === impl Upstream ===

impl Upstream {
    fn on_port(kind: &str, path: &str, command: impl FnOnce(u16, &Path) -> Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let peer = Peer::start(command(port, &directory.path().join("log")));
        let entry = json!({ "type": kind, "url": format!("http://127.0.0.1:{port}{path}") });
        Self { entry, life: Life::Ours(Box::new(peer)), directory }
    }

    fn as_child(program: &Path, arguments: impl FnOnce(&Path, &str) -> Vec<String>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let directory = tempfile::tempdir().unwrap();
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let word = format!("evergate-test-{}-{nth}", std::process::id());
        let arguments = arguments(directory.path(), &word);
        let entry = json!({ "command": program, "args": arguments });
        Self { entry, life: Life::Child(word), directory }
    }

    fn everything_on_port(kind: &str, mode: &str, path: &str) -> Self {
        Self::on_port(kind, path, |port, _| {
            let mut command = Command::new("node");
            command.arg(npm_program("server-everything")).arg(mode).env("PORT", port.to_string());
            command
        })
    }

    pub(crate) fn everything_http() -> Self {
        Self::everything_on_port("http", "streamableHttp", "/mcp")
    }

    pub(crate) fn everything_sse() -> Self {
        Self::everything_on_port("sse", "sse", "/sse")
    }

    pub(crate) fn everything_stdio() -> Self {
        // It looks at its first argument only, so the word does no harm.
        Self::as_child("node".as_ref(), |_, word| {
            vec![shown(&npm_program("server-everything")), "stdio".to_owned(), word.to_owned()]
        })
    }

    pub(crate) fn filesystem() -> Self {
        Self::as_child("node".as_ref(), |directory, word| {
            let allowed = directory.canonicalize().unwrap().join(word);
            std::fs::create_dir(&allowed).unwrap();
            std::fs::write(allowed.join("greeting.txt"), "hello").unwrap();
            vec![shown(&npm_program("server-filesystem")), shown(&allowed)]
        })
    }

    pub(crate) fn memory() -> Self {
        let mut upstream = Self::as_child("node".as_ref(), |_, word| {
            vec![shown(&npm_program("server-memory")), word.to_owned()]
        });
        let file = shown(&upstream.directory.path().join("memory.json"));
        upstream.entry["env"] = json!({ "MEMORY_FILE_PATH": file });
        upstream
    }

    fn python_on_port(kind: &str, transport: &str, path: &str) -> Self {
        Self::on_port(kind, path, |port, log| {
            let mut command = Command::new(installed("python/bin/python"));
            command.arg(ours("servers/python_server.py")).arg(transport);
            command.arg(port.to_string()).arg(log);
            command
        })
    }

    pub(crate) fn python_http() -> Self {
        Self::python_on_port("http", "streamable-http", "/mcp")
    }

    pub(crate) fn python_sse() -> Self {
        Self::python_on_port("sse", "sse", "/sse")
    }

    pub(crate) fn python_stdio() -> Self {
        Self::as_child(&installed("python/bin/python"), |directory, word| {
            let script = shown(&ours("servers/python_server.py"));
            let log = shown(&directory.join("log"));
            vec![script, "stdio".to_owned(), word.to_owned(), log]
        })
    }

    pub(crate) fn rmcp_http() -> Self {
        Self::on_port("http", "/mcp", |port, log| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rmcp-server"));
            command.arg("http").arg(port.to_string()).arg(log);
            command
        })
    }

    /// The Python SDK with the fixtures of the conformance suite, in both eras.
    pub(crate) fn python_fixtures() -> Self {
        Self::on_port("http", "/mcp", |port, _| {
            let mut command = Command::new(installed("python/bin/python"));
            command.arg(ours("servers/conformance_server.py")).env("PORT", port.to_string());
            command
        })
    }

    /// The test kit with the fixtures of the conformance suite: `legacy`, `modern` or `both`.
    pub(crate) fn kit_fixtures(eras: &str) -> Self {
        Self::on_port("http", "/mcp", |port, _| {
            let mut command = Command::new(built("conformance-server"));
            command.args(["--eras", eras, "--port", &port.to_string()]);
            command
        })
    }

    /// The test kit with its own tools, in this process: it can be asked what happened.
    pub(crate) async fn kit(eras: Eras) -> Self {
        let server = Server::new();
        server.set_eras(eras);
        let http = HttpServer::start(server).await;
        let entry = json!({ "type": "http", "url": http.url() });
        Self { entry, life: Life::Kit(http), directory: tempfile::tempdir().unwrap() }
    }

    /// What happened in a server of the test kit, and a way to make more happen.
    pub(crate) fn server(&self) -> &Server {
        let Life::Kit(http) = &self.life else { panic!("not of the test kit") };
        http.server()
    }

    /// What the gateway's configuration says of it.
    pub(crate) fn entry(&self) -> &Value {
        &self.entry
    }

    /// The command and its arguments, for a server that the gateway runs.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        let arguments = self.entry["args"].as_array().unwrap();
        let words = std::iter::once(&self.entry["command"]).chain(arguments);
        words.map(|word| word.as_str().unwrap().into()).collect()
    }

    /// The folder that `filesystem` may read.
    pub(crate) fn allowed_folder(&self) -> PathBuf {
        let Life::Child(word) = &self.life else { panic!("not the file server") };
        self.directory.path().canonicalize().unwrap().join(word)
    }

    /// Kills it without a word, and starts it again if that is not the gateway's job. It may not be ready when this
    /// returns.
    pub(crate) async fn kill_and_restart(&mut self) {
        match &mut self.life {
            Life::Ours(peer) => peer.restart().await,
            Life::Kit(http) => {
                http.kill().await;
                http.server().forget_sessions();
                http.revive().await;
            }
            Life::Child(_) => {
                until("a child to kill", async || !self.children().is_empty()).await;
                let old = self.children();
                for pid in &old {
                    // It may have ended by itself.
                    let _ = kill_process(*pid, Signal::KILL);
                }
                // Until the gateway has reaped it. A process that is dying has no command line long before its input is
                // closed, and what is written there in between may have been read.
                let is_buried = |pid: &Pid| !Path::new(&format!("/proc/{pid}")).exists();
                until("the child is buried", async || old.iter().all(is_buried)).await;
            }
        }
    }

    /// The processes of a server that the gateway runs. Others only have its command line in theirs.
    pub(crate) fn children(&self) -> Vec<Pid> {
        let mut expected = Vec::new();
        for word in self.command_line() {
            expected.extend_from_slice(word.as_encoded_bytes());
            expected.push(0);
        }
        // One that ended and waits to be reaped has no command line.
        let is_one = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == expected)
        };
        let entries = std::fs::read_dir("/proc").expect("processes are found in /proc");
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(is_one).filter_map(Pid::from_raw).collect()
    }

    /// How often each call ran, over all processes that wrote to the log.
    pub(crate) fn executions(&self) -> HashMap<String, usize> {
        let mut executed = HashMap::new();
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        for line in log.lines() {
            *executed.entry(line.to_owned()).or_default() += 1;
        }
        executed
    }
}

fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
