//! Calls that wait for their callers' answers: in one round or several, all at once or bit by bit.

use std::collections::HashSet;
use std::time::Duration;

use evergate_testkit::Eras;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::kit::{servers, status};
use crate::parked_call::{ParkedCall, Scene, answer};
use crate::stateless_client::{CLIENT_INFO, Stateless, key, keys};
use crate::support::{gateway, until};
use crate::upstream::{EVERYWHERE, Over, Upstream, connected};

const MULTIPLE: &str = "up__test_input_required_result_multiple_inputs";
const MULTI_ROUND: &str = "up__test_input_required_result_multi_round";

const BOTH: [Eras; 2] = [Eras::Legacy, Eras::Modern];

/// An answer to each question of a result.
fn answers_to(asked: &Value) -> Value {
    let mut answers = json!({});
    for (key, question) in asked["inputRequests"].as_object().unwrap() {
        answers[key] = match question["method"].as_str().unwrap() {
            "elicitation/create" => {
                json!({ "action": "accept", "content": { "name": "Ada", "color": "red" } })
            }
            "roots/list" => json!({ "roots": [{ "uri": "file:///r" }] }),
            _ => {
                let said = json!({ "type": "text", "text": "hello" });
                json!({ "role": "assistant", "content": said, "model": "m" })
            }
        };
    }
    answers
}

#[tokio::test]
async fn three_questions_at_once() {
    for (eras, over) in BOTH.into_iter().flat_map(|eras| EVERYWHERE.map(|over| (eras, over))) {
        let up = Upstream::with_fixtures(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let call = client.call(MULTIPLE, json!({}));
        let asked = call.send().await.questions();
        let requests = asked["inputRequests"].as_object().unwrap();
        let methods: HashSet<_> =
            requests.values().map(|question| question["method"].as_str().unwrap()).collect();
        assert_eq!(methods.len(), 3, "{eras:?} {over:?}: {asked}");
        for question in requests.values() {
            assert_eq!((question.get("id"), question.get("jsonrpc")), (None, None));
        }
        let said = call.answering(&asked, answers_to(&asked)).send().await.text();
        for part in ["Ada", "hello", "file:///r"] {
            assert!(said.contains(part), "{said}");
        }
    }
}

#[tokio::test]
async fn what_was_not_answered_is_asked_again_and_what_was_is_not() {
    for over in EVERYWHERE {
        let up = Upstream::with_fixtures(Eras::Legacy, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let call = client.call(MULTIPLE, json!({}));
        let mut asked = call.send().await.questions();
        let all = answers_to(&asked);
        let mut open = keys(&asked);
        while open.len() > 1 {
            let now = open.pop().unwrap();
            asked =
                call.answering(&asked, json!({ now.clone(): all[&now] })).send().await.questions();
            assert_eq!(keys(&asked), open, "{now} was answered");
        }
        call.answering(&asked, all).send().await.complete();
        assert_eq!(up.server.counters().calls, 1);
    }
}

#[tokio::test]
async fn a_round_without_a_right_answer_is_asked_again() {
    let scene = Scene::new().await;
    let Scene { client, parked: ParkedCall { call, mut asked }, up, .. } = scene;
    let named = key(&asked);
    let mut states = HashSet::from([asked["requestState"].to_string()]);
    for answers in [
        json!({}),
        json!(null),
        json!([]),
        json!("yes"),
        json!({ "wrong_key": answer() }),
        json!({ named.clone(): 12345 }),
        json!({ named.clone(): [] }),
        json!({ named.clone(): null }),
    ] {
        let again = call.answering(&asked, answers).send().await.questions();
        assert_eq!(again["inputRequests"], asked["inputRequests"]);
        assert!(states.insert(again["requestState"].to_string()), "each note is good once");
        asked = again;
    }
    // Nothing at all is no answer either.
    let mut silent = call.answering(&asked, json!({}));
    silent.body["params"].as_object_mut().unwrap().remove("inputResponses");
    asked = silent.send().await.questions();
    call.answering(&asked, json!({ named: answer(), "more": 1 })).send().await.complete();
    assert_eq!(up.server.executions("parked"), 1);
    assert_eq!(client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
}

#[tokio::test]
async fn answers_in_several_rounds() {
    for (eras, over) in BOTH.into_iter().flat_map(|eras| EVERYWHERE.map(|over| (eras, over))) {
        let up = Upstream::with_fixtures(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let call = client.call(MULTI_ROUND, json!({}));
        let first = call.send().await.questions();
        let second = call.answering(&first, answers_to(&first)).send().await.questions();
        assert_ne!(first["requestState"], second["requestState"]);
        let done = call.answering(&second, answers_to(&second)).send().await;
        assert_eq!(done.text(), "Hello, Ada! You like \"red\".", "{eras:?} {over:?}");
    }
}

#[tokio::test]
async fn a_prompt_asks_too() {
    for eras in BOTH {
        let up = Upstream::with_fixtures(eras, Over::Http).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let get =
            client.draft("prompts/get", json!({ "name": "up__test_input_required_result_prompt" }));
        let asked = get.send().await.questions();
        let done = get.answering(&asked, answers_to(&asked)).send().await.complete();
        assert!(done["messages"].is_array(), "{done}");
    }
}

#[tokio::test]
async fn a_client_that_declines_has_answered() {
    let scene = Scene::new().await;
    for action in ["decline", "cancel"] {
        let parked = ParkedCall::of(&scene.client, action).await;
        let said = json!({ "action": action });
        let answers = json!({ key(&parked.asked): said });
        let told = parked.call.answering(&parked.asked, answers).send().await.text();
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["result"], said);
    }
    scene.must_be_unharmed().await;
}

#[tokio::test]
async fn nobody_is_asked_what_it_did_not_say_it_can_do() {
    for (eras, over) in BOTH.into_iter().flat_map(|eras| EVERYWHERE.map(|over| (eras, over))) {
        let up = Upstream::with_fixtures(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway).able(json!({ "elicitation": {} }));
        let refused = client.call("up__test_missing_capability", json!({})).send().await;
        let error = refused.error(400, -32021);
        let required = json!({ "requiredCapabilities": { "sampling": {} } });
        assert_eq!(error["data"], required, "{eras:?} {over:?}");
        // What it can do it says with each request, and nobody remembers it.
        let able = client.clone().able(json!({ "sampling": {} }));
        let call = able.call("up__test_missing_capability", json!({}));
        let asked = call.send().await.questions();
        call.answering(&asked, answers_to(&asked)).send().await.complete();
        client.call("up__test_missing_capability", json!({})).send().await.error(400, -32021);
        let call = client.call("up__test_input_required_result_elicitation", json!({}));
        call.send().await.questions();
    }
}

#[tokio::test]
async fn a_client_that_can_no_more_what_it_could_is_not_asked_again() {
    let up = Upstream::with_fixtures(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    let call = client.call(MULTI_ROUND, json!({}));
    let first = call.send().await.questions();
    let mut next = call.answering(&first, answers_to(&first));
    next.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let error = next.send().await.error(400, -32021);
    assert_eq!(error["data"]["requiredCapabilities"], json!({ "elicitation": {} }));
}

/// So many calls at once, each with a question of its own.
async fn many_at_once(eras: Eras, many: usize) {
    let up = Upstream::start(eras, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    let calls = (0..many).map(|number| {
        let client = client.clone();
        async move {
            let call = client.call("up__elicit", json!({ "call_id": format!("n{number}") }));
            (number, call.send().await.questions(), call)
        }
    });
    // All of them wait before the first is answered.
    let asked = join_all(calls).await;
    let answered = asked.into_iter().map(|(number, asked, call)| async move {
        let own = json!({ "action": "accept", "content": { "name": format!("{number}") } });
        let answers = json!({ key(&asked): own });
        let told = call.answering(&asked, answers).send().await.text();
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["result"], own);
    });
    join_all(answered).await;
    for number in (0..many).filter(|_| eras == Eras::Legacy) {
        assert_eq!(up.server.executions(&format!("n{number}")), 1);
    }
    until("nothing is left", async || status(&gateway, "up").await["in_flight"] == 0).await;
}

#[tokio::test]
async fn a_hundred_calls_at_once_each_with_a_question() {
    many_at_once(Eras::Modern, 100).await;
}

#[tokio::test]
async fn as_many_calls_at_once_as_may_wait_at_one_server() {
    many_at_once(Eras::Legacy, 48).await;
}

#[tokio::test]
async fn of_more_calls_than_may_wait_those_that_wait_longest_are_given_up() {
    let Scene { up, gateway, client, parked } = Scene::new().await;
    let mut later = Vec::new();
    for number in 0..48 {
        later.push(ParkedCall::of(&client, &format!("later {number}")).await);
    }
    until("the server is told", async || up.cancelled() == 1).await;
    let error = parked.finish().await.error(200, -32602);
    assert_eq!(error["data"]["reason"], "invalid_request_state");
    for call in [&later[47], &later[0]] {
        call.finish().await.complete();
    }
    assert_eq!(up.server.executions("parked"), 1);
    drop(gateway);
}

#[tokio::test]
async fn many_questions_of_one_caller_in_one_pipe_are_all_answered() {
    const KEY: &str = "key-of-alice-0123456789";
    let up = Upstream::start(Eras::Legacy, Over::Stdio).await;
    let mut config = servers(json!({ "up": up.entry() }));
    config["gateway"] = json!({ "auth": { "keys": [{ "name": "alice", "key": KEY }] } });
    let gateway = gateway(&config).start();
    let client = Stateless::of(&gateway).with_key(KEY);
    // All of one caller: whichever call a question comes with, its answer reaches the server that asked.
    let calls = (0..20).map(|number| {
        let client = client.clone();
        async move {
            let call = client.call("up__elicit", json!({ "call_id": format!("n{number}") }));
            let mut replied = call.send().await;
            while replied.message["result"]["resultType"] == "input_required" {
                let asked = replied.questions();
                let answers: serde_json::Map<_, _> =
                    keys(&asked).into_iter().map(|key| (key, answer())).collect();
                replied = call.answering(&asked, answers.into()).send().await;
            }
            let told: Value = serde_json::from_str(&replied.text()).unwrap();
            assert_eq!(told["result"], answer());
        }
    });
    join_all(calls).await;
    for number in 0..20 {
        assert_eq!(up.server.executions(&format!("n{number}")), 1);
    }
}

#[tokio::test]
async fn two_gateways_in_a_row_pass_each_others_notes_on() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let inner = up.gateway().await;
    let outer = gateway(&servers(json!({ "in": { "url": inner.at("/mcp") } }))).start();
    connected(&outer, "in").await;
    let call = Stateless::of(&outer).call("in__up__elicit", json!({ "call_id": "chain" }));
    let asked = call.send().await.questions();
    let replied = call.answering(&asked, json!({ key(&asked): answer() })).send().await;
    let told: Value = serde_json::from_str(&replied.text()).unwrap();
    assert_eq!(told["result"], answer());
    assert_eq!(up.server.executions("chain"), 1);
}

#[tokio::test]
async fn two_programs_without_a_key_are_not_asked_each_others_questions() {
    let scene = Scene::over(Over::Stdio).await;
    let mut call = scene.client.call("up__sample", json!({}));
    call.body["params"]["_meta"][CLIENT_INFO] = json!({ "name": "another", "version": "1" });
    let heard: Value = serde_json::from_str(&call.send().await.text()).unwrap();
    assert!(heard["error"]["message"].as_str().unwrap().contains("per_client"), "{heard}");
    scene.must_be_unharmed().await;
}

#[tokio::test]
async fn two_callers_in_one_pipe_cannot_be_told_apart_and_the_server_is_told() {
    let scene = Scene::over(Over::Stdio).await;
    let session = scene.gateway.connect().await;
    let heard = session.call_text("up__sample", json!({})).await;
    let heard: Value = serde_json::from_str(&heard).unwrap();
    assert!(heard["error"]["message"].as_str().unwrap().contains("per_client"), "{heard}");
    scene.must_be_unharmed().await;
}

#[tokio::test]
async fn a_person_may_take_longer_to_answer_than_a_call_may_take() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Legacy, over).await;
        let entry = up.entry_with(json!({ "timeout": "1s" }));
        let gateway = gateway(&servers(json!({ "up": entry }))).start();
        connected(&gateway, "up").await;
        let client = Stateless::of(&gateway);
        let parked = ParkedCall::of(&client, "slow person").await;
        // The time of the call has to pass for this to mean anything.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        parked.finish().await.complete();
        assert_eq!(up.server.executions("slow person"), 1);
    }
}

#[tokio::test]
async fn each_round_says_anew_how_it_wants_to_hear_of_progress() {
    for (eras, over) in BOTH.into_iter().flat_map(|eras| EVERYWHERE.map(|over| (eras, over))) {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        for (second, heard) in [(Some("b"), vec!["b", "b"]), (None, vec![])] {
            let call = client.call("up__elicit", json!({ "then": "progress" }));
            let call = call.meta("progressToken", json!("a"));
            let asked = call.send().await.questions();
            let mut retry = call.answering(&asked, json!({ key(&asked): answer() }));
            retry = match second {
                Some(token) => retry.meta("progressToken", json!(token)),
                None => retry.without_meta("progressToken"),
            };
            let done = retry.send().await;
            done.complete();
            let tokens: Vec<_> =
                done.notes.iter().map(|note| note["params"]["progressToken"].clone()).collect();
            assert_eq!(tokens, heard, "{eras:?} {over:?}");
        }
    }
}
