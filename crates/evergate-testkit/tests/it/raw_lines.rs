//! A client that writes and reads lines.

use std::io;

use evergate_testkit::MemoryServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

pub(crate) struct Lines<R, W> {
    pub(crate) reader: BufReader<R>,
    pub(crate) writer: W,
}

pub(crate) type MemoryLines = Lines<
    tokio::io::ReadHalf<tokio::io::DuplexStream>,
    tokio::io::WriteHalf<tokio::io::DuplexStream>,
>;

/// Connects and shakes hands.
pub(crate) async fn handshaken(memory: &MemoryServer) -> MemoryLines {
    let (reader, writer) = tokio::io::split(memory.connect().expect("server is up"));
    let mut client = Lines::new(reader, writer);
    client.initialize().await;
    client
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { reader: BufReader::new(reader), writer }
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18" });
        let answer = self.request(0, "initialize", params).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.expect("server reads");
    }

    /// Reads one line; `None` at the end of the stream.
    pub(crate) async fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok((self.reader.read_line(&mut line).await? > 0).then_some(line))
    }

    pub(crate) async fn message(&mut self) -> Value {
        let line = self.line().await.expect("readable").expect("not the end");
        serde_json::from_str(&line).expect("JSON")
    }

    pub(crate) async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.begin(id, method, params).await;
        self.message().await
    }

    pub(crate) async fn begin(&mut self, id: u64, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request).await;
    }

    pub(crate) async fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    pub(crate) async fn begin_call(&mut self, id: u64, tool: &str) {
        let arguments = json!({ "call_id": "a" });
        self.begin(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    }
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text result")
}
