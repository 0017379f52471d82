//! Servers are added, replaced and removed while others are at work.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{
    CallFailure, Hub, HubEvent, Outcome, ServerCatalog, ServerHandle, Settings, StateKind,
};
use evergate_testkit::{Fault, HttpServer, MemoryServer, Server};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::*;

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// A server with one tool of its own.
fn offering(name: &str) -> (Server, MemoryServer, Settings) {
    let (server, memory, settings) = memory();
    server.add_tools([tool(name)]);
    (server, memory, settings)
}

fn names(hub: &Hub) -> Vec<String> {
    hub.servers().iter().map(|server| server.name().to_owned()).collect()
}

async fn until_offered(hub: &Hub, name: &str, tool: &str) {
    let mut catalog = hub.watch_catalog();
    let offered = catalog
        .wait_for(|catalog| catalog.server(name).is_some_and(|server| server.tool(tool).is_some()));
    tokio::time::timeout(PATIENCE, offered).await.expect(tool).unwrap();
}

/// A call that is with the server until it is released.
async fn held(
    server: &Server,
    handle: &ServerHandle,
) -> tokio::task::JoinHandle<Result<evergate_runtime::RawJson, evergate_runtime::CallError>> {
    let before = server.counters().calls;
    let call = tokio::spawn(handle.call_tool("hold", json!({})).into_future());
    server.wait_for(|c| c.calls == before + 1).await;
    call
}

#[tokio::test(start_paused = true)]
async fn a_server_is_added_and_removed_while_others_are_at_work() {
    let (server, _memory, settings) = offering("first");
    let (hub, s) = hub(settings);
    let under_way = held(&server, &s).await;
    let (other, _memory, settings) = offering("second");
    let added = hub.add("t", settings.clone()).unwrap();
    assert_eq!(text(&added.call_tool("echo", json!({ "text": "hi" })).await.unwrap()), "hi");
    until_offered(&hub, "t", "second").await;
    assert_eq!(names(&hub), ["s", "t"]);
    let taken = hub.add("t", settings).unwrap_err();
    assert_eq!((taken.problems[0].field, &*taken.problems[0].server), ("name", "t"));
    assert_eq!(hub.add("u", Settings::http("ftp://x")).unwrap_err().problems[0].field, "url");
    hub.remove("t").unwrap();
    assert!(hub.catalog().server("t").is_none());
    assert_eq!(names(&hub), ["s"]);
    assert!(hub.server("t").is_err());
    assert_eq!(hub.remove("t").unwrap_err().0, "t");
    other.wait_for(|c| c.connections_open == 0).await;
    let error = added.call_tool("echo", json!({})).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::Removed), "{error}");
    assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, true));
    // What was commanded of it comes to nothing.
    added.enable();
    added.restart();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!((other.counters().handshakes, added.status().state), (1, StateKind::Disabled));
    server.release_held();
    under_way.await.unwrap().unwrap();
    assert_eq!(server.counters().handshakes, 1);
    assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
}

#[tokio::test]
async fn a_replaced_server_finishes_what_it_has_and_its_successor_takes_the_rest() {
    let (in_memory, _memory, settings) = offering("old");
    let kit = Server::new();
    kit.add_tools([tool("old")]);
    let http = HttpServer::start(kit.clone()).await;
    for (server, settings) in [(in_memory, settings), (kit, Settings::http(http.url()))] {
        let (hub, old) = hub(settings.required());
        until_offered(&hub, "s", "old").await;
        let mut events = hub.events();
        let under_way = held(&server, &old).await;
        let (successor, memory, settings) = offering("new");
        memory.set_connect_delay(SECOND / 10);
        let new = hub.replace("s", settings.required()).unwrap();
        // Until the new one is listed the old list stands.
        assert!(hub.catalog().server("s").unwrap().tool("old").is_some());
        hub.ready(30 * SECOND).await.unwrap();
        until_offered(&hub, "s", "new").await;
        assert!(hub.catalog().server("s").unwrap().tool("old").is_none());
        assert!(matches!(
            old.call_tool("bump", json!({})).await.unwrap_err().source,
            CallFailure::Removed
        ));
        new.call_tool("bump", json!({})).await.unwrap();
        assert_eq!((server.counters().handshakes, successor.counters().calls), (1, 1));
        // The same numbers, and still two connections.
        assert_eq!(old.status().generation, new.status().generation);
        server.release_held();
        under_way.await.unwrap().unwrap();
        reach(&old, StateKind::Disabled).await;
        assert!(
            hub.catalog().server("s").unwrap().tool("new").is_some(),
            "not the old one's to drop"
        );
        assert_eq!(new.status().state, StateKind::Connected);
        while let Ok(event) = events.try_recv() {
            if let HubEvent::Transition(t) = event {
                assert!(!matches!(t.to, StateKind::Disabling | StateKind::Disabled), "{t:?}");
            }
        }
        assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_only_wait_for_a_replaced_server_end_at_once() {
    let (server, memory, settings) = memory();
    memory.kill();
    let (hub, s) = hub(settings.max_in_flight(1));
    let waiting = tokio::spawn(s.call_tool("bump", json!({})).into_future());
    reach(&s, StateKind::Reconnecting).await;
    let started = Instant::now();
    let (other, _memory, settings) = offering("x");
    let s = hub.replace("s", settings.max_in_flight(1)).unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error.source, CallFailure::Removed), "{error}");
    assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, true));
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(server.counters().handshakes, 0);
    // The same for one that waits for its turn.
    let _busy = held(&other, &s).await;
    let waiting = tokio::spawn(s.call_tool("bump", json!({})).into_future());
    while s.status().held == 0 {
        tokio::task::yield_now().await;
    }
    hub.remove("s").unwrap();
    assert!(matches!(waiting.await.unwrap().unwrap_err().source, CallFailure::Removed));
}

#[tokio::test(start_paused = true)]
async fn a_removed_server_is_given_its_longest_timeout_and_no_more() {
    let (server, _memory, settings) = memory();
    let (hub, s) = hub(settings.timeout(20 * SECOND).max_timeout(30 * SECOND));
    let under_way = s.call_tool("hold", json!({})).deadline(PATIENCE);
    let under_way = tokio::spawn(under_way.into_future());
    server.wait_for(|c| c.calls == 1).await;
    let started = Instant::now();
    hub.remove("s").unwrap();
    let error = under_way.await.unwrap().unwrap_err();
    assert_eq!((error.outcome, started.elapsed()), (Outcome::Unknown, 30 * SECOND));
    server.wait_for(|c| c.connections_open == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_disabled_successor_offers_nothing() {
    let (_server, _memory, settings) = offering("old");
    let (hub, _s) = hub(settings);
    until_offered(&hub, "s", "old").await;
    let (_other, _memory, settings) = offering("new");
    let new = hub.replace("s", settings.disabled()).unwrap();
    assert!(hub.catalog().server("s").is_none());
    new.enable();
    until_offered(&hub, "s", "new").await;
    // A name that nobody had.
    let (_third, _memory, settings) = offering("third");
    hub.replace("t", settings).unwrap();
    until_offered(&hub, "t", "third").await;
    assert_eq!(names(&hub), ["s", "t"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_successor_refuses_to_list_is_not_taken_from_the_old_server() {
    let (_server, _memory, settings) = offering("old");
    let (hub, _s) = hub(settings);
    until_offered(&hub, "s", "old").await;
    let (other, _memory, settings) = memory();
    other.set_instructions("new");
    other.inject(Fault::Status(500, "not today".into())).on("tools/list").forever();
    hub.replace("s", settings).unwrap();
    let mut catalog = hub.watch_catalog();
    let is_new = |entry: &Arc<ServerCatalog>| entry.instructions.as_deref() == Some("new");
    catalog.wait_for(|catalog| catalog.server("s").is_some_and(is_new)).await.unwrap();
    assert!(hub.catalog().server("s").unwrap().tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_servers_on_their_way_out_and_starts_no_others() {
    let (server, _memory, settings) = memory();
    let (hub, s) = hub(settings);
    let under_way = held(&server, &s).await;
    hub.remove("s").unwrap();
    let report = hub.shutdown(5 * SECOND).await;
    assert_eq!((report.interrupted_calls, report.unfinished_tasks), (1, 0));
    assert_eq!(under_way.await.unwrap().unwrap_err().outcome, Outcome::Unknown);
    server.wait_for(|c| c.connections_open == 0).await;
    let (late, _memory, settings) = memory();
    for handle in [hub.add("t", settings.clone()).unwrap(), hub.replace("t", settings).unwrap()] {
        let error = handle.call_tool("bump", json!({})).await.unwrap_err();
        assert!(matches!(error.source, CallFailure::ShuttingDown), "{error}");
    }
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(late.counters().connections_open, 0);
    assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_thousand_replacements_is_left() {
    let (server, _memory, settings) = memory();
    let (hub, s) = hub(settings.clone());
    connected(&s).await;
    for n in 0..1000 {
        let handle = hub.replace("s", settings.clone()).unwrap();
        if n % 10 == 0 {
            handle.call_tool("bump", json!({})).await.unwrap();
        }
    }
    hub.server("s").unwrap().call_tool("bump", json!({})).await.unwrap();
    server.wait_for(|c| c.connections_open == 1).await;
    assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
    server.wait_for(|c| c.connections_open == 0).await;
}
