//! A listener of its own for operators.

use evergate_testkit::{HttpServer, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Gateway, Http, gateway, until};

/// A gateway with two listeners, and the second one's address.
async fn two_listeners(mut settings: Value) -> (HttpServer, Gateway, String) {
    let docs = HttpServer::start(Server::new()).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    settings["admin_listen"] = json!(free.to_string());
    let config = json!({ "mcpServers": { "docs": { "url": docs.url() } }, "gateway": settings });
    let gateway = gateway(&config).start();
    (docs, gateway, format!("http://{free}"))
}

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

#[tokio::test]
async fn only_operators_end_the_gateway_and_no_page_does_it_for_them() {
    let (_docs, mut gateway, admin) =
        two_listeners(json!({ "audit": { "file": "audit.log" } })).await;
    let close = Http::new(&format!("{admin}/close"));
    let public = Http::new(&gateway.at("/close")).post(&[], "").await;
    assert_eq!(public.status, StatusCode::NOT_FOUND);
    for foreign in [
        ("origin", "http://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let answer = close.ask(Method::POST, &[foreign], "").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{foreign:?}");
        assert_eq!(answer.json()["error"]["code"], "forbidden", "{foreign:?}");
    }
    assert_eq!(close.get(&[]).await.header("allow"), Some("POST"));
    // As workflow runners do it: no body, and no word of what it is.
    let closed = close.ask(Method::POST, &[], "").await;
    assert_eq!(closed.json(), json!({ "status": "closed", "serversTerminated": 1 }));
    assert_eq!(gateway.ended().await.code(), Some(0));
    let audit = std::fs::read_to_string(gateway.folder.path().join("audit.log")).unwrap();
    assert!(audit.contains(r#""event":"closed""#), "{audit}");
}

#[tokio::test]
async fn how_servers_are_in_detail_is_told_to_operators_alone() {
    let keys = json!({ "keys": [
        { "name": "operator", "key": "a-key-for-operators", "scopes": ["admin"] },
        { "name": "scraper", "key": "a-key-for-metrics", "scopes": ["metrics"] },
    ] });
    let (_docs, gateway, admin) = two_listeners(json!({ "auth": keys })).await;
    let health = async |at: &str, key: &str| {
        let answer = Http::new(&format!("{at}/health")).get(&[("x-api-key", key)]).await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.json()
    };
    until("it is connected", async || {
        health(&admin, "a-key-for-operators").await["servers"]["docs"]["status"] == "running"
    })
    .await;
    let all = health(&admin, "a-key-for-operators").await;
    assert!(all["servers"]["docs"].get("last_error").is_some(), "{all}");
    assert!(all["warnings"].is_array());
    let public = gateway.at("");
    for (at, key) in [
        (&public, "a-key-for-operators"),
        (&public, "a-key-for-metrics"),
        (&admin, "a-key-for-metrics"),
    ] {
        let told = health(at, key).await;
        let known =
            json!({ "status": "running", "state": "connected", "reason": "handshake_done" });
        assert_eq!(told["servers"]["docs"], known, "{key} at {at}");
        assert_eq!(told["status"], "healthy");
        assert_eq!((told.get("sessions"), told.get("warnings")), (None, None));
    }
}

#[tokio::test]
async fn without_keys_a_name_that_was_bound_anew_is_no_operators() {
    let docs = HttpServer::start(Server::new()).await;
    let config = json!({ "mcpServers": { "docs": { "url": docs.url() } } });
    let gateway = gateway(&config).listen("0.0.0.0:0").arg("--allow-unauthenticated").start();
    let evil = ("host", "evil.example");
    for path in ["/api/v1/servers", "/metrics", "/close"] {
        let http = Http::new(&gateway.at(path));
        for method in [Method::GET, Method::POST] {
            let answer = http.ask(method, &[evil], "").await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
            assert!(answer.text().contains("allowed_hosts"), "{}", answer.text());
        }
    }
    let health = Http::new(&gateway.at("/health"));
    assert_eq!(health.get(&[evil]).await.json().get("sessions"), None);
    assert!(health.get(&[]).await.json()["sessions"].is_u64());
    assert_eq!(Http::new(&gateway.at("/api/v1/servers")).get(&[]).await.status, StatusCode::OK);
    // Clients may come by any name, as before.
    gateway.http().header("host", "gate.example").initialize().await;
}
