//! The built gateway as a command that speaks on its standard input and output.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use evergate_testkit::stdio_server_path;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::PATIENCE;

pub(crate) struct Pipes {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: Option<Lines<BufReader<ChildStdout>>>,
    pub(crate) stderr: Arc<Mutex<String>>,
}

/// The scripted server for children.
pub(crate) fn scripted() -> PathBuf {
    stdio_server_path().expect("cargo build -p evergate-testkit")
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

// === impl Pipes ===

impl Pipes {
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evergate"))
            .args(args)
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, sink) = (child.stderr.take().unwrap(), stderr.clone());
        tokio::spawn(async move {
            let mut text = Vec::new();
            while pipe.read_buf(&mut text).await.is_ok_and(|read| read > 0) {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&text));
                text.clear();
            }
        });
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output: Some(output), child, stderr }
    }

    /// `wrap` around the scripted server with these flags.
    pub(crate) fn wrap(flags: &[&str]) -> Self {
        let program = scripted();
        let start = ["wrap", "--", program.to_str().unwrap()];
        Self::start(start.into_iter().chain(flags.iter().copied()))
    }

    pub(crate) async fn send_text(&mut self, text: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_ref()).await.unwrap();
        input.flush().await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_text(format!("{message}\n")).await;
    }

    /// The next line, which must be one JSON message; `None` at the end. News of lists that came after the client are left
    /// out: when servers are connected is a matter of luck.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let lines = self.output.as_mut().unwrap();
            let line = timeout(PATIENCE, lines.next_line()).await.expect("no line").unwrap()?;
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            let is_news = |method: &str| method.ends_with("/list_changed");
            if !message["method"].as_str().is_some_and(is_news) {
                return Some(message);
            }
        }
    }

    /// Sends a request and reads until its answer.
    pub(crate) async fn request(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.answer(&id).await
    }

    /// Reads until this answer.
    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await.expect("the answer");
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
        }
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": {}, "roots": {} },
            "clientInfo": { "name": "pipes", "version": "1" },
        });
        let hello =
            json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params });
        self.send(&hello).await;
        let answer = self.next().await.unwrap();
        assert_eq!(answer["id"], "hello", "nothing comes before it: {answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer["result"].clone()
    }

    pub(crate) async fn call_text(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request(json!("call"), "tools/call", params).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {answer}")).to_owned()
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("it goes on").unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }
}
