//! The dashboard's files. What it shows is tested in a browser, with the peers.

use http::{Method, StatusCode};
use serde_json::json;

use crate::support::{Http, gateway};

const FILES: [(&str, &str); 3] = [
    ("/", "text/html; charset=utf-8"),
    ("/dashboard/app.js", "text/javascript; charset=utf-8"),
    ("/dashboard/style.css", "text/css; charset=utf-8"),
];

#[tokio::test]
async fn the_page_needs_no_key_and_what_it_shows_does() {
    let key = json!({ "name": "ops", "key": "a-key-for-operators", "scopes": ["admin"] });
    let gateway =
        gateway(&json!({ "mcpServers": {}, "gateway": { "auth": { "keys": [key] } } })).start();
    for (path, content_type) in FILES {
        let answer = Http::new(&gateway.at(path)).get(&[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        assert!(policy.ends_with("frame-ancestors 'none'"), "{policy}");
    }
    let data = Http::new(&gateway.at("/api/v1/servers")).get(&[]).await;
    assert_eq!(data.status, StatusCode::UNAUTHORIZED);
    let other = Http::new(&gateway.at("/dashboard/nothing.js")).get(&[]).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_browser_that_has_the_page_does_not_get_it_again() {
    let gateway = gateway(&json!({ "mcpServers": {} })).start();
    for (path, _) in FILES {
        let http = Http::new(&gateway.at(path));
        let tag = http.get(&[]).await.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}")] {
            let again = http.get(&[("if-none-match", &known)]).await;
            assert_eq!((again.status, again.text()), (StatusCode::NOT_MODIFIED, String::new()));
        }
        let newer = http.get(&[("if-none-match", "\"other\"")]).await;
        assert_eq!(newer.status, StatusCode::OK);
        let posted = http.post(&[], "{}").await;
        assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
        let headers = http.send(Method::HEAD, &[], "").await;
        assert_eq!(headers.status(), StatusCode::OK);
    }
}

/// A page elsewhere that made its name resolve to this machine.
#[tokio::test]
async fn nobody_gets_the_page_under_a_name_that_is_not_the_gateways() {
    let gateway = gateway(&json!({ "mcpServers": {} })).start();
    let answer = Http::new(&gateway.at("/")).get(&[("host", "attacker.example")]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn operators_with_a_listener_of_their_own_have_the_page_there_only() {
    let gateway =
        gateway(&json!({ "mcpServers": {}, "gateway": { "admin_listen": "127.0.0.1:0" } })).start();
    for (path, _) in FILES {
        let answer = Http::new(&gateway.at(path)).get(&[]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
}
