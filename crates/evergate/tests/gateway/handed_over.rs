//! Sockets that outlive the gateway: a restart refuses nobody and loses nothing.
//!
//! The test is the supervisor: it has the listening socket all the time, as systemd does.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{at, child, servers, web};
use crate::support::{Http, PATIENCE, Session, until};

/// Listens, and starts gateways that are given the socket.
struct Supervisor {
    socket: TcpListener,
    words: UnixDatagram,
    folder: TempDir,
}

/// One of them. Killed when dropped.
struct Started {
    child: Child,
    url: String,
}

// === impl Supervisor ===

impl Supervisor {
    fn new(config: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("evergate.json"), config.to_string()).unwrap();
        let words = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        words.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket: TcpListener::bind("127.0.0.1:0").unwrap(), words, folder }
    }

    /// The shell moves the socket to where the protocol wants it, and becomes the gateway.
    fn command(&self, names: &str) -> Command {
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_evergate"), "serve", "--config"]);
        command.arg(self.folder.path().join("evergate.json"));
        command.arg("--state-dir").arg(self.folder.path().join("state"));
        command.env_remove("RUST_LOG").env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", names);
        command.env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        let socket = OwnedFd::from(self.socket.try_clone().unwrap());
        command.stdin(socket).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Started {
        let mut command = self.command("mcp");
        let mut child =
            command.env("WATCHDOG_USEC", "200000").stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Started { child, url: url.trim().to_owned() }
    }

    /// Waits for a word of a gateway.
    fn hears(&self, wanted: &str) -> String {
        let mut buffer = [0; 512];
        loop {
            let read = self.words.recv(&mut buffer).unwrap_or_else(|_| panic!("no {wanted}"));
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            if text.contains(wanted) {
                return text;
            }
        }
    }
}

// === impl Started ===

impl Started {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    async fn stop(self) {
        self.signal(Signal::TERM);
        self.ends().await;
    }

    async fn ends(mut self) {
        let mut status = None;
        until("it ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert_eq!(status.unwrap().code(), Some(0));
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls without a pause until told to stop, and stops at the first call that is not answered. How many were.
async fn keep_calling(session: Session, keep_alive: bool, stop: Arc<AtomicBool>) -> u64 {
    let idle = if keep_alive { 4 } else { 0 };
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(idle).build_http();
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        calls += 1;
        let call = json!({ "jsonrpc": "2.0", "id": calls, "method": "tools/call", "params": {
            "name": "web__echo", "arguments": { "text": "hello" } } });
        let mut request = Request::builder().method(Method::POST).uri(&session.http.url);
        for (name, value) in session.headers() {
            request = request.header(name, value);
        }
        let request = request
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(Full::new(bytes::Bytes::from(call.to_string())))
            .unwrap();
        let response = client.request(request).await;
        let response = response.unwrap_or_else(|error| panic!("call {calls}: {error:?}"));
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.unwrap_or_else(|error| panic!("call {calls}: {error:?}")).to_bytes();
        let text = String::from_utf8_lossy(&body);
        assert!(status.is_success() && text.contains("hello"), "call {calls}: {status} {text}");
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_refuses_no_connection_and_loses_no_call() {
    let http = web().await;
    let supervisor = Supervisor::new(&servers(json!({ "web": at(&http), "c": child(&[]) })));
    let mut gateway = supervisor.start();
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for keep_alive in [false, false, true, true] {
        let session = Http::new(&gateway.url).initialize().await;
        callers.push(tokio::spawn(keep_calling(session, keep_alive, stop.clone())));
    }
    let connected = Arc::new(AtomicUsize::new(0));
    // Somebody who only connects: the system must never say no.
    let knocking = tokio::spawn({
        let (address, stop) = (supervisor.socket.local_addr().unwrap(), stop.clone());
        let connected = connected.clone();
        async move {
            while !stop.load(Ordering::Relaxed) {
                tokio::net::TcpStream::connect(address).await.unwrap();
                connected.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    for _ in 0..3 {
        let before = http.server().counters().calls;
        let wanted = |now: &evergate_testkit::Counters| now.calls > before + 20;
        crate::kit::soon("calls go through", http.server().wait_for(wanted)).await;
        let knocks = connected.load(Ordering::Relaxed);
        gateway.stop().await;
        until("somebody waits", async || connected.load(Ordering::Relaxed) > knocks).await;
        gateway = supervisor.start();
    }
    let before = http.server().counters().calls;
    crate::kit::soon("they still do", http.server().wait_for(|now| now.calls > before + 20)).await;
    stop.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    knocking.await.unwrap();
    assert_eq!(http.server().counters().calls, calls, "each ran once");
}

#[tokio::test]
async fn a_call_under_way_is_answered_while_others_wait_for_the_next_gateway() {
    let http = web().await;
    let supervisor = Supervisor::new(&servers(json!({ "web": at(&http) })));
    let gateway = supervisor.start();
    let session = Http::new(&gateway.url).initialize().await;
    let held = tokio::spawn({
        let session = session.clone();
        async move { session.call("web__hold", json!({})).await }
    });
    crate::kit::soon("it is under way", http.server().wait_for(|now| now.calls == 1)).await;
    gateway.signal(Signal::TERM);
    supervisor.hears("STOPPING=1");
    // The door closes any moment; until then calls are answered.
    let waiting = loop {
        let session = session.clone();
        let mut call =
            tokio::spawn(
                async move { session.call_text("web__echo", json!({ "text": "late" })).await },
            );
        if tokio::time::timeout(Duration::from_millis(400), &mut call).await.is_err() {
            break call;
        }
    };
    http.server().release_held();
    let answer = held.await.unwrap();
    assert!(answer["result"].is_object(), "{answer}");
    gateway.ends().await;
    let _next = supervisor.start();
    assert_eq!(waiting.await.unwrap(), "late");
}

#[tokio::test]
async fn commands_find_the_gateway_that_took_the_socket_over() {
    let http = web().await;
    let supervisor = Supervisor::new(&servers(json!({ "web": at(&http) })));
    let found = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
        command
            .args(["status", "--json", "--state-dir"])
            .arg(supervisor.folder.path().join("state"));
        let output = command.env_remove("EVERGATE_KEY").output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        said["gateway"]["pid"].as_u64()
    };
    let old = supervisor.start();
    assert_eq!(found(), Some(u64::from(old.child.id())));
    let session = Http::new(&old.url).initialize().await;
    let held = tokio::spawn(async move { session.call("web__hold", json!({})).await });
    crate::kit::soon("it is under way", http.server().wait_for(|now| now.calls == 1)).await;
    old.signal(Signal::TERM);
    supervisor.hears("STOPPING=1");
    let new = supervisor.start();
    let pid = u64::from(new.child.id());
    until("the new one is found while the old one drains", async || found() == Some(pid)).await;
    http.server().release_held();
    held.await.unwrap();
    old.ends().await;
    assert_eq!(found(), Some(pid));
}

#[tokio::test]
async fn the_supervisor_is_told_what_it_wants_to_know() {
    let http = web().await;
    let config = servers(json!({ "web": at(&http) }));
    let supervisor = Supervisor::new(&config);
    let gateway = supervisor.start();
    let address = supervisor.socket.local_addr().unwrap();
    assert_eq!(gateway.url, format!("http://{address}/mcp"));
    assert_eq!(supervisor.hears("READY=1"), format!("READY=1\nSTATUS=serving at {}", gateway.url));
    supervisor.hears("WATCHDOG=1");
    supervisor.hears("WATCHDOG=1");
    gateway.signal(Signal::HUP);
    assert!(supervisor.hears("RELOADING=1").contains("MONOTONIC_USEC="));
    assert_eq!(supervisor.hears("READY=1"), "READY=1");
    gateway.signal(Signal::TERM);
    assert!(supervisor.hears("STOPPING=1").contains("EXTEND_TIMEOUT_USEC=60000000"));
}

#[tokio::test]
async fn children_get_neither_the_socket_nor_the_word_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seen");
    let script = "{ env; ls -l /proc/$$/fd; } >\"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 60";
    let nosy = json!({ "command": "sh", "args": ["-c", script, path] });
    let supervisor = Supervisor::new(&servers(json!({ "nosy": nosy })));
    let _gateway = supervisor.start();
    until("it looked around", async || path.exists()).await;
    let seen = std::fs::read_to_string(&path).unwrap();
    assert!(!seen.contains("LISTEN_FDS=") && !seen.contains("LISTEN_PID="), "{seen}");
    assert!(!seen.contains("socket:"), "{seen}");
}

#[tokio::test]
async fn a_second_socket_is_for_operators() {
    let supervisor = Supervisor::new(&servers(json!({})));
    let admin = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = admin.local_addr().unwrap();
    let mut command = Command::new("sh");
    let script = "exec 3<&0 4<&2 </dev/null 2>/dev/null; LISTEN_PID=$$ exec \"$@\"";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_evergate"), "serve", "--config"]);
    command.arg(supervisor.folder.path().join("evergate.json"));
    command.env_remove("RUST_LOG").env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", "mcp:admin");
    command.env("XDG_STATE_HOME", supervisor.folder.path());
    let socket = OwnedFd::from(supervisor.socket.try_clone().unwrap());
    command.stdin(socket).stdout(Stdio::piped()).stderr(OwnedFd::from(admin));
    let mut child = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let gateway = Started { child, url: url.trim().to_owned() };
    let status = async |url: &str| Http::new(url).get(&[]).await.status.as_u16();
    assert_eq!(status(&format!("http://{address}/api/v1/gateway")).await, 200);
    assert_eq!(status(&gateway.url.replace("/mcp", "/api/v1/gateway")).await, 404);
    assert_eq!(status(&gateway.url.replace("/mcp", "/livez")).await, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_handed_over_must_be_of_use() {
    let config = servers(json!({}));
    // Something else than a socket.
    let supervisor = Supervisor::new(&config);
    let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let output = supervisor.command("mcp").stdin(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("socket 1 (\"mcp\") of LISTEN_FDS"), "{said}");
    // An address that others can reach needs keys, whoever listens there.
    let open =
        Supervisor { socket: TcpListener::bind("0.0.0.0:0").unwrap(), ..Supervisor::new(&config) };
    let output = open.command("mcp").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("gateway.auth.keys is empty"), "{said}");
}
