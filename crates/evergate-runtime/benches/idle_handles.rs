//! What 10,000 idle servers cost in resident memory. Linux only; elsewhere it prints nothing of use.
//!
//! `cargo bench --bench idle_handles -- 500` takes 500 instead, for a heap profiler.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evergate_runtime::{Hub, MemoryConnector, ServerHandle, Settings, StateKind};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinSet;

const INITIALIZED: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"idle"}}"#;
/// Of the in-memory stream. It allocates only what is written.
const PIPE: usize = 4096;

fn main() {
    // `cargo test --benches` only wants to know that it works.
    let usual = if std::env::args().any(|arg| arg == "--bench") { 10_000 } else { 10 };
    let count = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(usual);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure(count));
}

async fn measure(count: usize) {
    say(&format!("{count} of each, growth of resident memory:"));
    // Nothing is freed until the end, so that no step lives off what another left behind.
    let before = resident();
    let off = hub(count, |_| Settings::http("http://localhost:1/mcp").disabled());
    settle().await;
    report("disabled servers", before);

    let before = resident();
    let first = off.servers().into_iter().next().expect("at least one");
    let handles: Vec<ServerHandle> = (0..count).map(|_| first.clone()).collect();
    report("clones of a handle", before);

    let before = resident();
    let peers = Arc::new(Mutex::new(JoinSet::new()));
    let ends: Vec<DuplexStream> = (0..count).map(|_| peer_in(&peers)).collect();
    settle().await;
    report("in-memory peers without a hub", before);

    let before = resident();
    let on = hub(count, |_| {
        let peers = peers.clone();
        Settings::memory(MemoryConnector::new(move || Ok(peer_in(&peers))))
    });
    for server in on.servers() {
        let up = |status: &evergate_runtime::Status| status.state == StateKind::Connected;
        server.wait_until(Duration::from_mins(1), up).await.expect("connected");
    }
    settle().await;
    report("connected servers and their in-memory peers", before);
    drop((off, handles, ends, on));
}

fn hub(count: usize, settings: impl Fn(usize) -> Settings) -> Hub {
    let mut builder = Hub::builder();
    for n in 0..count {
        builder = builder.server(format!("server-{n}"), settings(n));
    }
    builder.start().expect("valid settings")
}

fn peer_in(peers: &Mutex<JoinSet<()>>) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    peers.lock().expect("no panics").spawn(serve(theirs));
    ours
}

/// Answers `initialize` and nothing else.
async fn serve(stream: DuplexStream) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::with_capacity(512, reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.contains("\"initialize\"") {
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{INITIALIZED}}}\n");
            if writer.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Time for what was just started to come to rest.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn report(what: &str, before: u64) {
    let grown = resident().saturating_sub(before);
    say(&format!("{:>6}.{} MiB  {what}", grown / 1024, grown % 1024 * 10 / 1024));
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

fn say(line: &str) {
    // Nobody reads it if this fails.
    let _ = writeln!(std::io::stdout(), "{line}");
}
