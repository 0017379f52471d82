//! The published catalog: complete, last good, and quiet unless something really changed.

use std::sync::Arc;

use evergate_runtime::{Catalog, Hub, HubEvent, OnExhausted, StateKind};
use evergate_testkit::{Fault, ListKind};
use serde_json::{Value, json};

use crate::support::*;

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" }, "x-unknown": 9_223_372_036_854_775_808_u64 })
}

fn names(catalog: &Arc<Catalog>) -> Vec<String> {
    catalog.server("s").map_or(vec![], |s| s.tools.iter().map(|tool| tool.key.clone()).collect())
}

async fn version(hub: &Hub, at_least: u64) -> Arc<Catalog> {
    let mut watch = hub.watch_catalog();
    let reached = watch.wait_for(|catalog| catalog.version >= at_least);
    tokio::time::timeout(PATIENCE, reached).await.expect("a new version").unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn every_list_is_read_to_its_last_page_and_kept_raw() {
    let (server, _memory, settings) = memory();
    server.set_tools((0..25).map(|n| tool(&format!("t{n:02}"))).collect());
    server.set_page_size(10);
    server.set_instructions("be kind");
    let (hub, _s) = hub(settings);
    let catalog = version(&hub, 1).await;
    let entry = catalog.server("s").unwrap();
    assert_eq!(entry.tools.len(), 25);
    assert!(entry.tools[3].raw.as_str().contains("9223372036854775808"));
    assert_eq!(entry.resources.len(), 2);
    assert_eq!(entry.resource_templates.len(), 1);
    assert_eq!(entry.prompts.len(), 1);
    assert_eq!(entry.instructions.as_deref(), Some("be kind"));
    assert!(entry.capabilities.as_str().contains("tools"));
}

#[tokio::test(start_paused = true)]
async fn the_version_changes_only_with_the_content() {
    let (server, _memory, settings) = memory();
    server.set_tools(vec![tool("a"), tool("b")]);
    let (hub, s) = hub(settings);
    let mut events = hub.events();
    version(&hub, 1).await;
    // Listed again, restarted, reordered: nothing new to say.
    let lists = || server.counters().requests.get("tools/list").copied().unwrap_or(0);
    let before = lists();
    hub.refresh();
    server.wait_for(|c| c.requests["tools/list"] > before).await;
    server.set_tools(vec![tool("b"), tool("a")]);
    s.restart();
    beyond(&s, 1).await;
    server.wait_for(|c| c.requests["tools/list"] > before + 1).await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(hub.catalog().version, 1);
    server.add_tools([tool("c")]);
    server.notify_list_changed(ListKind::Tools);
    assert_eq!(names(&version(&hub, 2).await).len(), 3);
    let mut versions = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let HubEvent::CatalogChanged { version, .. } = event {
            versions.push(version);
        }
    }
    assert_eq!(versions, [1, 2]);
}

/// Some servers add tools a moment after the handshake.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_short_for_a_moment_after_a_reconnect_is_not_published() {
    let (server, _memory, settings) = memory();
    server.set_tools(vec![tool("a"), tool("late")]);
    let (hub, s) = hub(settings);
    version(&hub, 1).await;
    let lists = server.counters().requests["tools/list"];
    server.set_tools(vec![tool("a")]);
    s.restart();
    server.wait_for(|c| c.requests["tools/list"] > lists).await;
    server.add_tools([tool("late")]);
    server.notify_list_changed(ListKind::Tools);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(hub.catalog().version, 1);
    // What stays away is really gone.
    server.set_tools(vec![tool("a")]);
    s.restart();
    assert_eq!(names(&version(&hub, 2).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_good_list_stays_while_the_server_is_away_and_goes_when_it_is_disabled() {
    let (server, memory, settings) = memory();
    server.set_tools(vec![tool("alpha"), tool("shared")]);
    let (hub, s) = hub(settings);
    version(&hub, 1).await;
    memory.kill();
    for state in [StateKind::Reconnecting, StateKind::Disconnected] {
        reach(&s, state).await;
        assert_eq!(names(&hub.catalog()), ["alpha", "shared"], "{state}");
    }
    server.set_tools(vec![tool("beta"), tool("shared")]);
    memory.revive();
    connected(&s).await;
    assert_eq!(names(&version(&hub, 2).await), ["beta", "shared"]);
    s.disable();
    reach(&s, StateKind::Disabled).await;
    assert!(hub.catalog().server("s").is_none());
    s.enable();
    assert_eq!(names(&version(&hub, 4).await), ["beta", "shared"]);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_takes_the_catalog_with_it() {
    let (_server, memory, settings) = memory();
    let (hub, s) = hub(settings.max_attempts(Some(1)).on_exhausted(OnExhausted::Fail));
    version(&hub, 1).await;
    memory.kill();
    reach(&s, StateKind::PermanentlyFailed).await;
    assert!(hub.catalog().servers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_listing_keeps_the_last_good_one_and_is_tried_again() {
    let (server, _memory, settings) = memory();
    server.set_tools(vec![tool("a")]);
    let (hub, s) = hub(settings);
    version(&hub, 1).await;
    server.set_tools(vec![tool("b")]);
    server.inject(Fault::HangBeforeHeaders).on("tools/list").times(1);
    s.refresh();
    s.wait_until(PATIENCE, |status| status.discovery_failures == 1).await.unwrap();
    let status = s.status();
    assert!(status.degraded && status.state == StateKind::Connected);
    assert!(status.last_error.unwrap().contains("tools/list"));
    assert_eq!(names(&hub.catalog()), ["a"]);
    assert_eq!(names(&version(&hub, 2).await), ["b"]);
    s.wait_until(PATIENCE, |status| !status.degraded).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bursts_cost_one_listing_and_a_change_during_a_listing_is_not_lost() {
    let (server, _memory, settings) = memory();
    server.set_tools(vec![tool("a")]);
    let (hub, _s) = hub(settings);
    version(&hub, 1).await;
    let lists = server.counters().requests["tools/list"];
    server.set_tools(vec![tool("b")]);
    for _ in 0..100 {
        server.notify_list_changed(ListKind::Tools);
    }
    version(&hub, 2).await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(server.counters().requests["tools/list"], lists + 1);
    // The next listing is under way with the old content when the change is announced.
    server.inject(Fault::DelayAnswer(SECOND)).on("tools/list");
    server.notify_list_changed(ListKind::Tools);
    server.wait_for(|c| c.requests["tools/list"] == lists + 2).await;
    server.set_tools(vec![tool("c")]);
    server.notify_list_changed(ListKind::Tools);
    let catalog = version(&hub, 3).await;
    assert_eq!(names(&catalog), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn the_catalog_is_refreshed_from_time_to_time() {
    let (server, _memory, settings) = memory();
    server.set_tools(vec![tool("a")]);
    let (hub, _s) = hub(settings.refresh_every(Some(60 * SECOND)));
    version(&hub, 1).await;
    server.set_tools(vec![tool("b")]); // And nobody says so.
    let started = tokio::time::Instant::now();
    version(&hub, 2).await;
    assert!(started.elapsed() >= 59 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_lists_has_an_empty_entry() {
    let (server, _memory, settings) = memory();
    server.set_capabilities(json!({ "experimental": { "x": 1 } }));
    let (hub, _s) = hub(settings);
    let catalog = version(&hub, 1).await;
    let entry = catalog.server("s").unwrap();
    assert!(entry.tools.is_empty() && entry.prompts.is_empty() && entry.resources.is_empty());
    assert!(!server.counters().requests.contains_key("tools/list"), "not declared, not asked for");
}

#[tokio::test(start_paused = true)]
async fn new_capabilities_of_a_restarted_server_are_seen() {
    let (server, memory, settings) = memory();
    server.set_capabilities(json!({ "prompts": {} }));
    let (hub, s) = hub(settings);
    assert!(names(&version(&hub, 1).await).is_empty());
    server.set_capabilities(json!({ "prompts": {}, "tools": {} }));
    memory.kill();
    memory.revive();
    beyond(&s, 1).await;
    assert!(!names(&version(&hub, 2).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_bad_server_does_not_touch_the_catalog_of_another() {
    let (bad_server, _bad_memory, bad) = memory();
    let (good_server, _good_memory, good) = memory();
    bad_server.inject(Fault::HangBeforeHeaders).on("tools/list").forever();
    let hub = Hub::builder().server("bad", bad).server("good", good).start().unwrap();
    let catalog = version(&hub, 1).await;
    assert!(catalog.server("good").is_some() && catalog.server("bad").is_none());
    good_server.set_tools(vec![]);
    hub.refresh();
    assert!(version(&hub, 2).await.server("good").unwrap().tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_server_refuses_costs_neither_the_others_nor_the_connection() {
    let (server, memory, settings) = memory();
    server.set_tools(vec![tool("a")]);
    let (hub, s) = hub(settings);
    version(&hub, 1).await;
    let resources = hub.catalog().server("s").unwrap().resources.len();
    server.inject(Fault::Status(500, "not today".into())).on("resources/list").forever();
    server.set_tools(vec![tool("b")]);
    memory.kill();
    memory.revive();
    beyond(&s, 1).await;
    let catalog = version(&hub, 2).await;
    assert_eq!(names(&catalog), ["b"]);
    assert_eq!(
        catalog.server("s").unwrap().resources.len(),
        resources,
        "the last good list is kept"
    );
    tokio::time::sleep(600 * SECOND).await;
    let status = s.status();
    assert_eq!((status.state, status.generation.unwrap().get()), (StateKind::Connected, 2));
    assert!(status.last_garbage.unwrap().contains("resources/list"));
    server.clear_faults();
    server.set_resources(vec![]);
    let catalog = version(&hub, 3).await;
    assert!(catalog.server("s").unwrap().resources.is_empty(), "and asked for again");
}
