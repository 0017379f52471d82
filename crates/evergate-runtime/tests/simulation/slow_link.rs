//! A link that works, and takes its time.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::*;

/// Two seconds each way: nothing times out, nothing is sent twice, nothing reconnects.
#[test]
fn a_slow_link_works() {
    let mut sim = network(1);
    let server = serve(&mut sim, "s");
    let delay = 2 * SECOND;
    sim.client(CLIENT, async move {
        let (_hub, s) = hub_of_one("s", reach("s"));
        connected(&s).await;
        let started = Instant::now();
        let result = s.call_tool("echo", json!({ "text": "far", "call_id": "a" })).await.unwrap();
        assert_eq!(text(&result), "far");
        assert!(started.elapsed() >= 2 * delay, "the link was not slow");
        let mut calls = JoinSet::new();
        for n in 0..16 {
            calls.spawn(s.call_tool("bump", json!({ "call_id": format!("n{n}") })).into_future());
        }
        while let Some(answered) = calls.join_next().await {
            answered.unwrap().unwrap();
        }
        assert_eq!(s.status().reconnects, 0);
        Ok(())
    });
    sim.set_link_latency(CLIENT, "s", delay);
    run(&mut sim, 1);
    let counters = server.counters();
    assert_eq!(counters.handshakes, 1);
    assert!(counters.executions.values().all(|&times| times == 1));
}

/// A large answer in many segments of very different ages.
#[test]
fn a_large_answer_crosses_an_uneven_link() {
    for seed in 1..=3 {
        let mut sim = network(seed);
        let _server = serve(&mut sim, "s");
        sim.client(CLIENT, async move {
            let (_hub, s) = hub_of_one("s", reach("s"));
            let result = s.call_tool("big", json!({ "bytes": 1_000_000 })).await.unwrap();
            assert_eq!(text(&result).len(), 1_000_000);
            Ok(())
        });
        sim.set_link_max_message_latency(CLIENT, "s", Duration::from_millis(500));
        run(&mut sim, seed);
    }
}
