//! Servers that are held back begin when they are let go, and not before.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};

use evergate_runtime::{
    CallFailure, Happening, Held, Hub, HubEvent, ServerHandle, Settings, StateKind,
};
use serde_json::json;

use crate::support::*;

/// A hub with one server called `s` that has not begun.
fn held(settings: Settings) -> (Hub, ServerHandle, Held) {
    let (hub, held) = Hub::builder().server("s", settings).seed(1).start_held().unwrap();
    let handle = hub.server("s").unwrap();
    (hub, handle, held)
}

/// Longer than a server in memory needs for anything: time is virtual and goes on when nothing else does.
async fn let_everything_happen() {
    tokio::time::sleep(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_dialled_before_they_are_let_go_and_calls_wait() {
    let (server, _memory, settings) = memory();
    let (hub, s, held) = held(settings.required());
    let mut events = hub.events();
    let call = tokio::spawn(s.call_tool("echo", json!({ "text": "hi" })).into_future());
    let_everything_happen().await;
    assert_eq!(server.counters().handshakes, 0);
    assert_eq!(s.status().state, StateKind::Connecting);
    assert!(events.is_empty() && !call.is_finished());
    assert_eq!(hub.ready(SECOND).await.unwrap_err().names, ["s"]);
    drop(held);
    assert_eq!(text(&call.await.unwrap().unwrap()), "hi");
    hub.ready(SECOND).await.unwrap();
    let HubEvent::Transition(first) = events.recv().await.unwrap() else { panic!("no transition") };
    assert_eq!((first.from, first.to), (StateKind::Disabled, StateKind::Connecting));
    assert_eq!(server.counters().handshakes, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_them_meanwhile_is_done_when_they_are_let_go() {
    let (server, _memory, settings) = memory();
    let (hub, s, held) = held(settings.clone());
    s.disable();
    let added = hub.add("t", settings.clone()).unwrap();
    connected(&added).await;
    drop(held);
    reach(&s, StateKind::Disabled).await;
    let_everything_happen().await;
    assert_eq!(server.counters().handshakes, 1, "only the one that was added");
    s.enable();
    connected(&s).await;
}

#[tokio::test(start_paused = true)]
async fn those_that_were_replaced_or_removed_meanwhile_never_begin() {
    let (server, _memory, settings) = memory();
    let (_, _memory, other) = memory();
    let (hub, old, held) = held(settings.clone());
    let new = hub.replace("s", other).unwrap();
    connected(&new).await;
    hub.remove("s").unwrap();
    drop(held);
    let_everything_happen().await;
    assert_eq!(server.counters().handshakes, 0);
    let error = old.call_tool("echo", json!({})).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::Removed), "{error:?}");
    assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_ends_while_they_are_held_leaves_nothing_behind() {
    for orderly in [true, false] {
        let (server, _memory, settings) = memory();
        let told: Arc<Mutex<Vec<Happening>>> = Arc::default();
        let telling = told.clone();
        let (hub, held) = Hub::builder()
            .server("s", settings)
            .witness(move |_| {
                let telling = telling.clone();
                move |what| telling.lock().unwrap().push(what)
            })
            .start_held()
            .unwrap();
        let s = hub.server("s").unwrap();
        let call = tokio::spawn(s.call_tool("echo", json!({})).into_future());
        let_everything_happen().await;
        if orderly {
            let report = hub.shutdown(SECOND).await;
            assert_eq!((report.interrupted_calls, report.unfinished_tasks), (0, 0));
        }
        drop(hub);
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error.source, CallFailure::ShuttingDown), "{error:?}");
        drop(held);
        reach(&s, StateKind::Disabled).await;
        let_everything_happen().await;
        assert_eq!(server.counters().handshakes, 0, "orderly={orderly}");
        let (began, ended) =
            (Happening::Began(StateKind::Disabled), Happening::Ended(StateKind::Disabled));
        assert_eq!(*told.lock().unwrap(), [began, ended]);
    }
}
