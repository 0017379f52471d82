//! Calls that come from other runtimes than the hub's own.

use evergate_runtime::{Hub, ServerHandle};
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
        call_often(&s, &elsewhere, &home);
        // From now on nothing happens there.
        elsewhere.block_on(call_soon_answered(&s));

        // A place from which calls came may be gone before the hub is.
        drop(elsewhere);
        home.block_on(async {
            beyond(&s, 1).await;
            call(&s).await;
            shut_down(hub).await;
        });
    });
}

#[test]
fn unless_somebody_says_so_they_stay_where_the_hub_is() {
    with_own_runtimes(|| {
        let (home, elsewhere) = (runtime(), runtime());
        let (hub, s) = home.block_on(async { hub(scripted::<&str>([])) });
        call_often(&s, &elsewhere, &home);
        // It is still there, and nothing happens on it.
        home.block_on(async {
            call_soon_answered(&s).await;
            shut_down(hub).await;
        });
        drop(elsewhere);
    });
}

/// Calls from `elsewhere` until that is where calls come from, while the hub is `home`.
fn call_often(s: &ServerHandle, elsewhere: &Runtime, home: &Runtime) {
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            elsewhere.block_on(async {
                for _ in 0..3_000 {
                    call(s).await;
                }
            });
        });
        // It is at home that these are noticed.
        home.block_on(until("they are answered", || calling.is_finished()));
        calling.join().unwrap();
    });
}

async fn call_soon_answered(s: &ServerHandle) {
    timeout(PATIENCE, call(s)).await.expect("nobody reads");
}

async fn call(s: &ServerHandle) {
    let answer = s.call_tool("echo", json!({ "text": "hello" })).await.unwrap();
    assert_eq!(text(&answer), "hello");
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
