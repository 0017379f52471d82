//! A peer that is gone without having said so.

use std::time::Duration;

use evergate_runtime::{CallFailure, Outcome, StateKind};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// Three of them pass before idle connections are too old to be used.
const TIMEOUT: Duration = SECOND;

/// Calls end by their own timeout as unknown, the third in a row condemns the connection, and after the repair the
/// next call finds a new one. Idle connections of the old generation are dead too and must not be tried one by one.
#[test]
fn silence_condemns_the_connection_and_recovery_is_quick() {
    for seed in 1..=4 {
        let mut sim = network(seed);
        let server = serve(&mut sim, "s");
        let ledger = Ledger::default();
        let kept = ledger.clone();
        sim.client(CLIENT, async move {
            let (_hub, s) = hub_of_one("s", reach("s").timeout(TIMEOUT).hold(TIMEOUT));
            connected(&s).await;
            // Leaves many idle TCP connections behind.
            let mut warm_up = JoinSet::new();
            for _ in 0..16 {
                let call = s.call_tool("slow", json!({ "ms": 500 })).into_future();
                warm_up.spawn(call);
            }
            while let Some(answered) = warm_up.join_next().await {
                answered.unwrap().unwrap();
            }
            let generation = s.status().generation;

            turmoil::partition(CLIENT, "s");
            for n in 0..3 {
                assert_eq!(s.status().state, StateKind::Connected);
                let started = Instant::now();
                let call_id = format!("silent-{n}");
                let result = s.call_tool("bump", json!({ "call_id": call_id })).await;
                kept.note(&call_id, &result);
                let error = result.unwrap_err();
                assert_eq!(error.outcome, Outcome::Unknown, "{error:?}");
                assert!(matches!(error.source, CallFailure::TimedOut { .. }), "{error:?}");
                assert!(started.elapsed() < TIMEOUT + SECOND);
            }
            let lost = s.wait_until(SECOND, |status| status.state != StateKind::Connected).await;
            assert!(lost.is_ok(), "three strikes: {:?}", s.status());

            // Long enough for several attempts to fail.
            sleep(20 * SECOND).await;
            turmoil::repair(CLIENT, "s");
            let repaired = Instant::now();
            connected(&s).await;
            assert!(repaired.elapsed() < 9 * SECOND, "took {:?}", repaired.elapsed());
            assert!(s.status().generation > generation);
            let result = s.call_tool("bump", json!({ "call_id": "after" })).await;
            kept.note("after", &result);
            result.unwrap();
            Ok(())
        });
        run(&mut sim, seed);
        let tally = ledger.settle(&server, 4);
        assert_eq!((tally.answered, tally.unknown), (1, 3), "seed {seed}");
    }
}

/// The server's host loses power: nobody says goodbye, and after the reboot it knows nothing of our connections.
#[test]
fn a_host_that_lost_power_is_found_again() {
    for seed in 1..=4 {
        let mut sim = network(seed);
        let server = serve(&mut sim, "s");
        let ledger = Ledger::default();
        let kept = ledger.clone();
        sim.client(CLIENT, async move {
            let (_hub, s) = hub_of_one("s", reach("s").timeout(TIMEOUT).hold(TIMEOUT));
            for n in 0..60 {
                let call_id = format!("call-{n}");
                let result = s.call_tool("bump", json!({ "call_id": call_id })).await;
                kept.note(&call_id, &result);
                sleep(SECOND).await;
            }
            s.call_tool("echo", json!({})).await.unwrap();
            Ok(())
        });
        // No FIN leaves the host: the link is down before it is.
        step_for(&mut sim, 10 * SECOND);
        sim.partition(CLIENT, "s");
        sim.crash("s");
        step_for(&mut sim, 15 * SECOND);
        sim.bounce("s");
        sim.repair(CLIENT, "s");
        run(&mut sim, seed);
        let tally = ledger.settle(&server, 60);
        assert!(tally.answered >= 40, "seed {seed}: {tally:?}");
    }
}
