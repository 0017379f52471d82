//! Requests that web pages make, with and without leave.

use http::{Method, StatusCode};
use serde_json::json;

use crate::fixture::{one_server, one_server_with};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn other_hosts_and_origins_are_403() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let session = ("mcp-session-id", client.id.as_str());
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "file://", ""] {
        let answer = client.http.post(&[session, ("origin", origin)], PING).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        let preflight = client.http.send(Method::OPTIONS, &[("origin", origin)], "").await;
        assert_eq!(preflight.status(), StatusCode::FORBIDDEN, "{origin}");
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "a b"] {
        let answer = client.http.post(&[session, ("host", host)], PING).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{host}");
    }
    for host in ["localhost", "127.0.0.1:9999", "[::1]:80"] {
        let answer = client.http.post(&[session, ("host", host)], PING).await;
        assert_eq!(answer.status, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn an_allowed_page_may_ask_first_and_read_the_answers() {
    let allowed = "https://app.example";
    let (_http, gateway) = one_server_with(json!({ "allowed_origins": [allowed] })).await;
    let http = gateway.http();
    let asked = [
        ("origin", allowed),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "mcp-session-id"),
    ];
    let preflight = http.send(Method::OPTIONS, &asked, "").await;
    assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
    let headers = preflight.headers();
    assert_eq!(headers["access-control-allow-origin"], allowed);
    assert!(headers["access-control-allow-methods"].to_str().unwrap().contains("DELETE"));
    let wanted = headers["access-control-allow-headers"].to_str().unwrap();
    for header in ["mcp-session-id", "mcp-protocol-version", "last-event-id", "authorization"] {
        assert!(wanted.contains(header), "{header}");
    }
    let page = http.header("origin", allowed);
    let client = page.initialize().await;
    let answer = client.post(PING).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some(allowed));
    assert_eq!(answer.header("access-control-expose-headers"), Some("mcp-session-id"));
    assert_eq!(answer.header("vary"), Some("origin"));
    // Refusals can be read too.
    let refused = page.post(&[], PING).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(refused.header("access-control-allow-origin"), Some(allowed));
}
