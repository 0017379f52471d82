//! A client that others wrote, driven through the lines of `peers/clients/README.md`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use evergate_peers::{PATIENCE, installed, ours};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::until;

/// What a command came to: the result, or the error.
pub(crate) type Answer = Result<Value, Value>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    TsV1,
    TsV2,
    PythonMcp,
    FastMcp,
    Rmcp,
}

/// Which revisions it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Those with a handshake.
    Legacy,
    /// 2026-07-28, without asking.
    Modern,
    /// Whatever its SDK makes of what the gateway says.
    Auto,
}

/// How it reaches the gateway.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Url(String),
    Sse(String),
    Command(Vec<OsString>),
}

/// One connected client. It does not outlive this value.
pub(crate) struct Client {
    pub(crate) kind: ClientKind,
    era: Era,
    child: Child,
    input: tokio::sync::Mutex<ChildStdin>,
    next_id: AtomicU64,
    waiting: Waiting,
    _reader: JoinSet<()>,
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

// === impl ClientKind ===

impl ClientKind {
    pub(crate) const ALL: [Self; 5] =
        [Self::TsV1, Self::TsV2, Self::PythonMcp, Self::FastMcp, Self::Rmcp];

    fn command(self) -> Command {
        let interpreted = |interpreter: OsString, script: &str| {
            let mut command = Command::new(interpreter);
            command.arg(ours("clients").join(script));
            command
        };
        let python = || installed("python/bin/python").into_os_string();
        match self {
            Self::TsV1 => interpreted("node".into(), "ts-v1.mjs"),
            Self::TsV2 => interpreted("node".into(), "ts-v2.mjs"),
            Self::PythonMcp => interpreted(python(), "python_mcp.py"),
            Self::FastMcp => interpreted(python(), "fastmcp_client.py"),
            Self::Rmcp => Command::new(env!("CARGO_BIN_EXE_rmcp-client")),
        }
    }
}

// === impl Era ===

impl Era {
    /// As on the clients' command lines.
    fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Auto => "auto",
        }
    }
}

// === impl Client ===

impl Client {
    /// Connects with a handshake, or panics with what the client said.
    pub(crate) async fn connect(kind: ClientKind, target: &Target) -> Self {
        Self::connect_in(Era::Legacy, kind, target).await
    }

    /// Connects, or panics with what the client said. All but the first era have to come to 2026-07-28.
    pub(crate) async fn connect_in(era: Era, kind: ClientKind, target: &Target) -> Self {
        let mut command = kind.command();
        command.args(["--era", era.name()]);
        match target {
            Target::Url(url) => command.args(["--url", url]),
            Target::Sse(url) => command.args(["--sse", url]),
            Target::Command(arguments) => command.arg("--command").args(arguments),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = timeout(PATIENCE, lines.next_line()).await;
        let first = first.unwrap_or_else(|_| panic!("{kind:?} does not connect")).unwrap();
        let first = first.unwrap_or_else(|| panic!("{kind:?} ended before it connected"));
        let connected: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(connected["ok"], true, "{kind:?}: {connected}");
        if era != Era::Legacy {
            assert_eq!(connected["result"]["protocol"], "2026-07-28", "{kind:?}: {connected}");
        }
        let input = tokio::sync::Mutex::new(child.stdin.take().unwrap());
        let waiting = Waiting::default();
        let mut reader = JoinSet::new();
        reader.spawn(read_answers(lines, waiting.clone()));
        Self { kind, era, child, input, next_id: AtomicU64::new(1), waiting, _reader: reader }
    }

    /// Does one thing. Several may be under way.
    pub(crate) async fn send(&self, op: &str, with: Value) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut command = with;
        command["id"] = id.into();
        command["op"] = op.into();
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, sender);
        let line = format!("{command}\n");
        self.input.lock().await.write_all(line.as_bytes()).await.unwrap();
        let answer = timeout(PATIENCE, answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("{:?}: no answer to {command}", self.kind));
        answer.unwrap_or_else(|_| panic!("{:?} ended during {command}", self.kind))
    }

    /// Does one thing that must succeed.
    pub(crate) async fn get(&self, op: &str, with: Value) -> Value {
        let shown = format!("{op} {with}");
        self.send(op, with)
            .await
            .unwrap_or_else(|error| panic!("{:?}: {shown}: {error}", self.kind))
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Answer {
        self.send("call", json!({ "tool": tool, "args": args })).await
    }

    /// The text a tool returns; it must succeed.
    pub(crate) async fn call_text(&self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args).await;
        let result = answer.unwrap_or_else(|error| panic!("{:?}: {tool}: {error}", self.kind));
        assert_ne!(result["isError"], true, "{:?}: {tool}: {result}", self.kind);
        text(&result)
    }

    /// The names of everything listed, sorted.
    pub(crate) async fn list(&self, op: &str, field: &str, key: &str) -> Vec<String> {
        let result = self.get(op, json!({})).await;
        let items = result[field].as_array().unwrap_or_else(|| panic!("{op}: {result}"));
        let mut names: Vec<String> =
            items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        self.list("list_tools", "tools", "name").await
    }

    /// The list once these are in it. Servers are listed one after the other, and server-everything adds what it offers
    /// to clients that can sample right after the handshake.
    pub(crate) async fn tools_with(&self, expected: &[&str]) -> Vec<String> {
        let mut tools = Vec::new();
        until("all tools", async || {
            tools = self.tools().await;
            expected.iter().all(|tool| tools.iter().any(|listed| listed == tool))
        })
        .await;
        tools
    }

    /// What arrived since it was last asked for.
    pub(crate) async fn events(&self) -> Value {
        self.get("events", json!({})).await
    }

    /// Ends it, after making sure that it sent one handshake in all its life, or none if its era has none.
    pub(crate) async fn close(mut self) {
        let handshakes = u64::from(self.era == Era::Legacy);
        assert_eq!(self.events().await["initialize"], handshakes, "{:?}", self.kind);
        self.get("close", json!({})).await;
        // Some of them wait for background work that nobody needs any more.
        if timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await.unwrap();
        }
    }
}

async fn read_answers(mut lines: Lines<BufReader<ChildStdout>>, waiting: Waiting) {
    while let Ok(Some(line)) = lines.next_line().await {
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        let sender = answer["id"].as_u64().and_then(|id| waiting.lock().unwrap().remove(&id));
        let outcome = match answer["ok"].as_bool() {
            Some(true) => Ok(answer["result"].take()),
            _ => Err(answer["error"].take()),
        };
        if let Some(sender) = sender {
            // Whoever gave up waiting has said so already.
            let _ = sender.send(outcome);
        }
    }
    // Nobody is answered any more: dropping the senders tells everybody who waits.
    waiting.lock().unwrap().clear();
}

/// The text of the first content block.
pub(crate) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
