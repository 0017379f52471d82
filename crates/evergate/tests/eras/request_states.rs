//! Notes of waiting calls in the wrong hands, or at the wrong time.

use evergate_testkit::Eras;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::servers;
use crate::parked_call::{ParkedCall, Scene, answer};
use crate::stateless_client::{Draft, Stateless, key, keys};
use crate::support::gateway;
use crate::upstream::{Over, Upstream};

/// A retry that is refused because of its note.
async fn is_refused(draft: Draft) -> Value {
    let error = draft.send().await.error(200, -32602);
    assert_eq!(error["data"]["reason"], "invalid_request_state");
    error
}

#[tokio::test]
async fn a_forged_note_is_refused() {
    let scene = Scene::new().await;
    let (retry, state) = (scene.parked.retry(), scene.parked.state().to_owned());
    let mut forged = vec![
        json!(""),
        json!("made up"),
        json!(format!("{state}-TAMPERED")),
        json!(format!(" {state}")),
        json!(&state[1..]),
        json!(&state[..state.len() - 1]),
        json!(state.repeat(2)),
        json!("x".repeat(100_000)),
        json!(7),
        json!({}),
        json!([state]),
        json!(true),
    ];
    // Every part of it counts.
    for place in 0..state.len() {
        let mut other = state.clone().into_bytes();
        other[place] = if other[place] == b'A' { b'B' } else { b'A' };
        let other = String::from_utf8(other).unwrap();
        if place % 7 == 0 && other != state {
            forged.push(json!(other));
        }
    }
    for state in forged {
        is_refused(retry.clone().param("requestState", state)).await;
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn a_note_is_good_for_the_call_that_it_was_given_for_only() {
    let scene = Scene::new().await;
    let other = ParkedCall::of(&scene.client, "other").await;
    let state = json!(scene.parked.state());
    let retry = |name: &str, arguments: Value| {
        let draft = scene.client.call(name, arguments);
        let answers = json!({ key(&scene.parked.asked): answer() });
        draft.param("inputResponses", answers).param("requestState", state.clone())
    };
    for wrong in [
        other.retry().param("requestState", state.clone()),
        retry("up__elicit", json!({})),
        retry("up__elicit", json!({ "call_id": "parked", "more": 1 })),
        retry("up__sample", json!({ "call_id": "parked" })),
        retry("up__bump", json!({ "call_id": "parked" })),
        {
            let read = scene.client.draft("resources/read", json!({ "uri": "test://a" }));
            read.param("requestState", state.clone())
        },
        {
            let get = scene.client.draft("prompts/get", json!({ "name": "up__greet" }));
            get.param("requestState", state.clone())
        },
    ] {
        is_refused(wrong).await;
    }
    // Where nothing can be asked there is nothing to bring back.
    let list = scene.client.draft("tools/list", json!({})).param("requestState", state.clone());
    list.send().await.complete();
    other.finish().await.complete();
    assert_eq!(scene.up.server.executions("other"), 1);
    scene.is_unharmed().await;
}

#[tokio::test]
async fn arguments_may_come_back_in_another_order() {
    let scene = Scene::new().await;
    let call = scene.client.call("up__elicit", json!({}));
    let text = |arguments: &str, body: &Draft| {
        body.body.to_string().replace(r#""arguments":{}"#, &format!(r#""arguments":{arguments}"#))
    };
    let asked = call.send_text(&text(r#"{"a":1,"call_id":"x"}"#, &call)).await.json();
    let asked = &asked["result"];
    let retry = call.answering(asked, json!({ key(asked): answer() }));
    let answered = retry.send_text(&text(r#"{ "call_id":"x","a":1 }"#, &retry)).await.json();
    assert_eq!(answered["result"]["resultType"], "complete", "{answered}");
    assert_eq!(scene.up.server.executions("x"), 1);
    scene.is_unharmed().await;
}

#[tokio::test]
async fn a_note_is_good_once() {
    let scene = Scene::new().await;
    let other = ParkedCall::of(&scene.client, "other").await;
    other.finish().await.complete();
    let error = is_refused(other.retry()).await;
    assert!(error["message"].as_str().unwrap().contains("used before"), "{error}");
    assert_eq!(scene.up.server.executions("other"), 1);
    scene.is_unharmed().await;
}

#[tokio::test]
async fn of_two_that_come_back_at_once_one_is_answered() {
    let scene = Scene::new().await;
    for round in 0..10 {
        let id = format!("race {round}");
        let call = ParkedCall::of(&scene.client, &id).await;
        let (one, two) = tokio::join!(call.finish(), call.finish());
        let answered =
            [&one, &two].iter().filter(|reply| reply.message["result"].is_object()).count();
        assert_eq!(answered, 1, "{one:?} {two:?}");
        assert_eq!(scene.up.server.executions(&id), 1);
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn the_note_of_an_earlier_round_is_spent() {
    let up = Upstream::with_fixtures(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    let call = client.call("up__test_input_required_result_multi_round", json!({}));
    let first = call.send().await.questions();
    let named = call.answering(&first, json!({ key(&first): answer() }));
    let second = named.send().await.questions();
    assert_ne!(first["requestState"], second["requestState"]);
    assert_ne!(keys(&first), keys(&second));
    is_refused(named).await;
    let color = json!({ "action": "accept", "content": { "color": "red" } });
    let done = call.answering(&second, json!({ key(&second): color })).send().await;
    assert_eq!(done.text(), "Hello, Ada! You like \"red\".");
    assert_eq!(up.server.counters().calls, 1);
}

#[tokio::test]
async fn a_note_is_good_for_the_caller_it_was_given_to_only() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let mut config = servers(json!({ "up": up.entry() }));
    let key = |name: &str| json!({ "name": name, "key": format!("key-of-{name}-0123456789") });
    config["gateway"] = json!({ "auth": { "keys": [key("alice"), key("bob")] } });
    let gateway = gateway(&config).start();
    let of = |name: &str| Stateless::of(&gateway).with_key(&format!("key-of-{name}-0123456789"));
    let (alice, bob) = (of("alice"), of("bob"));
    let parked = ParkedCall::of(&alice, "hers").await;
    let theirs = bob.call("up__elicit", json!({ "call_id": "hers" }));
    let stolen =
        theirs.answering(&parked.asked, parked.retry().body["params"]["inputResponses"].clone());
    is_refused(stolen).await;
    // Without any key nobody gets that far.
    let nobody = Stateless::of(&gateway).call("up__elicit", json!({ "call_id": "hers" }));
    let refused = nobody.send_text(&parked.retry().body.to_string()).await;
    assert_eq!(refused.status, 401);
    parked.finish().await.complete();
    assert_eq!(up.server.executions("hers"), 1);
}

#[tokio::test]
async fn a_note_is_good_where_it_was_given_out_only() {
    let scene = Scene::new().await;
    let one = Stateless::of_server(&scene.gateway, "up");
    let parked = ParkedCall::of_tool(&one, "elicit", "one").await;
    let elsewhere = scene.client.call("up__elicit", json!({ "call_id": "one" }));
    is_refused(elsewhere.param("requestState", json!(parked.state()))).await;
    let elsewhere = one.call("elicit", json!({ "call_id": "parked" }));
    is_refused(elsewhere.param("requestState", json!(scene.parked.state()))).await;
    parked.finish().await.complete();
    scene.is_unharmed().await;
}

#[tokio::test]
async fn a_note_does_not_outlive_the_process() {
    let scene = Scene::new().await;
    let Scene { up, gateway, client, parked } = scene;
    // At once, when the server may not even be connected: it must not be called a second time.
    let _gateway = gateway.restart(Signal::KILL).await;
    is_refused(parked.retry()).await;
    assert_eq!(up.server.executions("parked"), 1);
    assert_eq!(client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
}

#[tokio::test]
async fn answers_without_a_note_are_taken_for_the_first_round() {
    let scene = Scene::new().await;
    let call = scene.client.call("up__elicit", json!({}));
    let named = key(&scene.parked.asked);
    for responses in [
        json!(null),
        json!(5),
        json!([]),
        json!({ "wrong_key": answer() }),
        json!({ named.clone(): 12345 }),
        json!({ named.clone(): null }),
    ] {
        for state in [None, Some(Value::Null)] {
            let mut draft = call.clone().param("inputResponses", responses.clone());
            if let Some(state) = state {
                draft = draft.param("requestState", state);
            }
            draft.send().await.questions();
        }
    }
    let known = json!({ named: answer(), "more": {}, "other": 1 });
    call.param("inputResponses", known).send().await.complete();
    scene.is_unharmed().await;
}
