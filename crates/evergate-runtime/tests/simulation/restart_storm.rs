//! A server that crashes again and again under load.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::*;

const CALLERS: usize = 16;
const CRASHES: u64 = 40;

/// Nothing runs twice, every call has an outcome, and the first quiet moment is enough to recover.
#[test]
fn a_restart_storm_runs_nothing_twice() {
    for seed in 1..=3 {
        let mut sim = network(seed);
        let server = serve(&mut sim, "s");
        let ledger = Ledger::default();
        let calls = Rc::new(Cell::new(0));
        let storm = Rc::new(Cell::new(true));
        let (kept, made, raging) = (ledger.clone(), calls.clone(), storm.clone());
        sim.client(CLIENT, async move {
            let (hub, s) = hub_of_one("s", reach("s").timeout(20 * SECOND));
            let mut callers = JoinSet::new();
            for caller in 0..CALLERS {
                let (s, kept, made, raging) =
                    (s.clone(), kept.clone(), made.clone(), raging.clone());
                callers.spawn_local(async move {
                    while raging.get() {
                        let call_id = format!("{caller}-{}", made.get());
                        made.set(made.get() + 1);
                        let ms = (made.get() * 7) % 90;
                        let arguments = json!({ "call_id": call_id, "ms": ms });
                        kept.note(&call_id, &s.call_tool("slow", arguments).await);
                    }
                });
            }
            callers.join_all().await;
            connected(&s).await;
            let result = s.call_tool("bump", json!({ "call_id": "last" })).await;
            kept.note("last", &result);
            result.unwrap();
            made.set(made.get() + 1);
            let report = hub.shutdown(5 * SECOND).await;
            assert_eq!((report.interrupted_calls, report.unfinished_tasks), (0, 0));
            Ok(())
        });
        let mut chance = fastrand::Rng::with_seed(seed);
        for _ in 0..CRASHES {
            step_for(&mut sim, Duration::from_millis(chance.u64(50..3_000)));
            sim.crash("s");
            step_for(&mut sim, Duration::from_millis(chance.u64(0..1_500)));
            sim.bounce("s");
        }
        storm.set(false);
        run(&mut sim, seed);
        let tally = ledger.settle(&server, calls.get());
        assert!(tally.answered > 500 && tally.unknown > 20, "seed {seed}: {tally:?}");
        // A lost session may be renewed more often than the server crashed, but not in a hot loop.
        let handshakes = server.counters().handshakes;
        assert!(handshakes <= 2 * CRASHES, "seed {seed}: {handshakes} handshakes");
    }
}

/// The same while a caller waits through all of it: its call is not sent until there is somebody to send it to.
#[test]
fn a_patient_caller_outlives_an_outage() {
    let mut sim = network(3);
    let server = serve(&mut sim, "s");
    sim.crash("s");
    sim.client(CLIENT, async move {
        let (_hub, s) = hub_of_one("s", reach("s"));
        let call = s.call_tool("bump", json!({ "call_id": "patient" })).deadline(PATIENCE);
        call.await.unwrap();
        sleep(SECOND).await;
        Ok(())
    });
    step_for(&mut sim, 31 * SECOND);
    sim.bounce("s");
    run(&mut sim, 3);
    assert_eq!(server.executions("patient"), 1);
}
