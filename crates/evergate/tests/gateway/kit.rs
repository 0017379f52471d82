//! What most of these tests need: servers of every kind, and a few things a client does.

use std::future::Future;
use std::path::Path;

use evergate_testkit::{HttpServer, Server, stdio_server_path};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Events, Gateway, Http, PATIENCE, Session, until};

/// A server over HTTP.
pub(crate) async fn web() -> HttpServer {
    HttpServer::start(Server::new()).await
}

/// A gateway's entry for a child process; it reconnects without delay.
pub(crate) fn child(args: &[&str]) -> Value {
    let program = stdio_server_path().expect("build it with: cargo build -p evergate-testkit");
    json!({ "command": program, "args": args, "lifecycle": quick() })
}

/// The same with more to say.
pub(crate) fn child_with(args: &[&str], more: Value) -> Value {
    merged(child(args), more)
}

/// A gateway's entry for a server over HTTP; it reconnects without delay.
pub(crate) fn at(http: &HttpServer) -> Value {
    json!({ "url": http.url(), "lifecycle": quick() })
}

pub(crate) fn at_with(http: &HttpServer, more: Value) -> Value {
    merged(at(http), more)
}

/// The same over the transport of 2024-11-05.
pub(crate) fn at_sse(http: &HttpServer) -> Value {
    json!({ "url": http.sse_url(), "type": "sse", "lifecycle": quick() })
}

pub(crate) fn quick() -> Value {
    json!({ "backoff": { "initial": "50ms", "max": "100ms", "jitter": 0 }, "max_attempts": -1 })
}

pub(crate) fn merged(mut entry: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

/// A configuration of servers alone.
pub(crate) fn servers(servers: Value) -> Value {
    json!({ "mcpServers": servers })
}

/// A client of one server.
pub(crate) async fn connect_to(gateway: &Gateway, server: &str) -> Session {
    Http::new(&gateway.at(&format!("/mcp/{server}"))).initialize().await
}

/// The status of one server.
pub(crate) async fn status(gateway: &Gateway, server: &str) -> Value {
    gateway.health().await["servers"][server].clone()
}

pub(crate) async fn until_status(gateway: &Gateway, server: &str, wanted: &str) {
    until(&format!("{server} is {wanted}"), async || {
        status(gateway, server).await["status"] == wanted
    })
    .await;
}

pub(crate) async fn until_listed(client: &Session, tool: &str) {
    until(&format!("{tool} is listed"), async || {
        client.tool_names().await.iter().any(|name| name == tool)
    })
    .await;
}

/// The same session over new connections: those to a gateway that is gone are dead, as every client finds out.
pub(crate) fn anew(client: &Session) -> Session {
    let mut client = client.clone();
    let headers = client.http.headers.clone();
    client.http = Http::new(&client.http.url);
    client.http.headers = headers;
    client
}

/// Ends the session.
pub(crate) async fn delete(client: &Session) {
    let response = client.http.send(Method::DELETE, &client.headers(), "").await;
    assert_eq!(response.status(), StatusCode::OK);
}

/// The status of a ping with this session.
pub(crate) async fn ping_status(client: &Session) -> StatusCode {
    let ping = json!({ "jsonrpc": "2.0", "id": "ping", "method": "ping" });
    client.http.post(&client.headers(), ping.to_string()).await.status
}

/// Starts a call that goes on while the test does something else.
pub(crate) fn begin(
    client: &Session,
    tool: &str,
    arguments: Value,
) -> tokio::task::JoinHandle<Value> {
    let (client, tool) = (client.clone(), tool.to_owned());
    tokio::spawn(async move { client.call(&tool, arguments).await })
}

/// The next message with this method.
pub(crate) async fn next_of(events: &mut Events, method: &str) -> Value {
    loop {
        let message = events.message().await.expect("the stream ended");
        if message["method"] == method {
            return message;
        }
    }
}

/// Asserts that nothing with this method comes before a sign that everything sent so far has arrived: a log message
/// that the server sends last.
pub(crate) async fn none_before_mark(events: &mut Events, server: &Server, method: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mark = format!("mark-{}", now.as_nanos());
    server.notify("notifications/message", json!({ "level": "emergency", "data": mark }));
    loop {
        let message = events.message().await.expect("the stream ended");
        assert_ne!(message["method"], method, "{message}");
        if message["params"]["data"] == mark.as_str() {
            return;
        }
    }
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

/// Fails instead of waiting for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(PATIENCE, future).await;
    result.unwrap_or_else(|_| panic!("in vain: {what}"))
}

/// How often a child's state file names this call.
pub(crate) fn runs(state_file: &Path, call_id: &str) -> usize {
    let text = std::fs::read_to_string(state_file).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').nth(1) == Some(call_id)).count()
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The process of a child, by its own word.
pub(crate) async fn pid_of(client: &Session, tool: &str) -> u32 {
    client.call_text(tool, json!({})).await.parse().unwrap()
}
