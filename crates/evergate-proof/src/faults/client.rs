//! The Node process with the official TypeScript SDK in it (`peers/clients/fault_client.mjs`): version 1 for a client with a
//! handshake, version 2 for one without.
//!
//! Commands and answers are lines of JSON. This file knows how they are written, and nothing of what they mean.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::product::{Address, Places};

/// How much longer than the client's own deadline its answer is waited for: the process may be busy.
const GRACE: Duration = Duration::from_secs(5);

/// Events that may wait to be looked at; a client that has more to tell is broken.
const EVENTS: usize = 4096;

/// What a request came to.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The SDK returned this.
    Result(Value),
    /// The SDK threw this.
    Error(Told),
    /// Nothing, not even from the SDK's own clock.
    Nothing,
}

/// What an error told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The JSON-RPC code, or the HTTP status, or none.
    pub code: Option<i64>,
    /// Everything there is to read: message, data, causes.
    pub text: String,
    /// What a person would be shown: the message and its causes.
    pub shown: String,
    /// Whether this is the SDK's own clock and not an answer.
    pub own_deadline: bool,
    /// Whether it came as the result of the tool, which hosts show to the model and do not act on.
    pub as_result: bool,
}

/// What the SDK says unasked. The number is that of the connection, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection is gone.
    Closed(u64),
    /// A notification arrived.
    Notification(String),
    /// What the client without a handshake listens on has ended.
    Unheard(u64),
}

/// One client process. It and whatever it started do not outlive this value.
#[derive(Debug)]
pub struct Client {
    child: Child,
    group: Option<u32>,
    input: tokio::sync::Mutex<ChildStdin>,
    next: AtomicU64,
    waiting: Waiting,
    _reader: JoinSet<()>,
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Reply>>>>;

// === impl Client ===

impl Client {
    /// Starts the process. It is connected to nothing yet.
    pub fn start(places: &Places) -> anyhow::Result<(Self, mpsc::Receiver<Event>)> {
        let mut command = Command::new("node");
        command.arg(script()).env("EVERGATE_PEERS_DIR", &places.peers);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own, so that what it starts can be found and ended with it, and so that an interrupt on the
        // terminal reaches it through us only.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.kill_on_drop(true).spawn().context("cannot start node")?;
        let (input, output) =
            child.stdin.take().zip(child.stdout.take()).context("no pipes to node")?;
        let waiting = Waiting::default();
        let (events, to_see) = mpsc::channel(EVENTS);
        let mut reader = JoinSet::new();
        reader.spawn(read(BufReader::new(output).lines(), waiting.clone(), events));
        let group = child.id();
        let input = tokio::sync::Mutex::new(input);
        Ok((
            Self { child, group, input, next: AtomicU64::new(1), waiting, _reader: reader },
            to_see,
        ))
    }

    /// Lets go of the old connection, if any, and makes a new one. Its number, or why not.
    pub async fn connect(
        &self,
        to: &Address,
        modern: bool,
        deadline: Duration,
    ) -> Result<u64, Told> {
        let mut command = match to {
            Address::Http(url) => json!({ "kind": "http", "url": url }),
            Address::Sse(url) => json!({ "kind": "sse", "url": url }),
            Address::Stdio(program) => {
                let env: HashMap<_, _> = program.env.iter().cloned().collect();
                json!({ "kind": "stdio", "command": program.command, "args": program.args, "env": env })
            }
        };
        command["modern"] = modern.into();
        match self.request("connect", command, deadline).await {
            Reply::Result(result) => Ok(result["client"].as_u64().unwrap_or_default()),
            Reply::Error(told) => Err(told),
            Reply::Nothing => {
                Err(Told { own_deadline: true, ..Told::saying("no connection in time") })
            }
        }
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, args: &Value, deadline: Duration) -> Reply {
        self.request("call", json!({ "tool": tool, "args": args }), deadline).await
    }

    /// Asks to be told of changes, which a client without a handshake must.
    pub async fn listen(&self, deadline: Duration) -> Reply {
        self.request("listen", json!({}), deadline).await
    }

    /// The names of all tools, in [`Reply::Result`] as an array `tools`.
    pub async fn list(&self, deadline: Duration) -> Reply {
        self.request("list", json!({}), deadline).await
    }

    /// Says goodbye and ends. How many processes that it started are still there afterwards; they are killed then.
    pub async fn close(mut self) -> usize {
        drop(self.request("close", json!({}), GRACE).await);
        if timeout(GRACE, self.child.wait()).await.is_err() {
            drop(self.child.kill().await);
        }
        let group = self.group.take();
        let left = || group.map_or(0, |group| crate::faults::upstream::group_members(group).len());
        // A child that was told to end may need a moment.
        for _ in 0..40 {
            if left() == 0 {
                return 0;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let outlived = left();
        if let Some(group) = group {
            kill_group(group);
        }
        outlived
    }

    async fn request(&self, op: &str, mut command: Value, deadline: Duration) -> Reply {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        command["id"] = id.into();
        command["op"] = op.into();
        command["timeout_ms"] = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).into();
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        let line = format!("{command}\n");
        if self.input.lock().await.write_all(line.as_bytes()).await.is_err() {
            return Reply::Error(Told::saying("the client process is gone"));
        }
        match timeout(deadline + GRACE, answer).await {
            Ok(Ok(reply)) => reply,
            _ => Reply::Nothing,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            kill_group(group);
        }
    }
}

async fn read(
    mut lines: Lines<BufReader<ChildStdout>>,
    waiting: Waiting,
    events: mpsc::Sender<Event>,
) {
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(mut line) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = line["id"].as_u64() else {
            if let Some(event) = Event::parse(&line) {
                drop(events.try_send(event));
            }
            continue;
        };
        let Some(sender) = lock(&waiting).remove(&id) else { continue };
        let reply = if line["ok"] == true {
            Reply::Result(line["result"].take())
        } else {
            Reply::Error(Told::parse(&line["error"]))
        };
        drop(sender.send(reply));
    }
    // Nobody is answered any more: dropping the senders tells everybody who waits.
    lock(&waiting).clear();
}

// === impl Event ===

impl Event {
    fn parse(line: &Value) -> Option<Self> {
        match line["event"].as_str()? {
            "closed" => Some(Self::Closed(line["client"].as_u64()?)),
            "unheard" => Some(Self::Unheard(line["client"].as_u64()?)),
            "notification" => Some(Self::Notification(line["method"].as_str()?.to_owned())),
            _ => None,
        }
    }
}

// === impl Told ===

impl Told {
    fn parse(error: &Value) -> Self {
        let code = error["code"].as_i64();
        let message = error["message"].as_str().unwrap_or_default();
        let mut shown = message.to_owned();
        for cause in error["causes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            shown = format!("{shown} ({cause})");
        }
        let data = &error["data"];
        let text = if data.is_null() { shown.clone() } else { format!("{shown} {data}") };
        // The SDK's own clock gives its setting as the only data, and nobody else does.
        let own_deadline =
            message.contains("Request timed out") && error["data"]["timeout"].is_u64();
        Self { code, text, shown, own_deadline, as_result: false }
    }

    /// An error that is nothing but words.
    pub fn saying(words: impl Into<String>) -> Self {
        let text = words.into();
        Self { shown: text.clone(), text, ..Self::default() }
    }
}

fn script() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/clients/fault_client.mjs"))
        .to_owned()
}

fn kill_group(group: u32) {
    #[cfg(unix)]
    if let Some(pid) = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
