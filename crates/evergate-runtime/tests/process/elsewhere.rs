//! Calls that come from other runtimes than the hub's own.

use evergate_runtime::Hub;
use evergate_testkit::wait::until;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::support::*;

#[test]
fn answers_are_read_where_calls_come_from() {
    with_own_runtimes(|| {
        let (home, elsewhere) = (runtime(), runtime());
        let (hub, s) = home.block_on(async {
            let settings = scripted::<&str>([]);
            let hub = Hub::builder().server("s", settings).answers_follow_calls().start().unwrap();
            let s = hub.server("s").unwrap();
            connected(&s).await;
            (hub, s)
        });
        let call = || async {
            let answer = s.call_tool("echo", json!({ "text": "hello" })).await.unwrap();
            assert_eq!(text(&answer), "hello");
        };
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| {
                elsewhere.block_on(async {
                    for _ in 0..3_000 {
                        call().await;
                    }
                });
            });
            // It is at home that these are noticed.
            home.block_on(until("they are answered", || calling.is_finished()));
            calling.join().unwrap();
        });
        // From now on nothing happens there.
        elsewhere.block_on(async { timeout(PATIENCE, call()).await.expect("nobody reads") });

        // A place from which calls came may be gone before the hub is.
        drop(elsewhere);
        home.block_on(async {
            beyond(&s, 1).await;
            call().await;
            shut_down(hub).await;
        });
    });
}

#[test]
fn unless_somebody_says_so_they_stay_where_the_hub_is() {
    with_own_runtimes(|| {
        let (home, elsewhere) = (runtime(), runtime());
        let (hub, s) = home.block_on(async { hub(scripted::<&str>([])) });
        let call = || async { s.call_tool("echo", json!({ "text": "hello" })).await.unwrap() };
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| {
                elsewhere.block_on(async {
                    for _ in 0..3_000 {
                        call().await;
                    }
                });
            });
            home.block_on(until("they are answered", || calling.is_finished()));
            calling.join().unwrap();
        });
        // It is still there, and nothing happens on it.
        home.block_on(async {
            timeout(PATIENCE, call()).await.expect("nobody reads");
            shut_down(hub).await;
        });
        drop(elsewhere);
    });
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
