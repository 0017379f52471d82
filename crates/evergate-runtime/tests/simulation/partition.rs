//! A link that goes away under calls and comes back.

use evergate_runtime::{CallFailure, Outcome};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// A stalled link delays calls and costs nothing else.
#[test]
fn a_stalled_link_loses_no_call() {
    for seed in 1..=4 {
        let mut sim = network(seed);
        let server = serve(&mut sim, "s");
        let ledger = Ledger::default();
        let kept = ledger.clone();
        sim.client(CLIENT, async move {
            let (_hub, s) = hub_of_one("s", reach("s"));
            connected(&s).await;
            let mut calls = JoinSet::new();
            for n in 0..32 {
                let (s, ledger) = (s.clone(), kept.clone());
                calls.spawn_local(async move {
                    let call_id = format!("call-{n}");
                    sleep(n * SECOND / 64).await;
                    let arguments = json!({ "call_id": call_id, "ms": 100 });
                    ledger.note(&call_id, &s.call_tool("slow", arguments).await);
                });
            }
            sleep(SECOND / 4).await;
            turmoil::hold(CLIENT, "s");
            sleep(20 * SECOND).await;
            turmoil::release(CLIENT, "s");
            calls.join_all().await;
            assert_eq!(s.status().reconnects, 0, "a delay is no reason to reconnect");
            Ok(())
        });
        run(&mut sim, seed);
        let tally = ledger.settle(&server, 32);
        assert_eq!(tally.answered, 32, "seed {seed}");
    }
}

/// What was under way ends as unknown or answered, what comes later waits and is answered after the repair.
#[test]
fn a_partition_runs_nothing_twice_and_held_calls_are_answered() {
    for seed in 1..=4 {
        let mut sim = network(seed);
        let server = serve(&mut sim, "s");
        let ledger = Ledger::default();
        let kept = ledger.clone();
        sim.client(CLIENT, async move {
            let (_hub, s) = hub_of_one("s", reach("s").timeout(10 * SECOND));
            connected(&s).await;
            let mut calls = JoinSet::new();
            for n in 0..32 {
                let (s, ledger) = (s.clone(), kept.clone());
                calls.spawn_local(async move {
                    let call_id = format!("early-{n}");
                    sleep(n * SECOND / 100).await;
                    let arguments = json!({ "call_id": call_id, "ms": 20 });
                    ledger.note(&call_id, &s.call_tool("slow", arguments).await);
                });
            }
            sleep(SECOND / 5).await;
            turmoil::partition(CLIENT, "s");
            calls.join_all().await;
            let reached = s.wait_until(PATIENCE, |status| status.next_retry_at.is_some()).await;
            assert!(reached.is_ok(), "never noticed: {:?}", s.status());
            let mut held = JoinSet::new();
            for n in 0..32 {
                let (s, ledger) = (s.clone(), kept.clone());
                held.spawn_local(async move {
                    let call_id = format!("held-{n}");
                    let call = s.call_tool("bump", json!({ "call_id": call_id }));
                    ledger.note(&call_id, &call.deadline(60 * SECOND).await);
                });
            }
            sleep(12 * SECOND).await;
            assert_eq!(s.status().held, 32);
            turmoil::repair(CLIENT, "s");
            held.join_all().await;
            Ok(())
        });
        run(&mut sim, seed);
        let tally = ledger.settle(&server, 64);
        assert!(tally.answered >= 32 && tally.unknown > 0, "seed {seed}: {tally:?}");
        for n in 0..32 {
            assert_eq!(server.executions(&format!("held-{n}")), 1, "seed {seed}: held call {n}");
        }
    }
}

/// A partition that outlasts a call's own time: the call says in time that it was not sent.
#[test]
fn a_call_does_not_outlast_its_deadline() {
    let mut sim = network(1);
    let server = serve(&mut sim, "s");
    sim.client(CLIENT, async move {
        turmoil::partition(CLIENT, "s");
        let (_hub, s) = hub_of_one("s", reach("s"));
        let started = Instant::now();
        let error = s.call_tool("bump", json!({})).deadline(5 * SECOND).await.unwrap_err();
        assert_eq!((error.outcome, error.retryable), (Outcome::NotSent, true));
        assert!(matches!(error.source, CallFailure::NotConnected { .. }), "{error:?}");
        assert!(started.elapsed() < 6 * SECOND);
        turmoil::repair(CLIENT, "s");
        s.call_tool("bump", json!({})).await.unwrap();
        Ok(())
    });
    run(&mut sim, 1);
    assert_eq!(server.counters().calls, 1);
}
