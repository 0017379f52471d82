//! The simplest uses.

use evergate_testkit::{HttpServer, Server};
use serde_json::json;

use crate::support::gateway;

#[tokio::test]
async fn a_client_sees_the_tools_of_all_servers_and_calls_them() {
    let http = HttpServer::start(Server::new()).await;
    let gateway = gateway(&json!({ "mcpServers": { "web": { "url": http.url() } } })).start();
    let client = gateway.connect().await;
    assert!(client.tool_names().await.contains(&"web__echo".to_owned()));
    assert_eq!(client.call_text("web__bump", json!({ "call_id": "a" })).await, "1");
    assert_eq!(http.server().executions("a"), 1);
}
