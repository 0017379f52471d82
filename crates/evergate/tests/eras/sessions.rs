//! Clients with a session in front of servers without: what such a server asks by results becomes requests.

use evergate_testkit::Eras;
use serde_json::{Value, json};

use crate::kit::{delete, next_of, soon, status, text};
use crate::parked_call::answer;
use crate::stateless_client::CAPABILITIES;
use crate::support::{NEWEST, until};
use crate::upstream::{EVERYWHERE, Over, Upstream};

const MULTI_ROUND: &str = "up__test_input_required_result_multi_round";
const MULTIPLE: &str = "up__test_input_required_result_multiple_inputs";

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

#[tokio::test]
async fn rounds_become_questions_one_after_the_other() {
    for over in EVERYWHERE {
        let up = Upstream::with_fixtures(Eras::Modern, over).await;
        let gateway = up.gateway().await;
        let session = gateway.connect().await;
        let params = call(MULTI_ROUND, json!({}));
        let mut events = session.request_events(json!(1), "tools/call", params).await;
        for content in [json!({ "name": "Ada" }), json!({ "color": "red" })] {
            let question = next_of(&mut events, "elicitation/create").await;
            let said = json!({ "action": "accept", "content": content });
            session.respond(&question["id"], said).await;
        }
        let done = events.message().await.unwrap();
        assert_eq!(text(&done), "Hello, Ada! You like \"red\".", "{over:?}");
        assert_eq!(done["result"].get("resultType"), None);
    }
}

#[tokio::test]
async fn three_questions_of_one_result_are_three_requests() {
    let up = Upstream::with_fixtures(Eras::Modern, Over::Http).await;
    let gateway = up.gateway().await;
    let session = gateway.connect().await;
    let mut events =
        session.request_events(json!(1), "tools/call", call(MULTIPLE, json!({}))).await;
    // All of them are there before the first is answered.
    let mut questions = Vec::new();
    while questions.len() < 3 {
        questions.push(events.message().await.unwrap());
    }
    for question in questions.iter().rev() {
        let result = match question["method"].as_str().unwrap() {
            "elicitation/create" => answer(),
            "roots/list" => json!({ "roots": [{ "uri": "file:///r" }] }),
            _ => {
                let said = json!({ "type": "text", "text": "hello" });
                json!({ "role": "assistant", "content": said, "model": "m" })
            }
        };
        session.respond(&question["id"], result).await;
    }
    let done = events.message().await.unwrap();
    for part in ["Ada", "hello", "file:///r"] {
        assert!(text(&done).contains(part), "{done}");
    }
}

#[tokio::test]
async fn a_client_that_takes_its_call_back_is_not_waited_for() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Modern, over).await;
        let gateway = up.gateway().await;
        let session = gateway.connect().await;
        let params = call("up__elicit", json!({}));
        let mut events = session.request_events(json!(1), "tools/call", params.clone()).await;
        let question = next_of(&mut events, "elicitation/create").await;
        session.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
        let taken_back = next_of(&mut events, "notifications/cancelled").await;
        assert_eq!(taken_back["params"]["requestId"], question["id"]);
        session.respond(&question["id"], answer()).await;
        // One that leaves altogether, likewise.
        let mut events = session.request_events(json!(2), "tools/call", params).await;
        next_of(&mut events, "elicitation/create").await;
        delete(&session).await;
        until("nothing is left", async || status(&gateway, "up").await["in_flight"] == 0).await;
        assert_eq!(up.server.received("tools/call").len(), 2, "no retry was made");
    }
}

#[tokio::test]
async fn a_client_that_answers_with_an_error_fails_its_call() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Modern, over).await;
        let gateway = up.gateway().await;
        let session = gateway.connect().await;
        let params = call("up__elicit", json!({}));
        let mut events = session.request_events(json!(1), "tools/call", params).await;
        let question = next_of(&mut events, "elicitation/create").await;
        let error = json!({ "code": -1, "message": "User rejected" });
        let refusal = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
        assert_eq!(session.post(refusal.to_string()).await.status, 202);
        let failed = events.message().await.unwrap();
        let is_failure = failed.get("error").is_some() || failed["result"]["isError"] == true;
        assert!(is_failure && failed.to_string().contains("User rejected"), "{failed}");
        assert_eq!(up.server.received("tools/call").len(), 1, "no retry was made");
        assert_eq!(session.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
    }
}

#[tokio::test]
async fn a_server_sees_what_the_client_behind_the_call_can_do() {
    for over in EVERYWHERE {
        let up = Upstream::with_fixtures(Eras::Modern, over).await;
        let gateway = up.gateway().await;
        let able = gateway.http().initialize_as(NEWEST, json!({ "sampling": {} })).await;
        let unable = gateway.http().initialize_as(NEWEST, json!({ "elicitation": {} })).await;
        let refused = unable.call("up__test_missing_capability", json!({})).await;
        assert_eq!(refused["error"]["code"], -32021, "{over:?}: {refused}");
        let params = call("up__test_missing_capability", json!({}));
        let mut events = able.request_events(json!(1), "tools/call", params).await;
        next_of(&mut events, "sampling/createMessage").await;
        let seen: Vec<Value> = up
            .server
            .received("tools/call")
            .iter()
            .map(|params| {
                serde_json::from_str::<Value>(params).unwrap()["_meta"][CAPABILITIES].clone()
            })
            .collect();
        assert!(
            seen[0].get("sampling").is_none() && seen[1].get("elicitation").is_none(),
            "{seen:?}"
        );
    }
}

#[tokio::test]
async fn what_such_a_server_does_not_know_is_answered_here() {
    let up = Upstream::start(Eras::Modern, Over::Http).await;
    let gateway = up.gateway().await;
    let session = gateway.connect().await;
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}));
    let level = session.request("logging/setLevel", json!({ "level": "debug" })).await;
    assert_eq!(level["result"], json!({}));
    let subscribed = session.request("resources/subscribe", json!({ "uri": "test://a" })).await;
    assert_eq!(subscribed["result"], json!({}));
    soon("it listens", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
    let counters = up.server.counters();
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        assert!(!counters.requests.contains_key(method), "{method}");
    }
    delete(&session).await;
    soon("it ends", up.server.wait_for(|now| now.subscriptions.is_empty())).await;
}
