//! The least that can be called an MCP server, so that what is measured is the client: any tool call is answered with
//! as many bytes as the tool's name says. Runs on a thread and a runtime of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

const SESSION: &str = "0123456789abcdef";
const INITIALIZED: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"fixed"}}"#;

/// The other side of the comparison: the client below the runtime, doing the same POST and reading the same answer.
#[derive(Debug, Clone)]
pub(crate) struct Bare {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: http::Uri,
}

/// Starts a server and returns its address.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || LocalSet::new().block_on(&runtime, accept(listener)));
    Ok(addr)
}

async fn accept(listener: std::net::TcpListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    if request.method() != Method::POST {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return Ok(response);
    }
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let Some(id) = after(text, "\"id\":") else {
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    };
    let id = &id[..id.find(',').unwrap_or(id.len())];
    let result = match after(text, "\"name\":\"").and_then(|name| name.split('"').next()) {
        Some(name) if text.contains("tools/call") => {
            let filler = "x".repeat(name.parse().unwrap_or_default());
            format!(r#"{{"content":[{{"type":"text","text":"{filler}"}}]}}"#)
        }
        _ => INITIALIZED.to_owned(),
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    *response.body_mut() = Full::from(answer);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response.headers_mut().insert("mcp-session-id", http::HeaderValue::from_static(SESSION));
    Ok(response)
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.find(mark).map(|at| &text[at + mark.len()..])
}

// === impl Bare ===

impl Bare {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(tcp);
        let uri = format!("http://{addr}/mcp").parse().expect("an address makes a URL");
        Self { client, uri }
    }

    pub(crate) async fn call(&self, tool: &str) -> Bytes {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
        );
        let request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .header("mcp-session-id", SESSION)
            .body(Full::from(body))
            .expect("a valid request");
        let response = self.client.request(request).await.expect("an answer");
        response.into_body().collect().await.expect("a whole answer").to_bytes()
    }
}
