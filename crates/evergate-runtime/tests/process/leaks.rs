//! What adds up when things happen often.

use std::time::Duration;

use evergate_runtime::StateKind;
use evergate_testkit::wait::until;
use serde_json::json;

use crate::proc::{children, open_files, runs};
use crate::support::*;

#[test]
fn two_hundred_restarts_leave_nothing_behind() {
    alone(async {
        let metrics = tokio::runtime::Handle::current().metrics();
        let (hub, s) = hub(scripted::<&str>([]));
        connected(&s).await;
        listed(&hub).await;
        let count = || (children().len(), open_files(), metrics.num_alive_tasks());
        let before = count();
        for generation in 1..=200 {
            s.restart();
            beyond(&s, generation).await;
        }
        s.call_tool("echo", json!({ "text": "" })).await.unwrap();
        let mut now = count();
        for _ in 0..2000 {
            if now == before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            now = count();
        }
        assert_eq!(now, before, "children, files, tasks");
        shut_down(hub).await;
        assert_eq!(children(), Vec::<u32>::new());
    });
}

#[test]
fn a_thousand_toggles_end_as_the_last_one_said() {
    alone(async {
        let mut random = fastrand::Rng::with_seed(7);
        for end_enabled in [true, false] {
            let (hub, s) = hub(scripted::<&str>([]));
            for _ in 0..1000 {
                if random.bool() {
                    s.enable();
                } else {
                    s.disable();
                }
                // At times the driver gets to see it, at times a child even gets to start.
                match random.u32(..100) {
                    0 => tokio::time::sleep(Duration::from_millis(random.u64(..20))).await,
                    1..30 => tokio::task::yield_now().await,
                    _ => {}
                }
            }
            if end_enabled {
                s.enable();
                // What it says first may be about a connection that an earlier toggle is about to end. A restart
                // is carried out after all toggles, and leads to a connection in any case.
                connected(&s).await;
                let before = s.status().generation.unwrap().get();
                s.restart();
                beyond(&s, before).await;
                until("only the last one is left", || {
                    let status = s.status();
                    // The child and its guardian, and nobody from before.
                    status.state == StateKind::Connected
                        && status.pid.is_some_and(runs)
                        && children().len() == 2
                })
                .await;
            } else {
                s.disable();
                until("it is off and nobody is left", || {
                    s.status().state == StateKind::Disabled && children().is_empty()
                })
                .await;
            }
            shut_down(hub).await;
            assert_eq!(children(), Vec::<u32>::new());
        }
    });
}
