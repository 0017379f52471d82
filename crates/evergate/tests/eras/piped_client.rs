//! `evergate stdio` and a client of any revision at its pipes.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::caller::Era;
use crate::stateless_client::{CAPABILITIES, CLIENT_INFO, MODERN, VERSION};
use crate::support::{NEWEST, PATIENCE};

/// Cheap to clone; the process ends with the last.
#[derive(Clone)]
pub(crate) struct Piped {
    pub(crate) era: Era,
    shared: Arc<Shared>,
}

struct Shared {
    child: Child,
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    log: Arc<Log>,
    next: AtomicU64,
    _folder: TempDir,
}

/// Everything that came, in order.
struct Log {
    messages: Mutex<Vec<Value>>,
    changed: watch::Sender<bool>,
}

/// Reads what comes from some point on.
pub(crate) struct Reading {
    log: Arc<Log>,
    place: usize,
}

// === impl Piped ===

impl Piped {
    /// Starts it; a client with a handshake has made it.
    pub(crate) async fn start(config: &Value, era: Era) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evergate.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_evergate"))
            .args(["stdio", "--config", path.to_str().unwrap()])
            .env("XDG_STATE_HOME", folder.path())
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let messages = Mutex::default();
        let log = Arc::new(Log { messages, changed: watch::Sender::new(false) });
        tokio::spawn(keep(child.stdout.take().unwrap(), log.clone()));
        let input = tokio::sync::Mutex::new(child.stdin.take());
        let shared = Shared { child, input, log, next: AtomicU64::new(0), _folder: folder };
        let client = Self { era, shared: Arc::new(shared) };
        if era == Era::Legacy {
            let able = json!({ "sampling": {}, "elicitation": {}, "roots": {} });
            let params = json!({
                "protocolVersion": NEWEST, "capabilities": able,
                "clientInfo": { "name": "eras", "version": "1" },
            });
            let answer = client.request("initialize", params).await;
            assert_eq!(answer["result"]["protocolVersion"], NEWEST, "{answer}");
            client.notify("notifications/initialized", json!({})).await;
        }
        client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.shared.child.id().unwrap()
    }

    /// From here on.
    pub(crate) fn read(&self) -> Reading {
        let log = self.shared.log.clone();
        let place = log.messages.lock().unwrap().len();
        Reading { log, place }
    }

    /// Sends a request, and returns its id and whatever comes from then on.
    pub(crate) async fn begin(&self, method: &str, mut params: Value) -> (Value, Reading) {
        let id = json!(self.shared.next.fetch_add(1, Ordering::Relaxed) + 1);
        if self.era == Era::Modern {
            let mut meta = match params["_meta"].take() {
                Value::Object(meta) => meta,
                _ => Map::new(),
            };
            let able = json!({ "sampling": {}, "elicitation": {}, "roots": {} });
            meta.insert(VERSION.into(), MODERN.into());
            meta.insert(CAPABILITIES.into(), able);
            meta.insert(CLIENT_INFO.into(), json!({ "name": "eras", "version": "1" }));
            params["_meta"] = meta.into();
        }
        let reading = self.read();
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request).await;
        (id, reading)
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let (id, mut reading) = self.begin(method, params).await;
        reading.answer(&id).await
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn respond(&self, id: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    pub(crate) async fn send(&self, message: &Value) {
        let mut input = self.shared.input.lock().await;
        let input = input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    /// Closes its side.
    pub(crate) async fn hang_up(&self) {
        self.shared.input.lock().await.take();
    }
}

// === impl Reading ===

impl Reading {
    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let mut changed = self.log.changed.subscribe();
        loop {
            let over = *changed.borrow_and_update();
            let message = self.log.messages.lock().unwrap().get(self.place).cloned();
            if message.is_some() {
                self.place += 1;
                return message;
            }
            if over {
                return None;
            }
            timeout(PATIENCE, changed.changed()).await.expect("no message").unwrap();
        }
    }

    /// Reads until this answer.
    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await.expect("an answer");
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
        }
    }
}

async fn keep(output: ChildStdout, log: Arc<Log>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        log.messages.lock().unwrap().push(message);
        log.changed.send_replace(false);
    }
    log.changed.send_replace(true);
}
