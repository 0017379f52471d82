//! What the tests of this crate share: processes that can be killed, ports for them, and where peers are installed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};

/// Longer than anything takes on the busiest machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server process that listens on a port, and can come back on it. It does not outlive this value.
#[derive(Debug)]
pub struct Peer {
    command: Command,
    child: Child,
}

// === impl Peer ===

impl Peer {
    /// Starts it, without a word on any of its standard streams.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().unwrap();
        Self { command, child }
    }

    /// Ends without a word to anybody.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Kills it and starts it again. It may not listen yet when this returns.
    pub async fn restart(&mut self) {
        self.kill().await;
        self.child = self.command.spawn().unwrap();
    }

    /// Ends for good.
    pub async fn stop(mut self) {
        self.kill().await;
    }
}

/// How many there are below the system's own.
const PORTS: u16 = 12_000;

/// A port that nobody else takes while its server is down. Below the range from which the system hands out ports for
/// outgoing connections: one of those might get it, even the client's own.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests may run in several processes. UDP has ports of its own, so holding that one tells the others that the one
    // for TCP is taken.
    static HELD: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let start = u16::try_from(std::process::id() % 120).unwrap() * 100;
    loop {
        // Each process begins elsewhere, and may need any number of them.
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS) % PORTS;
        let Ok(held) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            HELD.lock().unwrap().push(held);
            return port;
        }
    }
}

/// A file that `./scripts/install-peers` installed.
pub fn installed(path: &str) -> PathBuf {
    let peers = std::env::var_os("EVERGATE_PEERS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers")),
        PathBuf::from,
    );
    let file = peers.join(path);
    assert!(file.exists(), "no {}: run ./scripts/install-peers", file.display());
    file
}

/// `prometheus` or `promtool`: the system's, or the one that was unpacked.
pub fn prometheus_program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places
        .find(|file| file.is_file())
        .unwrap_or_else(|| installed(&format!("prometheus/usr/bin/{name}")))
}

/// A program of an npm package.
pub fn npm_program(package: &str) -> PathBuf {
    installed(&format!("node/node_modules/@modelcontextprotocol/{package}/dist/index.js"))
}

/// A file of this repository's `peers` folder.
pub fn ours(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers")).join(path)
}
