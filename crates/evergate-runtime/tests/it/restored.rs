//! Catalogs that outlive the process that listed them.

use std::sync::Arc;

use evergate_runtime::{Hub, InvalidCatalog, RawJson, ServerCatalog, StateKind};
use serde_json::json;

use crate::support::*;

const BIG: u64 = 9_223_372_036_854_775_808;

async fn listed(hub: &Hub, name: &str) -> Arc<ServerCatalog> {
    let mut catalog = hub.watch_catalog();
    let listed = catalog.wait_for(|catalog| catalog.server(name).is_some()).await.unwrap();
    listed.server(name).unwrap().clone()
}

async fn until_listed_live(hub: &Hub) -> Arc<ServerCatalog> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    // The content did not change, so nothing announces it.
    loop {
        let entry = hub.catalog().server("s").unwrap().clone();
        if entry.generation.is_some() {
            return entry;
        }
        assert!(tokio::time::Instant::now() < deadline, "never listed");
        tokio::time::sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_catalog_is_there_at_once_and_stays_until_listed() {
    let (server, memory, settings) = memory();
    server
        .add_tools([json!({ "name": "t", "x-big": BIG, "annotations": { "readOnlyHint": true } })]);
    server.set_instructions("be \"kind\"\n");
    let (first, _s) = hub(settings.clone());
    let saved = listed(&first, "s").await.to_saved();
    first.shutdown(SECOND).await;

    memory.kill();
    let restored = ServerCatalog::from_saved(&saved).unwrap();
    let hub = Hub::builder().server("s", settings).restore("s", restored).seed(1).start().unwrap();
    let s = hub.server("s").unwrap();
    let (version, entry) = (hub.catalog().version, hub.catalog().server("s").unwrap().clone());
    assert_eq!((version, entry.generation), (1, None));
    let tool = entry.tool("t").unwrap();
    assert!(tool.harmless && tool.raw.as_str().contains(&BIG.to_string()));
    assert_eq!(entry.instructions.as_deref(), Some("be \"kind\"\n"));
    assert!(!entry.prompts.is_empty() && !entry.resources.is_empty());
    assert!(!entry.resource_templates.is_empty());
    reach(&s, StateKind::Reconnecting).await;
    assert_eq!(hub.catalog().version, 1);
    // The same content again is no news.
    memory.revive();
    let live = until_listed_live(&hub).await;
    assert_eq!((hub.catalog().version, &live.digest), (1, &entry.digest));
    server.remove_tool("t");
    s.refresh();
    let mut catalog = hub.watch_catalog();
    catalog.wait_for(|catalog| catalog.version == 2).await.unwrap();
    s.disable();
    catalog.wait_for(|catalog| catalog.server("s").is_none()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_servers_that_are_switched_on_are_restored() {
    let (_server, _memory, settings) = memory();
    let (first, _s) = hub(settings.clone());
    let entry = listed(&first, "s").await;
    let hub = Hub::builder()
        .server("s", settings.disabled())
        .restore("s", ServerCatalog::clone(&entry))
        .restore("unknown", ServerCatalog::clone(&entry))
        .start()
        .unwrap();
    assert!(hub.catalog().servers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_saved_is_read_back_to_the_byte_and_nothing_else_is() {
    let (_server, _memory, settings) = memory();
    let (hub, _s) = hub(settings);
    let entry = listed(&hub, "s").await;
    let saved = entry.to_saved();
    let back = ServerCatalog::from_saved(&saved).unwrap();
    assert_eq!((&back.digest, &back.tools), (&entry.digest, &entry.tools));
    assert_eq!(back.to_saved(), saved);
    for wrong in
        ["1", "[]", "{}", "\"text\"", &saved.as_str().replacen("\"tools\":[", "\"tools\":[1,", 1)]
    {
        let wrong = RawJson::from_text(wrong.to_owned()).unwrap();
        assert!(ServerCatalog::from_saved(&wrong).is_err(), "{}", wrong.as_str());
    }
    let nameless = saved.as_str().replacen("\"prompts\":[", "\"prompts\":[{},", 1);
    let nameless = RawJson::from_text(nameless).unwrap();
    let error = ServerCatalog::from_saved(&nameless).unwrap_err();
    assert_eq!(error, InvalidCatalog::Item { list: "prompts" });
}
