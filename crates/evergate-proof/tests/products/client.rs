//! The smallest MCP client that can ask one thing after the other, over each transport.

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use evergate_proof::product::{Address, Program};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use url::Url;

/// Longer than anything takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An initialized session.
pub(crate) struct Client {
    wire: Wire,
    last_id: u64,
}

enum Wire {
    Http { http: Http, url: String, session: Option<String> },
    Sse { http: Http, endpoint: String, events: Events },
    Stdio { _child: Child, input: ChildStdin, output: Lines<BufReader<ChildStdout>> },
}

type Http = hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>;

/// The events of a stream, by their data.
struct Events {
    body: Incoming,
    text: String,
}

// === impl Client ===

impl Client {
    pub(crate) async fn connect(address: &Address) -> Self {
        let wire = match address {
            Address::Http(url) => Wire::Http { http: http(), url: url.clone(), session: None },
            Address::Sse(url) => Wire::sse(url).await,
            Address::Stdio(program) => Wire::stdio(program),
        };
        let mut client = Self { wire, last_id: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "minimal", "version": "0" },
        });
        client.request("initialize", hello).await;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.wire.send(&initialized, None).await;
        client
    }

    pub(crate) async fn tool_names(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The text that the tool answers with.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = self.request("tools/call", params).await;
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {result}")).to_owned()
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = timeout(PATIENCE, self.wire.send(&message, Some(id))).await;
        let mut answer = answer.unwrap_or_else(|_| panic!("no answer to {method}")).unwrap();
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    }
}

// === impl Wire ===

impl Wire {
    async fn sse(url: &str) -> Self {
        let http = http();
        let request = Request::get(url).header("accept", "text/event-stream");
        let response = http.request(request.body(Full::default()).unwrap()).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let mut events = Events { body: response.into_body(), text: String::new() };
        let endpoint = timeout(PATIENCE, events.next()).await.unwrap();
        let endpoint = Url::parse(url).unwrap().join(&endpoint).unwrap().into();
        Self::Sse { http, endpoint, events }
    }

    fn stdio(program: &Program) -> Self {
        let mut command = Command::new(&program.command);
        command.args(&program.args).envs(program.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self::Stdio { _child: child, input, output }
    }

    /// Sends a message, and returns the answer with this id if there is to be one.
    async fn send(&mut self, message: &Value, id: Option<u64>) -> Option<Value> {
        match self {
            Self::Http { http, url, session } => {
                let response = post(http, url, session.as_deref(), message).await;
                if let Some(id) = response.headers().get("mcp-session-id") {
                    *session = Some(id.to_str().unwrap().to_owned());
                }
                let id = id?;
                let kind = response.headers().get("content-type").unwrap().to_str().unwrap();
                if kind.starts_with("text/event-stream") {
                    Events { body: response.into_body(), text: String::new() }.answer(id).await
                } else {
                    let body = response.into_body().collect().await.unwrap().to_bytes();
                    serde_json::from_slice(&body).ok()
                }
            }
            Self::Sse { http, endpoint, events } => {
                post(http, endpoint, None, message).await;
                events.answer(id?).await
            }
            Self::Stdio { input, output, .. } => {
                input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
                let id = id?;
                loop {
                    let line = output.next_line().await.unwrap().expect("it ended");
                    if let Some(answer) = answer_to(id, &line) {
                        return Some(answer);
                    }
                }
            }
        }
    }
}

// === impl Events ===

impl Events {
    async fn answer(&mut self, id: u64) -> Option<Value> {
        loop {
            let data = self.next().await;
            if let Some(answer) = answer_to(id, &data) {
                return Some(answer);
            }
        }
    }

    async fn next(&mut self) -> String {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
                let data: Vec<&str> = lines.map(str::trim_start).collect();
                let data = data.join("\n");
                if !data.is_empty() {
                    return data;
                }
                continue;
            }
            let frame = self.body.frame().await.expect("the stream ended").unwrap();
            let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
            self.text.push_str(&text.replace('\r', ""));
        }
    }
}

fn http() -> Http {
    hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http()
}

async fn post(http: &Http, url: &str, session: Option<&str>, body: &Value) -> Response<Incoming> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
        request = request.header("mcp-protocol-version", "2025-06-18");
    }
    let request = request.body(Full::from(body.to_string())).unwrap();
    let response = http.request(request).await.unwrap();
    let status = response.status();
    if !status.is_success() {
        let body = response.into_body().collect().await.unwrap().to_bytes();
        panic!("{status}: {}", String::from_utf8_lossy(&body));
    }
    response
}

fn answer_to(id: u64, text: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(text).ok()?;
    (message["id"] == id && message.get("method").is_none()).then_some(message)
}
