//! How long lists may be kept.

use std::time::Duration;

use serde_json::{Value, json};

use super::raw_lines::{RawLines, Said, initialized};
use crate::support::*;

fn hinted(pages: &'static [(Value, Value)]) -> impl Fn(&Value) -> Said + Send + Sync + 'static {
    |message| match message["method"].as_str().unwrap() {
        "server/discover" => Said::Result(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {}, "prompts": {} },
        })),
        "tools/list" => {
            let cursor = message["params"]["cursor"].as_str().unwrap_or("0");
            let page: usize = cursor.parse().unwrap();
            let (ttl, scope) = &pages[page];
            let mut result = json!({ "tools": [], "ttlMs": ttl, "cacheScope": scope });
            if page + 1 < pages.len() {
                result["nextCursor"] = (page + 1).to_string().into();
            }
            Said::Result(result)
        }
        "prompts/list" => Said::Result(json!({ "prompts": [] })),
        _ => Said::Nothing,
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_says_how_long_it_may_be_kept_and_is_listed_anew_after_that() {
    static PAGES: std::sync::LazyLock<[(Value, Value); 2]> = std::sync::LazyLock::new(|| {
        [(json!(3_600_000), json!("public")), (json!(60_000), json!("private"))]
    });
    let (peer, settings) = RawLines::start(Duration::ZERO, hinted(&*PAGES));
    let (hub, _s) = hub(settings.refresh_every(None));
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    let hints = hub.catalog().server("s").unwrap().hints;
    let tools = hints.tools.unwrap();
    assert_eq!((tools.ttl_ms, tools.public), (60_000, false));
    let prompts = hints.prompts.unwrap();
    assert_eq!((prompts.ttl_ms, prompts.public), (0, false));
    assert_eq!(hints.resources, None);
    let count = |method: &str| peer.params(method).len();
    assert_eq!((count("tools/list"), count("prompts/list")), (2, 1));
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!((count("tools/list"), count("prompts/list")), (6, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_with_a_handshake_says_nothing_of_that() {
    let (_, settings) =
        RawLines::start(Duration::ZERO, |message| match message["method"].as_str().unwrap() {
            "initialize" => initialized(),
            _ => Said::Error(-32601, Value::Null),
        });
    let (hub, _s) = hub(settings);
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    assert_eq!(hub.catalog().server("s").unwrap().hints, evergate_runtime::CacheHints::default());
}
