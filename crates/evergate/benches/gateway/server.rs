//! The test kit's server, with one tool that returns as many bytes as it is asked for.

use evergate_testkit::{HttpServer, Server};
use serde_json::json;

/// Prints its URL and serves for ever.
pub(crate) async fn run() {
    let server = Server::new();
    server.set_tools(Vec::new());
    server.tool("call", json!({ "readOnlyHint": true }), |arguments| {
        let bytes = arguments["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
        json!({ "content": [{ "type": "text", "text": "x".repeat(bytes.unwrap_or_default()) }] })
    });
    let http = HttpServer::start(server).await;
    super::say(&http.url());
    std::future::pending::<()>().await;
}
