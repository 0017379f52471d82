//! Keys: who comes in, and what they may use.

use std::process::{Command, Stdio};

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::{Gateway, Http, gateway};

const ALICE: &str = "alice-has-a-long-key";
const BOB: &str = "bob-has-another-long-key";

/// Alice may use everything, Bob two tools of one server.
async fn two_keys() -> ([HttpServer; 2], Gateway) {
    let (web, docs) =
        (HttpServer::start(Server::new()).await, HttpServer::start(Server::new()).await);
    let gateway = gateway(&json!({
        "mcpServers": { "web": { "url": web.url() }, "docs": { "url": docs.url() } },
        "gateway": { "auth": { "keys": [
            { "name": "alice", "key": ALICE },
            { "name": "bob", "key": "${BOBS_KEY}", "servers": ["docs"], "tools": ["docs__e*", "read"] },
        ] } },
    }));
    ([web, docs], gateway.env("BOBS_KEY", BOB).start())
}

fn of(gateway: &Gateway, path: &str, key: &str) -> Http {
    Http::new(&gateway.at(path)).header("authorization", &format!("Bearer {key}"))
}

#[tokio::test]
async fn a_key_may_come_in_three_ways() {
    let (_servers, gateway) = two_keys().await;
    for (name, value) in [
        ("authorization", format!("Bearer {ALICE}")),
        ("authorization", format!("bearer   {ALICE}")),
        ("authorization", ALICE.to_owned()),
        ("x-api-key", ALICE.to_owned()),
    ] {
        let client = gateway.http().header(name, &value).initialize().await;
        assert_eq!(client.call_text("web__echo", json!({ "text": "in" })).await, "in");
    }
}

#[tokio::test]
async fn without_a_good_key_there_is_a_401_everywhere_but_at_the_probes() {
    let (_servers, gateway) = two_keys().await;
    let wrong = ["", "Bearer", "Bearer ", "Bearer wrong", "Basic YTpi", &ALICE[1..]];
    for path in
        ["/mcp", "/mcp/web", "/mcp/nobody", "/sse", "/message", "/health", "/close", "/else"]
    {
        let http = Http::new(&gateway.at(path));
        let mut answers = vec![http.get(&[]).await, http.post(&[], "{").await];
        for key in wrong {
            answers.push(http.get(&[("authorization", key)]).await);
        }
        for answer in answers {
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
            assert!(answer.header("www-authenticate").is_some(), "{path}");
            assert!(answer.json()["error"]["message"].is_string());
        }
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(Http::new(&gateway.at(path)).get(&[]).await.status, StatusCode::OK);
    }
    let health = of(&gateway, "/health", BOB).get(&[]).await;
    assert_eq!(health.status, StatusCode::OK);
    assert!(!health.text().contains(BOB) && !health.text().contains(ALICE));
}

#[tokio::test]
async fn a_session_is_good_only_with_the_key_it_was_made_with() {
    let (_servers, gateway) = two_keys().await;
    let alices = of(&gateway, "/mcp", ALICE).initialize().await;
    let bob = of(&gateway, "/mcp", BOB);
    let mut stolen = alices.clone();
    stolen.http = bob.clone();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(stolen.post(ping).await.status, StatusCode::NOT_FOUND);
    assert_eq!(stolen.listen().await.status, StatusCode::NOT_FOUND);
    assert_eq!(bob.delete(&stolen.headers()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(alices.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_key_sees_and_calls_only_what_it_may() {
    let ([web, docs], gateway) = two_keys().await;
    let alice = of(&gateway, "/mcp", ALICE).initialize().await;
    assert!(alice.tool_names().await.contains(&"web__bump".to_owned()));
    let bob = of(&gateway, "/mcp", BOB).initialize().await;
    assert_eq!(bob.tool_names().await, ["docs__echo", "docs__elicit"]);
    assert_eq!(bob.call_text("docs__echo", json!({ "text": "bob" })).await, "bob");
    for tool in ["web__echo", "docs__bump", "docs__read", "web__bump", "echo"] {
        let answer = bob.call(tool, json!({ "call_id": "forbidden" })).await;
        assert_eq!(answer["error"]["code"], -32602, "{tool}");
    }
    for list in ["prompts/list", "resources/list"] {
        let listed = bob.request(list, json!({})).await.to_string();
        assert!(!listed.contains("web"), "{listed}");
    }
    assert_eq!(web.server().executions("forbidden") + docs.server().executions("forbidden"), 0);
}

#[tokio::test]
async fn a_key_is_as_limited_at_the_address_of_one_server() {
    let ([_web, docs], gateway) = two_keys().await;
    let refused = of(&gateway, "/mcp/web", BOB).post(&[], "{}").await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND, "what a key may not use is not there");
    let bob = of(&gateway, "/mcp/docs", BOB).initialize().await;
    // Keys speak of the names at /mcp: the bare "read" opens nothing here.
    assert_eq!(bob.tool_names().await, ["echo", "elicit"]);
    assert!(bob.call("echo", json!({})).await["result"].is_object());
    assert_eq!(bob.call("read", json!({})).await["error"]["code"], -32602);
    assert_eq!(bob.call("bump", json!({ "call_id": "no" })).await["error"]["code"], -32602);
    assert_eq!(docs.server().executions("no"), 0);
}

#[tokio::test]
async fn a_key_is_as_limited_for_old_clients() {
    let (_servers, gateway) = two_keys().await;
    let mut bob = crate::legacy_sse::Sse::open(of(&gateway, "/sse", BOB), &gateway).await;
    let answer = bob.request("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["docs__echo", "docs__elicit"]);
}

#[test]
fn an_address_that_others_can_reach_needs_keys_or_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evergate.json");
    std::fs::write(&path, r#"{ "mcpServers": {} }"#).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(["serve", "--listen", "0.0.0.0:0", "--state-dir"]).arg(folder.path());
    command.arg("--config").arg(&path).stdin(Stdio::null());
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(64));
    assert_eq!(refused.stdout, b"");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("gateway.auth.keys"), "{why}");
}

#[tokio::test]
async fn with_keys_or_the_flag_it_listens_for_everybody() {
    let open = json!({ "mcpServers": {} });
    let open = gateway(&open).listen("0.0.0.0:0").arg("--allow-unauthenticated").start();
    assert_eq!(open.health().await["status"], "healthy");
    let auth = json!({ "keys": [{ "name": "alice", "key": ALICE }] });
    let keys = json!({ "mcpServers": {}, "gateway": { "auth": auth } });
    let keys = gateway(&keys).listen("0.0.0.0:0").start();
    assert_eq!(of(&keys, "/health", ALICE).get(&[]).await.status, StatusCode::OK);
}
