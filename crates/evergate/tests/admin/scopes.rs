//! Who may do what, and that no page of another origin may do it for them.

use evergate_testkit::{HttpServer, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{get, send, two_servers};
use crate::support::{Gateway, Http, gateway};

const CLIENT: &str = "a-key-for-clients-only";
const OPERATOR: &str = "a-key-for-operators-only";
const SCRAPER: &str = "a-key-for-metrics-only";

async fn three_keys() -> (HttpServer, Gateway) {
    let docs = HttpServer::start(Server::new()).await;
    let config = json!({
        "mcpServers": { "docs": { "url": docs.url() } },
        "gateway": { "auth": { "keys": [
            { "name": "client", "key": CLIENT },
            { "name": "operator", "key": OPERATOR, "scopes": ["admin"] },
            { "name": "scraper", "key": SCRAPER, "scopes": ["metrics"] },
        ] } },
    });
    let gateway = gateway(&config).start();
    (docs, gateway)
}

fn with(gateway: &Gateway, path: &str, key: &str) -> Http {
    Http::new(&gateway.at(path)).header("authorization", &format!("Bearer {key}"))
}

#[tokio::test]
async fn each_scope_opens_its_own_doors() {
    let (_docs, gateway) = three_keys().await;
    let status = async |key, path| with(&gateway, path, key).get(&[]).await.status;
    let nobody = Http::new(&gateway.at("/api/v1/servers")).get(&[]).await;
    assert_eq!(nobody.status, StatusCode::UNAUTHORIZED);
    assert!(nobody.header("www-authenticate").is_some());
    assert_eq!(nobody.json()["error"]["code"], "unauthorized");
    assert_eq!(status("wrong", "/api/v1/servers").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(OPERATOR, "/api/v1/servers").await, StatusCode::OK);
    assert_eq!(status(CLIENT, "/api/v1/servers").await, StatusCode::FORBIDDEN);
    assert_eq!(status(SCRAPER, "/api/v1/servers").await, StatusCode::FORBIDDEN);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for path in ["/mcp", "/mcp/docs", "/message"] {
        for key in [OPERATOR, SCRAPER] {
            let answer = send(&with(&gateway, path, key), Method::POST, &ping).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        }
    }
    let client = with(&gateway, "/mcp", CLIENT).initialize().await;
    assert_eq!(client.call_text("docs__echo", json!({ "text": "in" })).await, "in");
    let close = with(&gateway, "/close", CLIENT).post(&[], "").await;
    assert_eq!(close.status, StatusCode::FORBIDDEN);
    let action = with(&gateway, "/api/v1/servers/docs/restart", OPERATOR);
    assert_eq!(send(&action, Method::POST, &json!({})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_page_of_another_origin_can_neither_look_nor_act() {
    // That clients may come from there does not make its pages operators.
    let settings = json!({ "allowed_origins": ["http://app.example"] });
    let (_docs, gateway) = two_servers(settings).await;
    let servers = Http::new(&gateway.at("/api/v1/servers"));
    let restart = Http::new(&gateway.at("/api/v1/servers/docs/restart"));
    let own = gateway.at("").trim_end_matches('/').to_owned();
    for foreign in ["http://app.example", "http://evil.example", "http://localhost:3000", "null"] {
        let looked = servers.get(&[("origin", foreign)]).await;
        assert_eq!(looked.status, StatusCode::FORBIDDEN, "{foreign}");
        assert!(looked.header("access-control-allow-origin").is_none(), "{foreign}");
        assert_eq!(looked.json()["error"]["code"], "forbidden", "{foreign}");
        let headers = [("origin", foreign), ("content-type", "application/json")];
        let acted = restart.ask(Method::POST, &headers, "{}").await;
        assert_eq!(acted.status, StatusCode::FORBIDDEN, "{foreign}");
        let asked = restart.ask(Method::OPTIONS, &[("origin", foreign)], "").await;
        assert!(asked.header("access-control-allow-origin").is_none(), "{foreign}");
    }
    let cross = [("sec-fetch-site", "cross-site"), ("content-type", "application/json")];
    assert_eq!(restart.ask(Method::POST, &cross, "{}").await.status, StatusCode::FORBIDDEN);
    // A form cannot send JSON.
    for form in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let acted = restart.ask(Method::POST, &[("content-type", form)], "{}").await;
        assert_eq!(acted.status, StatusCode::BAD_REQUEST, "{form}");
    }
    assert_eq!(get(&gateway, "servers/docs").await["reconnects"], 0);
    let same = [
        ("origin", own.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "application/json"),
    ];
    assert_eq!(restart.ask(Method::POST, &same, "{}").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_name_that_suddenly_means_this_machine_is_refused() {
    let (_docs, gateway) = two_servers(json!({})).await;
    let servers = Http::new(&gateway.at("/api/v1/servers"));
    let rebound = servers.get(&[("host", "evil.example")]).await;
    assert_eq!(rebound.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn bad_requests_are_told_apart() {
    let (_docs, gateway) = two_servers(json!({})).await;
    let at = |path: &str| Http::new(&gateway.at(&format!("/api/v1/{path}")));
    let code = |answer: crate::support::Answer| -> (StatusCode, Value) {
        (answer.status, answer.json()["error"]["code"].clone())
    };
    let wrong_method = (StatusCode::METHOD_NOT_ALLOWED, json!("wrong_method"));
    assert_eq!(code(at("servers/docs/restart").get(&[]).await), wrong_method);
    assert_eq!(code(send(&at("servers"), Method::POST, &json!({})).await), wrong_method);
    assert_eq!(code(send(&at("log-level"), Method::POST, &json!({})).await), wrong_method);
    let unknown = (StatusCode::NOT_FOUND, json!("unknown_path"));
    for path in ["", "nothing", "servers/docs/everything", "servers/docs/tools/echo"] {
        assert_eq!(code(at(path).get(&[]).await), unknown, "{path:?}");
    }
    let bad = (StatusCode::BAD_REQUEST, json!("bad_request"));
    for body in [json!({ "now": true }), json!("x")] {
        let answer = send(&at("servers/docs/restart"), Method::POST, &body).await;
        assert_eq!(code(answer), bad, "{body}");
    }
    let not_json = at("servers/docs/call")
        .ask(Method::POST, &[("content-type", "application/json")], "{")
        .await;
    assert_eq!(code(not_json), bad);
}

#[tokio::test]
async fn who_tries_a_tool_may_use_what_the_key_opens_and_no_more() {
    let docs = HttpServer::start(Server::new()).await;
    let config = json!({
        "mcpServers": { "docs": { "url": docs.url() }, "other": { "url": docs.url() } },
        "gateway": { "auth": { "keys": [
            { "name": "some", "key": "a-key-for-some-of-it", "scopes": ["admin"],
              "servers": ["docs"], "tools": ["docs__echo"] },
            { "name": "seldom", "key": "a-key-for-few-calls", "scopes": ["admin"], "rate_limit": "1/1h" },
        ] } },
    });
    let gateway = gateway(&config).start();
    let attempt = async |key: &str, server: &str, tool: &str| {
        let path = format!("/api/v1/servers/{server}/call");
        let answer =
            send(&with(&gateway, &path, key), Method::POST, &json!({ "tool": tool })).await;
        (answer.status, answer.json()["error"]["code"].clone())
    };
    let done = (StatusCode::OK, Value::Null);
    let forbidden = (StatusCode::FORBIDDEN, json!("forbidden"));
    assert_eq!(attempt("a-key-for-some-of-it", "docs", "echo").await, done);
    assert_eq!(attempt("a-key-for-some-of-it", "docs", "bump").await, forbidden);
    assert_eq!(attempt("a-key-for-some-of-it", "other", "echo").await, forbidden);
    assert_eq!(attempt("a-key-for-few-calls", "other", "bump").await, done);
    let limited = (StatusCode::TOO_MANY_REQUESTS, json!("rate_limited"));
    assert_eq!(attempt("a-key-for-few-calls", "other", "bump").await, limited);
    assert_eq!(docs.server().counters().calls, 2);
}
