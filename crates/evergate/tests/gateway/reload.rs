//! A new configuration in place of the running one: what changed changes, the rest does not notice.

use http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{
    at, at_with, begin, child, child_with, connect_to, next_of, pid_of, ping_status, servers, soon,
    status, text, until_listed, until_status, web,
};
use crate::support::{Gateway, Http, exists, gateway, until};

async fn said(gateway: &Gateway, words: &str) {
    until(words, async || gateway.stderr().contains(words)).await;
}

#[tokio::test]
async fn a_server_is_added_by_a_changed_file_and_by_a_signal() {
    let (one, two) = (web().await, web().await);
    let gateway = gateway(&servers(json!({ "one": at(&one) }))).start();
    // A client that comes when all is listed hears of nothing but what changes.
    gateway.connect().await.tool_names().await;
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    assert_eq!(client.tool_names().await.len(), 15);
    gateway.write_config(&servers(json!({ "one": at(&one), "two": at(&two) })));
    next_of(&mut events, "notifications/tools/list_changed").await;
    assert_eq!(client.call_text("two__bump", json!({})).await, "1");
    assert_eq!(connect_to(&gateway, "two").await.call_text("bump", json!({})).await, "2");
    // By a signal, without a change of any file.
    gateway.signal(Signal::HUP);
    let reloads = || gateway.stderr().matches("configuration reloaded").count();
    until("it was reloaded", async || reloads() == 2).await;
    assert_eq!(one.server().counters().handshakes, 1);
    assert_eq!(two.server().counters().handshakes, 1);
}

#[tokio::test]
async fn a_removed_server_goes_at_once_and_its_calls_finish() {
    let (stays, goes) = (web().await, web().await);
    let gateway = gateway(&servers(json!({ "stays": at(&stays), "goes": at(&goes) }))).start();
    let client = gateway.connect().await;
    let call = begin(&client, "goes__hold", json!({ "call_id": "x" }));
    soon("it is under way", goes.server().wait_for(|now| now.calls == 1)).await;
    gateway.write_config(&servers(json!({ "stays": at(&stays) })));
    until("its tools are gone", async || client.tool_names().await.len() == 15).await;
    let answer = client.call("goes__bump", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    goes.server().release_held();
    assert_eq!(text(&soon("an answer", call).await.unwrap()), "released");
    soon("its session is given back", goes.server().wait_for(|now| now.sessions_open == 0)).await;
    assert_eq!(goes.server().counters().sessions_deleted, 1);
    let gone = crate::support::Http::new(&gateway.at("/mcp/goes")).get(&[]).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_changed_server_is_made_anew_and_others_are_not_disturbed() {
    let http = web().await;
    let config = |env: &str| {
        let changed = child_with(&[], json!({ "env": { "X": env } }));
        servers(json!({ "changed": changed, "same": at(&http), "child": child(&[]) }))
    };
    let gateway = gateway(&config("1")).start();
    let client = gateway.connect().await;
    let names = client.tool_names().await;
    let (changed, same) =
        (pid_of(&client, "changed__pid").await, pid_of(&client, "child__pid").await);
    let elsewhere = begin(&client, "same__hold", json!({}));
    let here = begin(&client, "changed__slow", json!({ "ms": 1500 }));
    soon("both are under way", http.server().wait_for(|now| now.calls == 1)).await;
    gateway.write_config(&config("2"));
    until("another process", async || {
        assert_eq!(client.tool_names().await, names, "the list stays");
        pid_of(&client, "changed__pid").await != changed
    })
    .await;
    assert_eq!(text(&soon("its answer", here).await.unwrap()), "slow but done");
    until("the old process ends", async || !exists(changed)).await;
    assert_eq!(pid_of(&client, "child__pid").await, same);
    http.server().release_held();
    assert_eq!(text(&soon("its answer", elsewhere).await.unwrap()), "released");
    assert_eq!(http.server().counters().handshakes, 1);
    assert_eq!(status(&gateway, "same").await["generation"], 1);
}

#[tokio::test]
async fn filters_and_names_change_without_a_new_connection() {
    let http = web().await;
    let config = |tools: Value, separator: &str| {
        json!({
            "gateway": { "separator": separator },
            "mcpServers": { "web": at_with(&http, json!({ "tools": tools })) },
        })
    };
    let gateway = gateway(&config(json!({ "allow": ["bump"] }), "__")).start();
    gateway.connect().await.tool_names().await;
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    assert_eq!(client.tool_names().await, ["web__bump"]);
    let held = connect_to(&gateway, "web").await;
    gateway.write_config(&config(json!({ "allow": ["echo"] }), "__"));
    next_of(&mut events, "notifications/tools/list_changed").await;
    assert_eq!(client.tool_names().await, ["web__echo"]);
    assert_eq!(client.call("web__bump", json!({})).await["error"]["code"], -32602);
    assert_eq!(held.tool_names().await, ["echo"]);
    gateway.write_config(&config(json!({ "allow": ["echo"] }), "___"));
    until_listed(&client, "web___echo").await;
    assert_eq!(http.server().counters().handshakes, 1);
}

#[tokio::test]
async fn a_bad_configuration_changes_nothing_and_every_problem_is_named() {
    let http = web().await;
    let good = servers(json!({ "web": at(&http) }));
    let gateway = gateway(&good).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    gateway.write_config(&json!({
        "gateway": { "seperator": "_", "drain": "soon" },
        "mcpServers": { "web": { "url": "not a url" }, "both": { "url": http.url(), "command": "x" } },
    }));
    said(&gateway, "the running one stays").await;
    let log = gateway.stderr();
    for word in ["seperator", "drain", "mcpServers.web", "mcpServers.both"] {
        assert!(log.contains(word), "{word} is not in {log}");
    }
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
    std::fs::write(gateway.config_path(), "{ not json").unwrap();
    let complaints = |log: &str| log.matches("the running one stays").count();
    until("it complains again", async || complaints(&gateway.stderr()) == 2).await;
    std::fs::remove_file(gateway.config_path()).unwrap();
    until("and again", async || complaints(&gateway.stderr()) == 3).await;
    assert_eq!(client.call_text("web__bump", json!({})).await, "2");
    assert_eq!(http.server().counters().handshakes, 1);
    gateway.write_config(&good);
    said(&gateway, "configuration reloaded").await;
}

fn with_keys(keys: Value, entries: Value) -> Value {
    json!({ "gateway": { "auth": { "keys": keys } }, "mcpServers": entries })
}

const ONE: &str = "key-one-0123456789abcdef";
const TWO: &str = "key-two-0123456789abcdef";

async fn is_let_in(gateway: &Gateway, key: &str) -> bool {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    }});
    let answer = gateway.http().post(&[("x-api-key", key)], initialize.to_string()).await;
    assert!([StatusCode::OK, StatusCode::UNAUTHORIZED].contains(&answer.status));
    answer.status == StatusCode::OK
}

#[tokio::test]
async fn keys_come_and_go_with_a_reload() {
    let http = web().await;
    let entries = json!({ "web": at(&http) });
    let one = json!({ "name": "one", "key": ONE });
    let two = json!({ "name": "two", "key": TWO });
    let gateway = gateway(&with_keys(json!([one]), entries.clone())).start();
    assert!(is_let_in(&gateway, ONE).await && !is_let_in(&gateway, TWO).await);
    gateway.write_config(&with_keys(json!([one, two]), entries.clone()));
    until("the second is let in", async || is_let_in(&gateway, TWO).await).await;
    assert!(is_let_in(&gateway, ONE).await);
    let changed = json!({ "name": "two", "key": "another-secret-0123456789" });
    gateway.write_config(&with_keys(json!([one, changed]), entries.clone()));
    until("the old secret is not", async || !is_let_in(&gateway, TWO).await).await;
    assert!(!gateway.stderr().contains(ONE) && !gateway.stderr().contains("another-secret"));
}

#[tokio::test]
async fn no_reload_opens_a_gateway_that_had_keys() {
    let http = web().await;
    let key = json!([{ "name": "one", "key": ONE }]);
    let gateway = gateway(&with_keys(key, json!({ "web": at(&http) }))).start();
    gateway.write_config(&servers(json!({ "web": at(&http) })));
    said(&gateway, "has no keys").await;
    assert!(!is_let_in(&gateway, "").await && is_let_in(&gateway, ONE).await);
    // Nor does the next one.
    gateway.write_config(&servers(json!({ "web": at(&http), "more": at(&http) })));
    let reloads = || gateway.stderr().matches("configuration reloaded").count();
    until("it was reloaded", async || reloads() == 2).await;
    assert!(!is_let_in(&gateway, "").await && is_let_in(&gateway, ONE).await);
}

#[tokio::test]
async fn what_a_key_may_do_changes_for_sessions_that_are_open() {
    let (one, two) = (web().await, web().await);
    let entries = json!({ "one": at(&one), "two": at(&two) });
    let key = |servers: Value| json!([{ "name": "k", "key": ONE, "servers": servers }]);
    let gateway = gateway(&with_keys(key(json!(["*"])), entries.clone())).start();
    let http = gateway.http().header("x-api-key", ONE);
    let client = http.initialize().await;
    assert_eq!(client.tool_names().await.len(), 30);
    gateway.write_config(&with_keys(key(json!(["one"])), entries.clone()));
    until("less is listed", async || client.tool_names().await.len() == 15).await;
    let answer = client.call("two__bump", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // Whoever comes now sees the same.
    assert_eq!(http.initialize().await.tool_names().await.len(), 15);
    gateway.write_config(&with_keys(key(json!(["*"])), entries));
    until("all is listed", async || client.tool_names().await.len() == 30).await;
    client.call_text("two__bump", json!({})).await;
    assert_eq!(two.server().counters().calls, 1);
}

#[tokio::test]
async fn a_server_is_switched_off_and_on() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let (all, one) = (gateway.connect().await, connect_to(&gateway, "web").await);
    all.tool_names().await;
    gateway.write_config(&servers(json!({ "web": at_with(&http, json!({ "disabled": true })) })));
    until_status(&gateway, "web", "disabled").await;
    until("nothing is listed", async || all.tool_names().await.is_empty()).await;
    soon("its session is given back", http.server().wait_for(|now| now.sessions_open == 0)).await;
    assert_eq!(ping_status(&one).await, StatusCode::OK);
    let answer = one.call("bump", json!({})).await;
    assert!(answer.get("error").is_some(), "{answer}");
    gateway.write_config(&servers(json!({ "web": at(&http) })));
    until_listed(&all, "web__bump").await;
    assert_eq!(one.call_text("bump", json!({})).await, "1");
}

/// What `evergate connect --project --write` makes of a file that is served.
#[tokio::test]
async fn a_gateway_is_not_one_of_its_own_servers() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let tools = client.tool_names().await;
    let itself = json!({ "url": gateway.url });
    gateway.write_config(&servers(json!({ "web": at(&http), "evergate": itself })));
    let api = Http::new(&gateway.at("/api/v1/servers/evergate"));
    until("it is known", async || api.get(&[]).await.status == StatusCode::OK).await;
    let report = api.get(&[]).await.json();
    assert_eq!(report["state"], "unusable", "{report}");
    assert!(report["why"].as_str().unwrap().contains("leads to this gateway itself"), "{report}");
    assert_eq!(client.tool_names().await, tools);
}
