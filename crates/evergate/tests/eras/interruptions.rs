//! What becomes of calls, waiting or not, when somebody goes away in the middle: the server, the client, the gateway.

use std::time::{Duration, Instant};

use evergate_testkit::Eras;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::caller::everything_listed;
use crate::kit::{child_with, runs, servers, soon, status};
use crate::parked_call::{ParkedCall, Scene, answer};
use crate::stateless_client::{SUBSCRIPTION, Stateless, key};
use crate::support::{Http, gateway, until};
use crate::upstream::{EVERYWHERE, Over, Upstream};

#[tokio::test]
async fn a_server_that_dies_while_a_call_waits_leaves_an_outcome_to_be_told() {
    for over in EVERYWHERE {
        let Scene { up, gateway, client, parked } = Scene::over(over).await;
        up.crash(&gateway).await;
        let error = parked.finish().await.error(200, -31003);
        assert_eq!(error["data"]["outcome"], "unknown", "{over:?}: {error}");
        assert_eq!(error["data"]["server"], "up");
        assert_eq!(up.server.executions("parked"), 1, "nothing runs twice");
        // The note is spent with that, and a new call begins anew.
        assert_eq!(
            parked.finish().await.error(200, -32602)["data"]["reason"],
            "invalid_request_state"
        );
        let again = ParkedCall::of(&client, "again").await;
        again.finish().await.complete();
        assert_eq!(up.server.executions("again"), 1);
    }
}

#[tokio::test]
async fn a_process_that_is_killed_while_a_call_waits_leaves_an_outcome_to_be_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("runs");
    let entry = child_with(&["--state-file", state.to_str().unwrap()], json!({}));
    let gateway = gateway(&servers(json!({ "up": entry }))).start();
    let client = Stateless::of(&gateway);
    let pid: u32 = client.call_text("up__pid", json!({})).await.parse().unwrap();
    let parked = ParkedCall::of(&client, "parked").await;
    crate::kit::kill(pid);
    until("there is another", async || status(&gateway, "up").await["generation"] == 2).await;
    let error = parked.finish().await.error(200, -31003);
    assert_eq!(
        (&error["data"]["outcome"], &error["data"]["retryable"]),
        (&json!("unknown"), &json!(false))
    );
    assert_eq!(runs(&state, "parked"), 1);
}

#[tokio::test]
async fn a_server_that_dies_between_two_rounds_leaves_an_outcome_to_be_told() {
    let up = Upstream::with_fixtures(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    let call = client.call("up__test_input_required_result_multi_round", json!({}));
    let first = call.send().await.questions();
    let second = call.answering(&first, json!({ key(&first): answer() })).send().await.questions();
    up.crash(&gateway).await;
    let error = call.answering(&second, json!({ key(&second): answer() })).send().await;
    assert_eq!(error.error(200, -31003)["data"]["outcome"], "unknown");
    assert_eq!(up.server.counters().calls, 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_has_cancelled() {
    for (eras, over) in [Eras::Legacy, Eras::Modern]
        .into_iter()
        .flat_map(|eras| EVERYWHERE.map(|over| (eras, over)))
    {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        // Before anything was sent back, and after.
        let before = client.call("up__hold", json!({}));
        let hanging = tokio::spawn(async move { before.send().await });
        soon("it runs", up.server.wait_for(|now| now.calls == 1)).await;
        hanging.abort();
        until("the server is told", async || up.cancelled() == 1).await;
        let after = client
            .call("up__progress", json!({ "steps": 1000, "ms": 20 }))
            .meta("progressToken", json!("p"));
        let mut events = after.open().await;
        assert_eq!(events.message().await.unwrap()["method"], "notifications/progress");
        drop(events);
        until("the server is told", async || up.cancelled() == 2).await;
        until("nothing is left", async || status(&gateway, "up").await["in_flight"] == 0).await;
        assert_eq!(client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
        assert_eq!(status(&gateway, "up").await["generation"], 1, "{eras:?} {over:?}");
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_in_a_later_round_has_cancelled() {
    for (eras, over) in [Eras::Legacy, Eras::Modern]
        .into_iter()
        .flat_map(|eras| EVERYWHERE.map(|over| (eras, over)))
    {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let call = client.call("up__elicit", json!({ "then": "hold" }));
        let asked = call.send().await.questions();
        let retry = call.answering(&asked, json!({ key(&asked): answer() }));
        let mut events = retry.open().await;
        assert_eq!(events.headers["content-type"], "text/event-stream", "it takes its time");
        assert!(events.bytes().await.is_some(), "a sign of life");
        drop(events);
        until("the server is told", async || up.cancelled() == 1).await;
        until("nothing is left", async || status(&gateway, "up").await["in_flight"] == 0).await;
        assert_eq!(client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
    }
}

#[tokio::test]
async fn the_gateway_ends_in_time_with_calls_that_wait_and_clients_that_listen() {
    for over in EVERYWHERE {
        let Scene { up, mut gateway, client, parked } = Scene::over(over).await;
        let (mut events, _) = client.listen(everything_listed()).await;
        let began = Instant::now();
        gateway.signal(Signal::TERM);
        let last = loop {
            let message = events.message().await.expect("a result");
            if message.get("result").is_some() {
                break message;
            }
        };
        assert_eq!(last["result"]["resultType"], "complete");
        assert_eq!(last["result"]["_meta"][SUBSCRIPTION], last["id"]);
        assert!(events.message().await.is_none(), "it is the last");
        assert!(gateway.ended().await.success());
        assert!(began.elapsed() < Duration::from_secs(5), "{over:?}: {:?}", began.elapsed());
        assert_eq!(up.server.executions("parked"), 1);
        drop(parked);
    }
}

#[tokio::test]
async fn a_gateway_that_drains_answers_what_is_under_way_and_refuses_the_rest() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let mut gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    let call = client.call("up__hold", json!({}));
    let held = tokio::spawn(async move { call.send().await });
    soon("it runs", up.server.wait_for(|now| now.calls == 1)).await;
    gateway.signal(Signal::TERM);
    let ready = Http::new(&gateway.at("/readyz"));
    until("it drains", async || ready.get(&[]).await.status == 503).await;
    client.request("tools/list", json!({})).await.error(503, -31001);
    up.server.release_held();
    assert_eq!(held.await.unwrap().text(), "released");
    assert!(gateway.ended().await.success());
}

#[tokio::test]
async fn a_server_may_come_back_as_another_revision_between_calls() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Legacy, over).await;
        let gateway = up.gateway().await;
        let (client, session) = (Stateless::of(&gateway), gateway.connect().await);
        for (number, eras) in [Eras::Modern, Eras::Legacy, Eras::Modern].into_iter().enumerate() {
            up.server.set_eras(eras);
            up.crash(&gateway).await;
            let version = if eras == Eras::Modern { "2026-07-28" } else { "2025-11-25" };
            until("it is found out", async || {
                // Whichever comes first finds out.
                client.call("up__echo", json!({ "text": "hi" })).send().await;
                status(&gateway, "up").await["protocol"] == version
            })
            .await;
            let id = format!("{number}");
            let parked = ParkedCall::of(&client, &id).await;
            let told: Value = serde_json::from_str(&parked.finish().await.text()).unwrap();
            assert_eq!(told["result"], answer(), "{over:?} {eras:?}");
            assert_eq!(session.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
        }
    }
}

#[tokio::test]
async fn a_server_may_come_back_as_another_revision_between_rounds() {
    for over in EVERYWHERE {
        for (first, second) in [(Eras::Legacy, Eras::Modern), (Eras::Modern, Eras::Legacy)] {
            let up = Upstream::start(first, over).await;
            let gateway = up.gateway().await;
            let client = Stateless::of(&gateway);
            let parked = ParkedCall::of(&client, "between").await;
            up.server.set_eras(second);
            up.crash(&gateway).await;
            let version = if second == Eras::Modern { "2026-07-28" } else { "2025-11-25" };
            until("it is found out", async || {
                client.call("up__echo", json!({ "text": "hi" })).send().await;
                status(&gateway, "up").await["protocol"] == version
            })
            .await;
            let ran = up.server.executions("between");
            let replied = parked.finish().await;
            if first == Eras::Legacy {
                // It had begun, and nobody knows how far it came.
                let error = replied.error(200, -31003);
                assert_eq!(error["data"]["outcome"], "unknown");
            } else {
                // It had only asked, and nobody there understands its note now.
                let error = replied.error(200, -32602);
                assert_eq!(error["data"]["reason"], "invalid_request_state");
            }
            assert_eq!(up.server.executions("between"), ran, "nothing ran: {over:?} {first:?}");
            ParkedCall::of(&client, "after").await.finish().await.complete();
        }
    }
}

#[tokio::test]
async fn a_modern_server_that_restarts_between_rounds_still_gets_its_answer() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Modern, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let parked = ParkedCall::of(&client, "x").await;
        up.crash(&gateway).await;
        let told: Value = serde_json::from_str(&parked.finish().await.text()).unwrap();
        assert_eq!(told["result"], answer(), "{over:?}");
    }
}
