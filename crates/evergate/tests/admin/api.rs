//! A way to ask, and what is said about servers, calls and sessions.

use evergate_testkit::{Fault, HttpServer, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, Gateway, Http, gateway, until};

/// One server that is up, and one that nobody can start.
pub(crate) async fn two_servers(settings: Value) -> (HttpServer, Gateway) {
    let docs = HttpServer::start(Server::new()).await;
    let config = json!({
        "mcpServers": {
            "docs": { "url": docs.url() },
            "broken": { "command": "/does/not/exist" },
        },
        "gateway": settings,
    });
    let gateway = gateway(&config).start();
    (docs, gateway)
}

pub(crate) fn api(gateway: &Gateway, path: &str) -> Http {
    Http::new(&gateway.at(&format!("/api/v1/{path}")))
}

pub(crate) async fn get(gateway: &Gateway, path: &str) -> Value {
    let answer = api(gateway, path).get(&[]).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
    answer.json()
}

/// As every well-behaved program writes it.
pub(crate) async fn post(gateway: &Gateway, path: &str, body: &Value) -> Answer {
    send(&api(gateway, path), Method::POST, body).await
}

pub(crate) async fn send(http: &Http, method: Method, body: &Value) -> Answer {
    http.ask(method, &[("content-type", "application/json")], body.to_string()).await
}

pub(crate) async fn reaches(gateway: &Gateway, server: &str, state: &str) -> Value {
    let path = format!("servers/{server}");
    until(&format!("{server} is {state}"), async || get(gateway, &path).await["state"] == state)
        .await;
    get(gateway, &path).await
}

#[tokio::test]
async fn a_server_says_how_it_is_and_why_in_plain_words() {
    let (_docs, gateway) = two_servers(json!({})).await;
    let docs = reaches(&gateway, "docs", "connected").await;
    assert!(docs["why"].as_str().unwrap().starts_with("Connected for "), "{docs}");
    assert_eq!(docs["hint"], Value::Null);
    assert_eq!((&docs["generation"], &docs["era"]), (&json!(1), &json!("handshake")));
    assert_eq!(docs["history"].as_array().unwrap().last().unwrap()["state"], "connected");
    let broken = reaches(&gateway, "broken", "permanently_failed").await;
    let why = broken["why"].as_str().unwrap();
    assert!(why.contains("its command does not exist"), "{why}");
    assert!(broken["hint"].as_str().unwrap().contains("fix the command"), "{broken}");
    let all = get(&gateway, "servers").await;
    let names: Vec<&Value> =
        all["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
    assert_eq!(names, ["broken", "docs"]);
    let overview = get(&gateway, "gateway").await;
    assert_eq!(overview["status"], "degraded");
    assert_eq!(overview["servers"], json!({ "connected": 1, "permanently_failed": 1 }));
}

#[tokio::test]
async fn a_server_that_limits_the_rate_says_so_and_for_how_long() {
    let (docs, gateway) = two_servers(json!({})).await;
    let client = gateway.connect().await;
    docs.server().inject(Fault::RateLimited { retry_after: None }).on_tool("bump").times(3);
    for _ in 0..3 {
        client.call("docs__bump", json!({})).await;
    }
    let docs = get(&gateway, "servers/docs").await;
    assert_eq!((&docs["state"], &docs["breaker"]["open"]), (&json!("connected"), &json!(true)));
    let left = docs["breaker"]["probe_in_ms"].as_u64().unwrap();
    assert!(0 < left && left <= 60_000, "{docs}");
    let why = docs["why"].as_str().unwrap();
    assert!(why.contains("it limits the rate of calls (") && why.contains("refused for"), "{why}");
    assert!(docs["hint"].as_str().unwrap().starts_with("nothing now"), "{docs}");
}

#[tokio::test]
async fn an_unknown_server_is_answered_with_the_name_that_was_meant() {
    let (_docs, gateway) = two_servers(json!({})).await;
    for path in ["servers/dcos", "servers/dcos/tools", "servers/dcos/logs", "calls?server=dcos"] {
        let answer = api(&gateway, path).get(&[]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        let error = &answer.json()["error"];
        assert_eq!((&error["code"], &error["nearest"]), (&json!("unknown_server"), &json!("docs")));
    }
    for path in ["servers/dcos/restart", "servers/dcos/call"] {
        let body = if path.ends_with("call") { json!({ "tool": "echo" }) } else { json!({}) };
        let answer = post(&gateway, path, &body).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.text().contains("did you mean \\\"docs\\\"?"), "{}", answer.text());
    }
    let nothing_like_it = api(&gateway, "servers/somethingelse").get(&[]).await.json();
    assert_eq!(nothing_like_it["error"]["nearest"], Value::Null);
}

#[tokio::test]
async fn calls_are_remembered_without_their_arguments() {
    let (_docs, gateway) = two_servers(json!({})).await;
    let client = gateway.connect().await;
    client.call("docs__echo", json!({ "text": "a word nobody else says" })).await;
    client.call("docs__no_such_tool", json!({})).await;
    let calls = get(&gateway, "calls?server=docs").await;
    let calls = calls["calls"].as_array().unwrap();
    let echo = calls.iter().find(|call| call["tool"] == "echo").unwrap();
    assert_eq!((&echo["outcome"], &echo["resent"]), (&json!("answered"), &json!(false)));
    assert_eq!((&echo["method"], &echo["generation"]), (&json!("tools/call"), &json!(1)));
    assert!(echo["duration_ms"].as_f64().unwrap() >= echo["upstream_ms"].as_f64().unwrap());
    assert!(echo["result_bytes"].as_u64().unwrap() > 0);
    assert!(!calls.iter().any(|call| call.to_string().contains("a word nobody else says")));
    let counts = &get(&gateway, "servers/docs").await["calls"];
    assert_eq!(counts["answered"], calls.len());
    assert_eq!(get(&gateway, "calls?outcome=unknown").await["calls"], json!([]));
    assert_eq!(get(&gateway, "calls?limit=1").await["calls"].as_array().unwrap().len(), 1);
    for bad in ["calls?outcome=lost", "calls?limit=many", "calls?sever=docs"] {
        assert_eq!(api(&gateway, bad).get(&[]).await.status, StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn arguments_are_remembered_if_somebody_says_so() {
    let (_docs, gateway) = two_servers(json!({ "record_arguments": true })).await;
    gateway.connect().await.call("docs__echo", json!({ "text": "said" })).await;
    let calls = get(&gateway, "calls?limit=1").await;
    assert_eq!(calls["calls"][0]["arguments"], json!({ "text": "said" }));
}

#[tokio::test]
async fn as_many_calls_are_remembered_as_are_wanted() {
    let (_docs, gateway) = two_servers(json!({ "recent_calls": 2 })).await;
    let client = gateway.connect().await;
    for text in ["1", "2", "3"] {
        client.call("docs__echo", json!({ "text": text })).await;
    }
    let calls = get(&gateway, "calls").await;
    let numbers: Vec<&Value> =
        calls["calls"].as_array().unwrap().iter().map(|call| &call["n"]).collect();
    assert_eq!(numbers, [3, 2]);
}

#[tokio::test]
async fn sessions_are_listed_without_their_ids() {
    let (_docs, gateway) = two_servers(json!({})).await;
    assert_eq!(get(&gateway, "sessions").await, json!({ "count": 0, "sessions": [] }));
    let client = gateway.connect().await;
    let sessions = get(&gateway, "sessions").await;
    assert_eq!(sessions["count"], 1);
    let session = &sessions["sessions"][0];
    assert_eq!((&session["scope"], &session["key"]), (&json!("all"), &Value::Null));
    assert_eq!(session["protocol"], crate::support::NEWEST);
    assert!(!sessions.to_string().contains(&client.id));
}

#[tokio::test]
async fn what_is_offered_is_listed_with_the_names_that_clients_use() {
    let docs = HttpServer::start(Server::new()).await;
    let entry = json!({ "url": docs.url(), "tools": { "deny": ["bump"] } });
    let gateway = gateway(&json!({ "mcpServers": { "docs": entry } })).start();
    reaches(&gateway, "docs", "connected").await;
    until("docs is listed", async || !get(&gateway, "servers/docs").await["catalog"].is_null())
        .await;
    let tools = get(&gateway, "servers/docs/tools").await;
    let named = |name: &str| {
        let items = tools["items"].as_array().unwrap();
        items.iter().find(|item| item["definition"]["name"] == name).unwrap().clone()
    };
    assert_eq!(named("echo")["public_name"], "docs__echo");
    assert!(named("echo")["definition"]["inputSchema"].is_object());
    assert_eq!(
        (&named("bump")["public_name"], &named("bump")["offered"]),
        (&Value::Null, &json!(false))
    );
    for list in ["prompts", "resources", "resource_templates"] {
        let items = get(&gateway, &format!("servers/docs/{list}")).await["items"].clone();
        assert!(!items.as_array().unwrap().is_empty(), "{list}");
    }
}

#[tokio::test]
async fn what_a_child_says_on_standard_error_is_numbered() {
    let script = "for n in 1 2 3; do echo line $n >&2; done; sleep 60";
    let entry = json!({ "command": "sh", "args": ["-c", script] });
    let gateway = gateway(&json!({ "mcpServers": { "talker": entry } })).start();
    until("three lines", async || get(&gateway, "servers/talker/logs").await["next"] == 3).await;
    let logs = get(&gateway, "servers/talker/logs").await;
    assert_eq!(logs["lines"][0], json!({ "n": 0, "text": "line 1" }));
    let rest = get(&gateway, "servers/talker/logs?after=1").await;
    assert_eq!(rest["lines"], json!([{ "n": 2, "text": "line 3" }]));
    let bad = api(&gateway, "servers/talker/logs?after=x").get(&[]).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_log_level_can_be_changed() {
    let (_docs, gateway) = two_servers(json!({})).await;
    assert_eq!(get(&gateway, "log-level").await, json!({ "level": "info" }));
    let level = api(&gateway, "log-level");
    let changed = send(&level, Method::PUT, &json!({ "level": "debug" })).await;
    assert_eq!((changed.status, changed.json()), (StatusCode::OK, json!({ "level": "debug" })));
    gateway.connect().await;
    let bad = send(&level, Method::PUT, &json!({ "level": "loud" })).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert_eq!(get(&gateway, "log-level").await, json!({ "level": "debug" }));
}
