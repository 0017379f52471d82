//! The 2024-11-05 HTTP transport.

use evergate_testkit::{Fault, HttpServer, ListKind, Server, SessionLoss};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

use crate::raw_http::{Client, encode};

/// The SSE stream, read line by line; chunk sizes are skipped because no data looks like them.
struct Stream(BufReader<TcpStream>);

impl Stream {
    /// The data of the next event; `None` at the end.
    async fn data(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line).await.unwrap_or(0) == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(data.trim_end().into());
            }
        }
    }

    async fn message(&mut self) -> Value {
        serde_json::from_str(&self.data().await.expect("an event")).expect("JSON")
    }
}

async fn start() -> (Server, HttpServer, Client, Stream, String) {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let client = Client::new(&http);
    let mut stream = Stream(BufReader::new(client.open("/sse", &[]).await));
    let endpoint = stream.data().await.expect("the endpoint");
    let params = json!({ "protocolVersion": "2024-11-05" });
    assert_eq!(client.post(&endpoint, &encode("initialize", &params)).await.status, 202);
    assert_eq!(stream.message().await["result"]["protocolVersion"], "2024-11-05");
    (server, http, client, stream, endpoint)
}

fn bump() -> String {
    encode("tools/call", &json!({ "name": "bump", "arguments": { "call_id": "a" } }))
}

#[tokio::test]
async fn answers_and_notifications_share_the_stream() {
    let (server, _http, client, mut stream, endpoint) = start().await;
    assert_eq!(client.post(&endpoint, &bump()).await.status, 202);
    assert_eq!(stream.message().await["result"]["content"][0]["text"], "1");
    server.notify_list_changed(ListKind::Tools);
    assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
    let counters = server.counters();
    assert_eq!((counters.listening, counters.sessions_open), (1, 1));
    drop(stream);
    server.wait_for(|counters| counters.sessions_open == 0).await;
    assert_eq!(client.post(&endpoint, &bump()).await.status, 404);
}

#[tokio::test]
async fn an_expired_session_loses_its_stream() {
    let (server, _http, client, mut stream, endpoint) = start().await;
    server.expire_sessions(SessionLoss::BadRequest400Opaque);
    assert_eq!(stream.data().await, None);
    assert_eq!(client.post(&endpoint, &bump()).await.status, 400);
}

#[tokio::test]
async fn cuts_hit_the_stream_and_statuses_the_post() {
    let (server, _http, client, mut stream, endpoint) = start().await;
    server.inject(Fault::Status(500, String::new()));
    assert_eq!(client.post(&endpoint, &bump()).await.status, 500);
    server.inject(Fault::ExecuteThenCut);
    assert_eq!(client.post(&endpoint, &bump()).await.status, 202);
    assert_eq!(stream.data().await, None);
    assert_eq!(server.executions("a"), 1);
}

#[tokio::test]
async fn dies_with_the_server() {
    let (server, http, _client, mut stream, _endpoint) = start().await;
    http.kill().await;
    assert_eq!(stream.data().await, None);
    assert_eq!(server.counters().listening, 0);
}
