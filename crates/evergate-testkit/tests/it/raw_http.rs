//! A client that writes HTTP by hand and looks at every byte that comes back.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use evergate_testkit::HttpServer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const BOTH: &str = "application/json, text/event-stream";

/// How long a server that should stay silent is listened to.
const SILENCE: Duration = Duration::from_millis(150);

pub(crate) struct Client {
    pub(crate) addr: SocketAddr,
    pub(crate) session: Option<String>,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP wants it.
    Complete,
    /// The connection ended too early.
    Cut,
    /// Nothing more came, and the connection stayed open.
    Silence,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    pub(crate) end: End,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(http: &HttpServer) -> Self {
        Self { addr: http.addr(), session: None }
    }

    /// A client with a session.
    pub(crate) async fn handshaken(http: &HttpServer) -> Self {
        Self::handshaken_with(http, "2025-11-25").await
    }

    pub(crate) async fn handshaken_with(http: &HttpServer, revision: &str) -> Self {
        let mut client = Self::new(http);
        let params = json!({ "protocolVersion": revision });
        let response = client.request("initialize", params).await;
        assert_eq!(response.status, 200);
        client.session = Some(response.headers["mcp-session-id"].clone());
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(client.post("/mcp", initialized).await.status, 202);
        client
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Response {
        self.post("/mcp", &encode(method, &params)).await
    }

    /// Calls a tool with the `call_id` "a".
    pub(crate) async fn call(&self, tool: &str) -> Response {
        self.request("tools/call", json!({ "name": tool, "arguments": { "call_id": "a" } })).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Response {
        let accept = [("accept", BOTH)];
        read(self.send("POST", path, &accept, body).await.expect("server is up")).await
    }

    pub(crate) async fn get(&self, headers: &[(&str, &str)]) -> Response {
        read(self.open("/mcp", headers).await).await
    }

    /// Opens a `GET` without reading it.
    pub(crate) async fn open(&self, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut all = vec![("accept", "text/event-stream")];
        all.extend(headers);
        self.send("GET", path, &all, "").await.expect("server is up")
    }

    pub(crate) async fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.addr).await?;
        stream.write_all(self.encode(verb, path, headers, body).as_bytes()).await?;
        Ok(stream)
    }

    pub(crate) fn encode(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let mut head = format!("{verb} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        let session = self.session.as_deref().map(|id| ("mcp-session-id", id));
        for (name, value) in headers.iter().copied().chain(session) {
            head.push_str(&[name, ": ", value, "\r\n"].concat());
        }
        let length = body.len();
        format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    }
}

pub(crate) fn encode(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// Reads until the connection ends or falls silent.
pub(crate) async fn read(mut stream: impl AsyncRead + Unpin) -> Response {
    let mut bytes = Vec::new();
    let silent = loop {
        match timeout(SILENCE, stream.read_buf(&mut bytes)).await {
            Ok(Ok(0) | Err(_)) => break false,
            Ok(Ok(_)) => {}
            Err(_) => break true,
        }
    };
    let text = String::from_utf8(bytes).expect("text");
    let early = if silent { End::Silence } else { End::Cut };
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Response { status: 0, headers: BTreeMap::new(), body: text, end: early };
    };
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let (body, complete) = match headers.get("content-length") {
        Some(length) => (rest.to_owned(), length.parse() == Ok(rest.len())),
        None => unchunk(rest),
    };
    let end = if complete { End::Complete } else { early };
    Response { status: status.expect("a status"), headers, body, end }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size.min(after.len())]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

// === impl Response ===

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// The data of every event that has any.
    pub(crate) fn events(&self) -> Vec<String> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }

    /// The newest event id.
    pub(crate) fn event_id(&self) -> Option<&str> {
        self.body.lines().filter_map(|line| line.strip_prefix("id: ")).next_back()
    }
}
