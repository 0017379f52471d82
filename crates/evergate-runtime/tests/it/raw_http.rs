//! A peer that says exactly what a test wants, byte for byte, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    /// The JSON-RPC method, or the verb where there is none.
    pub(crate) what: String,
    /// Lower case, one header a line.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Answers one request per connection: with what `reply` says, or as a well-behaved server would.
pub(crate) struct RawHttp {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

pub(crate) const NO_STREAM: &str =
    "HTTP/1.1 405 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// An event stream that ends after `events`.
pub(crate) fn stream(events: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
    )
}

// === impl RawHttp ===

impl RawHttp {
    /// `reply` sees each request; what contains `x-hang` is followed by silence instead of the end.
    pub(crate) async fn start(
        reply: impl Fn(&Asked, &Value) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, reply) = (asked.clone(), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, reply) = (log.clone(), reply.clone());
                tokio::spawn(async move { serve(stream, &log, &*reply).await });
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self, what: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.what == what).cloned().collect()
    }

    /// Waits until something was asked `times` times.
    pub(crate) async fn wait_for(&self, what: &str, times: usize) -> Vec<Asked> {
        loop {
            let asked = self.asked(what);
            if asked.len() >= times {
                return asked;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    reply: &(dyn Fn(&Asked, &Value) -> Option<String> + Send + Sync),
) {
    let mut buffer = Vec::new();
    let (head, body) = loop {
        if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&buffer).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head, body.to_owned());
        }
    };
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let verb = head.split(' ').next().unwrap_or_default().to_uppercase();
    let what = message["method"].as_str().map_or(verb, str::to_owned);
    let asked = Asked { at: Instant::now(), what, head, body };
    log.lock().unwrap().push(asked.clone());
    let answer =
        reply(&asked, &message).unwrap_or_else(|| well_behaved(&asked.what, &message["id"]));
    // A client that does not want the answer is no concern of this peer.
    let _ = stream.write_all(answer.as_bytes()).await;
    if answer.contains("x-hang") {
        std::future::pending::<()>().await;
    }
}

fn well_behaved(what: &str, id: &Value) -> String {
    let result = match what {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": {},
        }),
        "tools/list" => json!({ "tools": [] }),
        "tools/call" => json!({ "content": [] }),
        "GET" => return NO_STREAM.into(),
        _ => return ACCEPTED.into(),
    };
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: a-session\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
