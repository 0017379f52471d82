//! What servers ask of clients: of the one whose call made them ask, or of nobody.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::{
    at, at_with, begin, child, child_with, next_of, servers, soon, text, until_listed, web,
};
use crate::support::{NEWEST, Session, gateway, until};

/// Calls a tool that asks something, answers the question, and returns what the tool made of that.
async fn ask_and_answer(client: &Session, tool: &str, method: &str, result: Value) -> Value {
    let params = json!({ "name": tool, "arguments": {} });
    let mut events = client.request_events(json!("call"), "tools/call", params).await;
    let question = next_of(&mut events, method).await;
    client.respond(&question["id"], result).await;
    let answer = events.message().await.unwrap();
    assert_eq!(answer["id"], "call", "{answer}");
    serde_json::from_str(text(&answer)).unwrap()
}

#[tokio::test]
async fn a_question_goes_to_the_client_whose_call_it_is_about() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let (mine, other) = (gateway.connect().await, gateway.connect().await);
    // Another client has a call in flight on the same connection, and the streams tell them apart.
    let held = begin(&other, "web__hold", json!({}));
    http.server().wait_for(|now| now.calls == 1).await;
    let sampled =
        json!({ "role": "assistant", "content": { "type": "text", "text": "hi" }, "model": "m" });
    let heard =
        ask_and_answer(&mine, "web__sample", "sampling/createMessage", sampled.clone()).await;
    assert_eq!(heard["result"], sampled);
    let elicited = json!({ "action": "accept", "content": { "name": "Ada" } });
    let heard = ask_and_answer(&mine, "web__elicit", "elicitation/create", elicited.clone()).await;
    assert_eq!(heard["result"], elicited);
    let roots = json!({ "roots": [{ "uri": "file:///mine" }] });
    let heard = ask_and_answer(&mine, "web__roots", "roots/list", roots.clone()).await;
    assert_eq!(heard["result"], roots);
    http.server().release_held();
    held.await.unwrap();
}

#[tokio::test]
async fn a_child_process_asks_the_only_caller() {
    let gateway = gateway(&servers(json!({ "c": child(&[]) }))).start();
    let (mine, other) = (gateway.connect().await, gateway.connect().await);
    other.tool_names().await;
    let roots = json!({ "roots": [] });
    let heard = ask_and_answer(&mine, "c__roots", "roots/list", roots.clone()).await;
    assert_eq!(heard["result"], roots);
}

#[tokio::test]
async fn a_child_process_that_could_mean_two_callers_is_refused_and_told_why() {
    let gateway = gateway(&servers(json!({ "c": child(&[]) }))).start();
    let mine = gateway.connect().await;
    // It cannot answer at all: then still nobody else is asked in its place.
    let other = gateway.http().initialize_as(NEWEST, json!({})).await;
    let slow = begin(&mine, "c__slow", json!({ "ms": 1000 }));
    crate::support::until("the call is in flight", async || {
        crate::kit::status(&gateway, "c").await["in_flight"] == 1
    })
    .await;
    let heard: Value =
        serde_json::from_str(&other.call_text("c__sample", json!({})).await).unwrap();
    let message = heard["error"]["message"].as_str().unwrap();
    assert!(message.contains(r#"isolation = "per_client""#), "{heard}");
    assert_eq!(text(&slow.await.unwrap()), "slow but done");
}

#[tokio::test]
async fn with_connections_of_their_own_two_callers_are_told_apart() {
    let entry = child_with(&[], json!({ "isolation": "per_client" }));
    let gateway = gateway(&servers(json!({ "c": entry }))).start();
    let (mine, other) = (gateway.connect().await, gateway.connect().await);
    let slow = begin(&other, "c__slow", json!({ "ms": 500 }));
    let roots = json!({ "roots": [{ "uri": "file:///mine" }] });
    let heard = ask_and_answer(&mine, "c__roots", "roots/list", roots.clone()).await;
    assert_eq!(heard["result"], roots);
    slow.await.unwrap();
}

#[tokio::test]
async fn a_question_that_the_client_never_said_it_answers_is_refused() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.http().initialize_as(NEWEST, json!({ "roots": {} })).await;
    let heard: Value =
        serde_json::from_str(&client.call_text("web__sample", json!({})).await).unwrap();
    assert_eq!(heard["error"]["code"], -32601, "{heard}");
    let message = heard["error"]["message"].as_str().unwrap();
    assert!(message.contains("sampling/createMessage"), "{heard}");
}

#[tokio::test]
async fn an_error_of_the_client_reaches_the_server_unchanged() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let params = json!({ "name": "web__sample", "arguments": {} });
    let mut events = client.request_events(json!(1), "tools/call", params).await;
    let question = next_of(&mut events, "sampling/createMessage").await;
    assert_eq!(question["params"]["maxTokens"], 16);
    let error = json!({ "code": -1, "message": "User rejected", "data": { "n": 1 } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
    client.http.post(&client.headers(), answer.to_string()).await;
    let heard: Value = serde_json::from_str(text(&events.message().await.unwrap())).unwrap();
    assert_eq!(heard["error"], error);
}

#[tokio::test]
async fn a_person_may_take_longer_to_answer_than_a_call_may_take() {
    let http = web().await;
    let entries = json!({
        "web": at_with(&http, json!({ "timeout": "1s" })),
        "c": child_with(&[], json!({ "timeout": "1s" })),
    });
    let gateway = gateway(&servers(entries)).start();
    let client = gateway.connect().await;
    for server in ["web", "c"] {
        let params = json!({ "name": format!("{server}__elicit"), "arguments": {} });
        let mut events = client.request_events(json!(server), "tools/call", params).await;
        let question = next_of(&mut events, "elicitation/create").await;
        // The time of the call has to pass for this to mean anything.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        client.respond(&question["id"], json!({ "action": "decline" })).await;
        let answer = events.message().await.unwrap();
        assert!(text(&answer).contains("decline"), "{answer}");
    }
}

#[tokio::test]
async fn a_question_whose_call_was_cancelled_is_taken_back() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let params = json!({ "name": "web__elicit", "arguments": {} });
    let mut events = client.request_events(json!(1), "tools/call", params).await;
    let question = next_of(&mut events, "elicitation/create").await;
    client.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    let taken_back = next_of(&mut events, "notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    // A late answer does no harm.
    client.respond(&question["id"], json!({ "action": "accept" })).await;
    soon("the server hears of it", http.server().wait_for(|now| now.cancelled.len() == 1)).await;
}

#[tokio::test]
async fn a_question_beside_all_calls_goes_to_the_only_client_there_is() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    client.tool_names().await;
    http.server().wait_for(|now| now.listening == 1).await;
    let asked = http.server().request_client("roots/list", json!({}));
    let question = next_of(&mut events, "roots/list").await;
    client.respond(&question["id"], json!({ "roots": [] })).await;
    assert_eq!(soon("an answer", asked).await.unwrap()["result"], json!({ "roots": [] }));
    // With a second one nobody can tell who is meant.
    let _second = gateway.connect().await;
    let asked = http.server().request_client("roots/list", json!({}));
    let refusal = soon("a refusal", asked).await.unwrap();
    assert!(refusal["error"]["message"].as_str().unwrap().contains("per_client"), "{refusal}");
}

#[tokio::test]
async fn a_client_that_leaves_owes_no_answer() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let params = json!({ "name": "web__elicit", "arguments": {} });
    let mut events = client.request_events(json!(1), "tools/call", params).await;
    next_of(&mut events, "elicitation/create").await;
    crate::kit::delete(&client).await;
    // The call is cancelled with the session, and the gateway goes on.
    soon("the call is cancelled", http.server().wait_for(|now| now.cancelled.len() == 1)).await;
    let other = gateway.connect().await;
    assert_eq!(other.call_text("web__bump", json!({})).await, "1");
}

#[tokio::test]
async fn changed_roots_are_announced_to_the_servers_of_the_only_client() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.notify("notifications/roots/list_changed", json!({})).await;
    let told = |now: &evergate_testkit::Counters| {
        now.requests.contains_key("notifications/roots/list_changed")
    };
    soon("the server hears of it", http.server().wait_for(told)).await;
}

#[tokio::test]
async fn progress_on_an_answer_reaches_the_server_that_asked_under_its_own_token() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    until_listed(&client, "web__echo").await;
    let mut events = client.listen().await;
    http.server().wait_for(|now| now.listening == 1).await;
    let params =
        json!({ "messages": [], "maxTokens": 1, "_meta": { "progressToken": "theirs", "x": 1.5 } });
    let answer = http.server().request_client("sampling/createMessage", params);
    let question = next_of(&mut events, "sampling/createMessage").await;
    let ours = &question["params"]["_meta"]["progressToken"];
    assert_ne!(*ours, "theirs");
    assert_eq!(question["params"]["_meta"]["x"], 1.5);
    client
        .notify("notifications/progress", json!({ "progressToken": ours, "progress": 0.5 }))
        .await;
    until("the server hears of it", async || {
        http.server().received("notifications/progress")
            == [r#"{"progress":0.5,"progressToken":"theirs"}"#]
    })
    .await;
    client.respond(&question["id"], json!({ "role": "assistant" })).await;
    assert_eq!(answer.await.unwrap()["result"]["role"], "assistant");
}
