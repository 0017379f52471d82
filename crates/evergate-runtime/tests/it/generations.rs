//! What an old connection still has to say changes nothing about the new one.

use std::time::Duration;

use evergate_runtime::{Hub, HubEvent, Outcome, StateKind};
use evergate_testkit::{Fault, HttpServer, MemoryServer, Server, SessionLoss};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::*;

#[tokio::test]
async fn a_late_failure_of_the_old_generation_does_not_touch_the_new_one() {
    let server = Server::new();
    server.set_listening_stream(false);
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(evergate_runtime::Settings::http(http.url()).failure_threshold(1));
    connected(&s).await;
    server.inject(Fault::HangBeforeHeaders).on_tool("slow");
    let late = tokio::spawn({
        let s = s.clone();
        async move { s.call_tool("slow", json!({ "ms": 0 })).deadline(SECOND).await }
    });
    server.wait_for(|c| c.faults == 1).await;
    server.expire_sessions(SessionLoss::NotFound404);
    s.call_tool("bump", json!({})).await.unwrap();
    assert_eq!(s.status().generation.unwrap().get(), 2);
    let error = late.await.unwrap().unwrap_err();
    assert_eq!((error.outcome, error.generation.unwrap().get()), (Outcome::Unknown, 1));
    // A threshold of one, and the late failure still counted for nothing.
    s.call_tool("bump", json!({})).await.unwrap();
    let status = s.status();
    assert_eq!((status.generation.unwrap().get(), status.rpc_failures), (2, 0));
    assert!(status.stale_events >= 1, "dropped in one place, and counted");
    assert_eq!(server.counters().handshakes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_listing_of_the_old_generation_is_not_published() {
    let server = Server::new();
    let memory = MemoryServer::new(server.clone());
    let settings = steady(evergate_runtime::Settings::memory(connector(&memory)));
    let (hub, s) = hub(settings);
    connected(&s).await;
    hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
    server.inject(Fault::DelayAnswer(Duration::from_millis(300))).on("tools/list");
    s.refresh();
    server.wait_for(|c| c.faults == 1).await;
    // While the old listing is on its way, the server comes back with other tools.
    server.set_tools(vec![json!({ "name": "new", "inputSchema": { "type": "object" } })]);
    s.restart();
    beyond(&s, 1).await;
    let catalog =
        hub.watch_catalog().wait_for(|catalog| catalog.version == 2).await.unwrap().clone();
    let entry = catalog.server("s").unwrap();
    assert_eq!((entry.generation.unwrap().get(), entry.tools.len()), (2, 1));
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(hub.catalog().version, 2);
}

#[tokio::test]
async fn a_restart_in_the_middle_of_64_calls_runs_none_twice() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(fast(evergate_runtime::Settings::http(http.url())));
    connected(&s).await;
    let mut calls = JoinSet::new();
    for n in 0..64 {
        let s = s.clone();
        calls.spawn(async move {
            let id = format!("c{n}");
            (s.call_tool("slow", json!({ "ms": n % 7, "call_id": id })).await, id)
        });
    }
    server.wait_for(|c| c.calls >= 10).await;
    http.kill().await;
    http.revive().await;
    for (result, id) in calls.join_all().await {
        let executed = server.executions(&id);
        match result {
            Ok(_) => assert_eq!(executed, 1, "{id}"),
            Err(error) => {
                assert_eq!(error.outcome, Outcome::Unknown, "{}", error.chain());
                assert!(executed <= 1, "{id}");
            }
        }
    }
    s.call_tool("bump", json!({})).await.unwrap();
}

#[tokio::test]
async fn every_transport_survives_a_server_that_goes_away_and_returns() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    for url in [http.url(), http.sse_url(), http.rpc_url()] {
        let (hub, s) = hub(fast(evergate_runtime::Settings::http(url.clone())));
        connected(&s).await;
        http.kill().await;
        let held = tokio::spawn({
            let s = s.clone();
            async move { s.call_tool("bump", json!({ "call_id": "held" })).await }
        });
        reach(&s, StateKind::Reconnecting).await;
        http.revive().await;
        let result = held.await.unwrap();
        // A pooled connection that dies in the very moment of sending leaves the outcome open; nothing else does.
        if let Err(error) = result {
            assert_eq!(error.outcome, Outcome::Unknown, "{url}: {}", error.chain());
        }
        s.call_tool("bump", json!({})).await.unwrap();
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_transition_is_an_event() {
    let (_server, memory, settings) = memory();
    let hub = Hub::builder().server("s", settings).start().unwrap();
    let mut events = hub.events();
    let s = hub.server("s").unwrap();
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    memory.revive();
    beyond(&s, 1).await;
    s.disable();
    reach(&s, StateKind::Disabled).await;
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let HubEvent::Transition(t) = event {
            seen.push(format!("{} -> {} by {} ({})", t.from, t.to, t.event, t.reason));
        }
    }
    insta::assert_snapshot!(seen.join("\n"), @r"
    disabled -> connecting by enable (requested)
    connecting -> connected by dial_succeeded (handshake_done)
    connected -> reconnecting by lost (transport_lost)
    reconnecting -> connected by dial_succeeded (handshake_done)
    connected -> disabling by disable (requested)
    disabling -> disabled by closed (requested)
    ");
}
