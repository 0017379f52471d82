//! Lists outlive servers and the gateway itself, and clients hear of a change when there is one.

use std::time::{Duration, Instant};

use evergate_testkit::{HttpServer, ListKind};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{
    anew, at, at_with, begin, child, child_with, merged, next_of, none_before_mark, quick, servers,
    soon, status, text, until_listed, web,
};
use crate::support::{Gateway, gateway, until};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

async fn saved(gateway: &Gateway, word: &str) {
    let path = gateway.state_dir().join("catalogs.json");
    until("the catalog is on disk", async || {
        std::fs::read_to_string(&path).unwrap_or_default().contains(word)
    })
    .await;
}

async fn listening(http: &HttpServer) {
    soon("the gateway listens", http.server().wait_for(|now| now.listening == 1)).await;
}

#[tokio::test]
async fn after_a_restart_the_list_is_there_at_once_though_the_server_is_down() {
    for signal in [Signal::TERM, Signal::KILL] {
        let http = web().await;
        let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
        let client = gateway.connect().await;
        let names = client.tool_names().await;
        saved(&gateway, "\"web\"").await;
        http.kill().await;
        let gateway = gateway.restart(signal).await;
        let began = Instant::now();
        let fresh = gateway.connect().await;
        assert_eq!(fresh.tool_names().await, names);
        let client = anew(&client);
        assert_eq!(client.tool_names().await, names);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(status(&gateway, "web").await["catalog"]["stale"], true);
        let held = begin(&client, "web__bump", json!({}));
        http.revive().await;
        assert_eq!(text(&held.await.unwrap()), "1");
        until("it is fresh", async || status(&gateway, "web").await["catalog"]["stale"] == false)
            .await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_told_to_end_right_after_it_listed_remembers_the_list() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let names = gateway.connect().await.tool_names().await;
    let gateway = {
        http.kill().await;
        gateway.restart(Signal::TERM).await
    };
    assert_eq!(gateway.connect().await.tool_names().await, names);
}

#[tokio::test]
async fn a_server_that_is_slow_to_close_is_not_remembered_as_empty() {
    let lifecycle = merged(quick(), json!({ "close_timeout": "2500ms" }));
    let stubborn = ["--ignore-stdin-eof", "--ignore-sigterm"];
    let entry = child_with(&stubborn, json!({ "lifecycle": lifecycle }));
    let mut gateway = gateway(&servers(json!({ "c": entry }))).start();
    gateway.connect().await.tool_names().await;
    saved(&gateway, "bump").await;
    gateway.signal(Signal::TERM);
    assert!(gateway.ended().await.success());
    saved(&gateway, "bump").await;
}

#[tokio::test]
async fn a_restart_with_the_same_tools_is_no_change() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    listening(&http).await;
    let mut events = client.listen().await;
    // What there was to say at the start is said.
    http.server().notify("notifications/message", json!({ "level": "emergency", "data": "first" }));
    next_of(&mut events, "notifications/message").await;
    http.kill().await;
    http.revive().await;
    client.call_text("web__bump", json!({})).await;
    listening(&http).await;
    // Neither is being told of a change that is none.
    let lists = http.server().received("tools/list").len();
    http.server().notify_list_changed(ListKind::Tools);
    until("it is listed again", async || http.server().received("tools/list").len() > lists).await;
    none_before_mark(&mut events, http.server(), TOOLS_CHANGED).await;
}

#[tokio::test]
async fn a_change_is_announced_once_for_each_list_that_changed() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    listening(&http).await;
    let mut events = client.listen().await;
    http.server().notify("notifications/message", json!({ "level": "emergency", "data": "first" }));
    next_of(&mut events, "notifications/message").await;
    http.kill().await;
    http.server().add_tools([tool("new")]);
    http.revive().await;
    assert_eq!(events.message().await.unwrap()["method"], TOOLS_CHANGED);
    assert!(client.tool_names().await.contains(&"web__new".to_owned()));
    listening(&http).await;
    http.server().set_prompts(Vec::new());
    http.server().notify_list_changed(ListKind::Prompts);
    let next = events.message().await.unwrap();
    assert_eq!(next["method"], "notifications/prompts/list_changed", "and none in between");
    none_before_mark(&mut events, http.server(), TOOLS_CHANGED).await;
}

#[tokio::test]
async fn a_late_server_appears_and_is_announced() {
    let (early, late) = (web().await, web().await);
    late.kill().await;
    let config = json!({
        "gateway": { "startup_wait": "200ms" },
        "mcpServers": { "early": at(&early), "late": at(&late) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let names = client.tool_names().await;
    assert!(names.iter().all(|name| name.starts_with("early__")) && names.len() == 15);
    let mut events = client.listen().await;
    late.revive().await;
    next_of(&mut events, TOOLS_CHANGED).await;
    until_listed(&client, "late__bump").await;
}

#[tokio::test]
async fn a_slow_server_delays_the_first_list_so_long_and_no_longer_and_later_lists_not_at_all() {
    let http = web().await;
    let config = json!({
        "gateway": { "startup_wait": "2s" },
        "mcpServers": { "web": at(&http), "slow": child(&["--slow-start", "4000"]) },
    });
    let began = Instant::now();
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    assert_eq!(client.call_text("web__bump", json!({})).await, "1", "not at all for a call");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(client.tool_names().await.len(), 15);
    assert!(began.elapsed() < Duration::from_millis(3900), "{:?}", began.elapsed());
    until_listed(&client, "slow__pid").await;
    saved(&gateway, "\"slow\"").await;
    // Known from the run before, it delays nothing however slow it is.
    gateway.write_config(&merged(config, json!({ "gateway": { "startup_wait": "20s" } })));
    let gateway = gateway.restart(Signal::TERM).await;
    let began = Instant::now();
    let client = gateway.connect().await;
    assert_eq!(client.tool_names().await.len(), 32);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_from_before_hears_of_what_changed_while_the_gateway_was_away() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    saved(&gateway, "\"web\"").await;
    let gateway = gateway.restart(Signal::KILL).await;
    let client = anew(&client);
    let mut events = client.listen().await;
    listening(&http).await;
    none_before_mark(&mut events, http.server(), TOOLS_CHANGED).await;
    http.server().add_tools([tool("new")]);
    let _gateway = gateway.restart(Signal::KILL).await;
    let client = anew(&client);
    let mut events = client.listen().await;
    next_of(&mut events, TOOLS_CHANGED).await;
    until_listed(&client, "web__new").await;
}

#[tokio::test]
async fn a_server_that_is_another_now_does_not_inherit_the_list() {
    let (one, two) = (web().await, web().await);
    one.server().set_tools(vec![tool("of_one")]);
    two.server().set_tools(vec![tool("of_two")]);
    let gateway = gateway(&servers(json!({ "web": at(&one) }))).start();
    assert_eq!(gateway.connect().await.tool_names().await, ["web__of_one"]);
    saved(&gateway, "of_one").await;
    two.kill().await;
    gateway.write_config(&servers(json!({ "web": at_with(&two, json!({})) })));
    let gateway = gateway.restart(Signal::KILL).await;
    let client = gateway.connect().await;
    assert!(client.tool_names().await.is_empty());
    two.revive().await;
    until_listed(&client, "web__of_two").await;
}
