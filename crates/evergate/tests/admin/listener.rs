//! A listener of its own for operators.

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use serde_json::json;

use crate::support::{Http, gateway};

#[tokio::test]
async fn operators_have_their_own_listener_if_the_configuration_says_so() {
    let docs = HttpServer::start(Server::new()).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = json!({
        "mcpServers": { "docs": { "url": docs.url() } },
        "gateway": { "admin_listen": free.to_string() },
    });
    let gateway = gateway(&config).start();
    let admin = |path: &str| Http::new(&format!("http://{free}{path}"));
    let public = |path: &str| Http::new(&gateway.at(path));
    assert_eq!(public("/api/v1/servers").get(&[]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(public("/api/v1/openapi.json").get(&[]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(public("/metrics").get(&[]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(admin("/metrics").get(&[]).await.status, StatusCode::OK);
    let overview = admin("/api/v1/gateway").get(&[]).await;
    assert_eq!(overview.status, StatusCode::OK);
    assert_eq!(overview.json()["admin_listen"], free.to_string());
    for path in ["/livez", "/readyz", "/health"] {
        assert_eq!(admin(path).get(&[]).await.status, StatusCode::OK, "{path}");
        assert_eq!(public(path).get(&[]).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/mcp", "/mcp/docs", "/sse"] {
        assert_eq!(admin(path).get(&[]).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let client = gateway.connect().await;
    assert_eq!(client.call_text("docs__echo", json!({ "text": "in" })).await, "in");
}
