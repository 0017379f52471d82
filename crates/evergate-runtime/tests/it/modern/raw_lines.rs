//! A peer on lines that says to each request exactly what a test wants, one after the other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evergate_runtime::{MemoryConnector, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use crate::support::steady;

/// What a peer does about a request.
pub(super) enum Said {
    Result(Value),
    Error(i64, Value),
    Nothing,
    /// Ends the connection.
    End,
}

#[derive(Clone)]
pub(super) struct RawLines {
    asked: Arc<Mutex<Vec<Value>>>,
}

// === impl RawLines ===

impl RawLines {
    /// Reads nothing on a new connection for `slow_start`. `reply` sees each request.
    pub(super) fn start(
        slow_start: Duration,
        reply: impl Fn(&Value) -> Said + Send + Sync + 'static,
    ) -> (Self, Settings) {
        let this = Self { asked: Arc::default() };
        let (peer, reply) = (this.clone(), Arc::new(reply));
        let connector = MemoryConnector::new(move || {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (peer, reply) = (peer.clone(), reply.clone());
            tokio::spawn(async move {
                tokio::time::sleep(slow_start).await;
                peer.serve(theirs, &*reply).await;
            });
            Ok(ours)
        });
        (this, steady(Settings::memory(connector)))
    }

    /// The methods of all requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|message| message["method"].as_str().unwrap().to_owned()).collect()
    }

    /// The params of all requests of this method.
    pub(super) fn params(&self, method: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        let those = asked.iter().filter(|message| message["method"] == method);
        those.map(|message| message["params"].clone()).collect()
    }

    async fn serve(&self, stream: DuplexStream, reply: &(dyn Fn(&Value) -> Said + Send + Sync)) {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("id").is_none() {
                continue;
            }
            self.asked.lock().unwrap().push(message.clone());
            let mut answer = json!({ "jsonrpc": "2.0", "id": message["id"] });
            match reply(&message) {
                Said::Result(result) => answer["result"] = result,
                Said::Error(code, data) => {
                    answer["error"] = json!({ "code": code, "message": "no", "data": data });
                }
                Said::Nothing => continue,
                Said::End => return,
            }
            let _ = writer.write_all(format!("{answer}\n").as_bytes()).await;
        }
    }
}

/// What a server says of itself without a handshake.
pub(super) fn discovered() -> Said {
    Said::Result(json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
    }))
}

/// And with one.
pub(super) fn initialized() -> Said {
    Said::Result(json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {},
    }))
}
