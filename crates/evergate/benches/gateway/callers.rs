//! Clients with a session, and how long their calls take.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::Instant;

pub(crate) struct Callers {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    session: HeaderValue,
    tool: &'static str,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

// === impl Callers ===

impl Callers {
    pub(crate) async fn connect(url: &str, tool: &'static str) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(tcp);
        let uri = url.parse().expect("a URL");
        let mut this = Self { client, uri, session: HeaderValue::from_static("none"), tool };
        // Without a session id yet, which servers that do not know it would refuse.
        let response = this.post(INITIALIZE.to_owned()).await;
        this.session = response.headers().get("mcp-session-id").expect("a session id").clone();
        this
    }

    /// The average time of one call, with this many callers at once: what each waited if it is one, else the inverse of
    /// the throughput.
    pub(crate) async fn run(&self, size: usize, at_once: usize, calls: usize) -> Duration {
        let each = calls.div_ceil(at_once);
        let started = Instant::now();
        join_all((0..at_once).map(|caller| async move {
            for call in 0..each {
                self.call(size, caller * each + call).await;
            }
        }))
        .await;
        started.elapsed() / u32::try_from(each * at_once).unwrap_or(u32::MAX)
    }

    async fn call(&self, size: usize, id: usize) {
        let tool = self.tool;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"bytes":{size}}}}}}}"#
        );
        let mut body = self.post(body).await.into_body();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame.expect("a whole answer").data_ref().map_or(0, Bytes::len);
        }
        assert!(read > size, "{read} bytes instead of {size}");
    }

    async fn post(&self, body: String) -> http::Response<hyper::body::Incoming> {
        let request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .header("mcp-session-id", self.session.clone())
            .body(Full::from(body))
            .expect("a valid request");
        let response = self.client.request(request).await.expect("an answer");
        assert!(response.status().is_success(), "{}", response.status());
        response
    }
}
