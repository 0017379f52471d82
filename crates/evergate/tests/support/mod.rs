//! The built gateway as a process, and a client that shows every byte and header of what it gets.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evergate_runtime::wire::{EventDecoder, ServerEvent};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Longer than anything takes, so that a test that fails says so instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const NEWEST: &str = "2025-11-25";

/// A gateway process. Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) url: String,
    pub(crate) folder: Arc<tempfile::TempDir>,
    args: Vec<String>,
    stderr: Arc<Mutex<String>>,
}

/// How to start one.
pub(crate) struct Starting {
    folder: Arc<tempfile::TempDir>,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

/// An HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An HTTP answer that is still coming: server-sent events.
pub(crate) struct Events {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    decoder: EventDecoder,
}

/// Speaks plain HTTP to one endpoint.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// A client with a session.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) http: Http,
    pub(crate) id: String,
    pub(crate) welcome: Value,
    next: Arc<std::sync::atomic::AtomicU64>,
}

// === impl Starting ===

/// A gateway with this configuration, on a free port, with a state directory of its own.
pub(crate) fn gateway(config: &Value) -> Starting {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let path = folder.path().join("evergate.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let state = folder.path().join("state");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--config",
        path.to_str().unwrap(),
        "--state-dir",
        state.to_str().unwrap(),
    ];
    Starting { folder, args: args.map(str::to_owned).to_vec(), env: Vec::new() }
}

impl Starting {
    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Somewhere else than on a free port of this machine alone.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        let listen = self.args.iter().position(|arg| arg == "--listen").unwrap() + 1;
        address.clone_into(&mut self.args[listen]);
        self
    }

    /// Starts it and waits for its URL.
    pub(crate) fn start(self) -> Gateway {
        Gateway::spawn(self.folder, self.args, self.env)
    }
}

// === impl Gateway ===

impl Gateway {
    fn spawn(
        folder: Arc<tempfile::TempDir>,
        args: Vec<String>,
        env: Vec<(String, String)>,
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evergate"))
            .args(&args)
            .env_remove("RUST_LOG")
            .envs(env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, sink) = (child.stderr.take().unwrap(), stderr.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read) = pipe.read(&mut buffer)
                && read > 0
            {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(url.starts_with("http"), "no URL; it said: {}", stderr.lock().unwrap());
        Self { child, url, folder, args, stderr }
    }

    /// Where `path` is, as in `base("/health")`.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url.strip_suffix("/mcp").unwrap())
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(&self.url)
    }

    /// A client of all servers.
    pub(crate) async fn connect(&self) -> Session {
        self.http().initialize().await
    }

    pub(crate) async fn health(&self) -> Value {
        Http::new(&self.at("/health")).get(&[]).await.json()
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.folder.path().join("evergate.json")
    }

    pub(crate) fn write_config(&self, config: &Value) {
        std::fs::write(self.config_path(), config.to_string()).unwrap();
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the gateway ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Ends it with a signal and starts it anew on the same port, with the same configuration and state.
    pub(crate) async fn restart(mut self, signal: Signal) -> Self {
        self.signal(signal);
        self.ended().await;
        self.restart_ended()
    }

    /// The same for one that has ended already.
    pub(crate) fn restart_ended(self) -> Self {
        let address =
            self.url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
        let mut args = self.args.clone();
        let listen = args.iter().position(|arg| arg == "--listen").unwrap() + 1;
        address.clone_into(&mut args[listen]);
        Self::spawn(self.folder.clone(), args, Vec::new())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Http ===

impl Http {
    pub(crate) fn new(url: &str) -> Self {
        // A connection each: one that is kept may end between two requests, when the gateway does.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(HttpConnector::new());
        Self { client, url: url.to_owned(), headers: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Any request; `headers` come on top of the client's own.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> http::Response<Incoming> {
        let mut request = Request::builder().method(method).uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        tokio::time::timeout(PATIENCE, self.client.request(request))
            .await
            .expect("no answer")
            .unwrap()
    }

    /// Any request, with these headers alone.
    pub(crate) async fn ask(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::of(self.send(method, headers, body).await).await
    }

    pub(crate) async fn get(&self, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.send(Method::GET, headers, "").await).await
    }

    /// A POST with the headers MCP wants.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        Answer::of(self.send(Method::POST, &with_mcp(headers), body).await).await
    }

    /// The same, for an answer that is a stream.
    pub(crate) async fn post_for_events(
        &self,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Events {
        Events::of(self.send(Method::POST, &with_mcp(headers), body).await)
    }

    pub(crate) async fn delete(&self, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.send(Method::DELETE, headers, "").await).await
    }

    /// A GET for a stream.
    pub(crate) async fn listen(&self, headers: &[(&str, &str)]) -> Events {
        let mut headers = headers.to_vec();
        headers.push(("accept", "text/event-stream"));
        Events::of(self.send(Method::GET, &headers, "").await)
    }

    pub(crate) async fn initialize(&self) -> Session {
        self.initialize_as(NEWEST, json!({ "sampling": {}, "elicitation": {}, "roots": {} })).await
    }

    pub(crate) async fn initialize_as(&self, version: &str, capabilities: Value) -> Session {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        }});
        let answer = self.post(&[], body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let id = answer.header("mcp-session-id").expect("a session id").to_owned();
        let session = Session {
            http: self.clone(),
            id,
            welcome: answer.json()["result"].clone(),
            next: Arc::default(),
        };
        session.notify("notifications/initialized", json!({})).await;
        session
    }
}

fn with_mcp<'a>(headers: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = headers.to_vec();
    let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !has("accept") {
        all.push(("accept", "application/json, text/event-stream"));
    }
    if !has("content-type") {
        all.push(("content-type", "application/json"));
    }
    all
}

// === impl Session ===

impl Session {
    pub(crate) fn headers(&self) -> [(&str, &str); 2] {
        [
            ("mcp-session-id", &self.id),
            ("mcp-protocol-version", self.welcome["protocolVersion"].as_str().unwrap()),
        ]
    }

    /// Sends a request and waits for its answer, whichever way it comes. The whole JSON-RPC message.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        self.request_with_id(json!(id), method, params).await
    }

    pub(crate) async fn request_with_id(&self, id: Value, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let response =
            self.http.send(Method::POST, &with_mcp(&self.headers()), body.to_string()).await;
        assert_eq!(response.status(), StatusCode::OK, "{:?}", response.headers());
        let is_stream = response.headers()["content-type"] == "text/event-stream";
        if !is_stream {
            return Answer::of(response).await.json();
        }
        let mut events = Events::of(response);
        loop {
            let message = events.message().await.expect("the stream ended without the answer");
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
        }
    }

    /// The same, as a stream of whatever comes.
    pub(crate) async fn request_events(&self, id: Value, method: &str, params: Value) -> Events {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.http.post_for_events(&self.headers(), body.to_string()).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// The text of a tool's result.
    pub(crate) async fn call_text(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {answer}")).to_owned()
    }

    pub(crate) async fn tool_names(&self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let answer = self.http.post(&self.headers(), body.to_string()).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text());
    }

    /// Answers a question of the gateway.
    pub(crate) async fn respond(&self, id: &Value, result: Value) {
        let body = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let answer = self.http.post(&self.headers(), body.to_string()).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text());
    }

    /// Any body, with the session's headers.
    pub(crate) async fn post(&self, body: impl Into<Bytes>) -> Answer {
        self.http.post(&self.headers(), body).await
    }

    pub(crate) async fn listen(&self) -> Events {
        self.http.listen(&self.headers()).await
    }

    pub(crate) async fn listen_from(&self, last_event_id: &str) -> Events {
        let mut headers = self.headers().to_vec();
        headers.push(("last-event-id", last_event_id));
        self.http.listen(&headers).await
    }
}

// === impl Answer ===

impl Answer {
    async fn of(response: http::Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let body =
            tokio::time::timeout(PATIENCE, body.collect()).await.expect("the body never ends");
        Self { status: parts.status, headers: parts.headers, body: body.unwrap().to_bytes() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }
}

// === impl Events ===

impl Events {
    fn of(response: http::Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body,
            decoder: EventDecoder::new(16 << 20),
        }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if let Some(event) = self.decoder.next_event().unwrap() {
                return Some(event);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("no event");
            let data = frame?.ok()?.into_data().ok()?;
            self.decoder.push(&data);
        }
    }

    /// The next bytes as they come, comments included. Not to be mixed with the others.
    pub(crate) async fn bytes(&mut self) -> Option<Bytes> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("no bytes");
        frame?.ok()?.into_data().ok()
    }

    /// Everything until the stream ends, as text.
    pub(crate) async fn rest(mut self) -> String {
        let mut all = Vec::new();
        while let Some(bytes) = self.bytes().await {
            all.extend_from_slice(&bytes);
        }
        String::from_utf8(all).unwrap()
    }

    /// The next event with a message in it, as JSON.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let message = async {
            loop {
                let event = self.next().await?;
                if !event.data.is_empty() {
                    return Some(serde_json::from_slice(event.data.as_ref()).unwrap());
                }
            }
        };
        tokio::time::timeout(PATIENCE, message).await.expect("no message came")
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "in vain: {what}");
}

/// Whether a process still exists.
pub(crate) fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
