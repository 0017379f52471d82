//! What a pipe has that HTTP has not: one stream for all requests, of all revisions, and its end.

use evergate_testkit::{Eras, ListKind};
use serde_json::{Value, json};

use crate::caller::Era;
use crate::kit::{soon, text};
use crate::parked_call::answer;
use crate::piped_client::Piped;
use crate::stateless_client::{CAPABILITIES, SUBSCRIPTION, VERSION, key};
use crate::support::until;
use crate::upstream::{EVERYWHERE, Over, Upstream};

async fn start(up: &Upstream) -> Piped {
    let client = Piped::start(&up.config(), Era::Modern).await;
    client.request("tools/list", json!({})).await;
    client
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_with_its_id_and_the_stream_goes_on() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let client = start(&up).await;
    let meta = |version: Value, able: Value| json!({ VERSION: version, CAPABILITIES: able });
    let right = meta(json!("2026-07-28"), json!({}));
    for (method, params, code) in [
        ("tools/list", json!({ "_meta": meta(json!("v999.0.0"), json!({})) }), -32022),
        ("tools/list", json!({ "_meta": meta(json!("2025-11-25"), json!({})) }), -32022),
        ("tools/list", json!({ "_meta": meta(json!(7), json!({})) }), -32602),
        ("tools/list", json!({ "_meta": meta(json!("2026-07-28"), json!([])) }), -32602),
        ("tools/list", json!({ "_meta": { VERSION: "2026-07-28" } }), -32602),
        ("initialize", json!({ "_meta": right }), -32601),
        ("ping", json!({ "_meta": right }), -32601),
        ("logging/setLevel", json!({ "_meta": right, "level": "info" }), -32601),
        ("resources/subscribe", json!({ "_meta": right, "uri": "test://a" }), -32601),
        ("unknown/method", json!({ "_meta": right }), -32601),
        ("subscriptions/listen", json!({ "_meta": right }), -32602),
        ("subscriptions/listen", json!({ "_meta": right, "notifications": [] }), -32602),
    ] {
        let mut reading = client.read();
        let id = json!(format!("{method} {params}"));
        client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        let answer = reading.answer(&id).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        if code == -32022 {
            assert_eq!(answer["error"]["data"]["supported"], json!(["2026-07-28"]));
        }
    }
    // What says nothing of itself is of an earlier revision, where there is a handshake first.
    let mut reading = client.read();
    client.send(&json!({ "jsonrpc": "2.0", "id": "bare", "method": "tools/list" })).await;
    assert_eq!(reading.answer(&json!("bare")).await["error"]["code"], -32600);
    let echo = json!({ "name": "up__echo", "arguments": { "text": "hi" } });
    assert_eq!(text(&client.request("tools/call", echo).await), "hi");
}

#[tokio::test]
async fn a_note_is_good_once_and_for_its_own_call() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let client = start(&up).await;
    let call = json!({ "name": "up__elicit", "arguments": { "call_id": "x" } });
    let asked = client.request("tools/call", call.clone()).await["result"].clone();
    let retry = |arguments: Value| {
        json!({
            "name": "up__elicit", "arguments": arguments,
            "inputResponses": { key(&asked): answer() }, "requestState": asked["requestState"],
        })
    };
    let wrong = client.request("tools/call", retry(json!({ "call_id": "y" }))).await;
    assert_eq!(wrong["error"]["data"]["reason"], "invalid_request_state", "{wrong}");
    let right = client.request("tools/call", retry(json!({ "call_id": "x" }))).await;
    assert_eq!(right["result"]["resultType"], "complete", "{right}");
    let again = client.request("tools/call", retry(json!({ "call_id": "x" }))).await;
    assert_eq!(again["error"]["data"]["reason"], "invalid_request_state", "{again}");
    assert_eq!((up.server.executions("x"), up.server.executions("y")), (1, 0));
}

#[tokio::test]
async fn a_request_that_is_taken_back_is_not_answered() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Legacy, over).await;
        let client = start(&up).await;
        let (id, mut reading) = client.begin("tools/call", json!({ "name": "up__hold" })).await;
        soon("it runs", up.server.wait_for(|now| now.calls == 1)).await;
        client.notify("notifications/cancelled", json!({ "requestId": id })).await;
        until("the server is told", async || up.cancelled() == 1).await;
        client.request("tools/call", json!({ "name": "up__echo" })).await;
        let next = reading.next().await.unwrap();
        assert_ne!(next["id"], id, "{next}");
    }
}

#[tokio::test]
async fn two_listeners_in_one_pipe_hear_of_their_own() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let client = start(&up).await;
    let wanted = |wanted: Value| json!({ "notifications": wanted });
    let tools = wanted(json!({ "toolsListChanged": true }));
    let (one, mut reading) = client.begin("subscriptions/listen", tools.clone()).await;
    assert_eq!(reading.next().await.unwrap()["params"]["_meta"][SUBSCRIPTION], one);
    let both = json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://a"] });
    let (two, _) = client.begin("subscriptions/listen", wanted(both)).await;
    assert_eq!(reading.next().await.unwrap()["params"]["_meta"][SUBSCRIPTION], two);
    soon("it listens", up.server.wait_for(|now| now.listening == 1)).await;
    up.server.update_resource("test://a");
    assert_eq!(reading.next().await.unwrap()["params"]["_meta"][SUBSCRIPTION], two);
    up.server.tool("new", Value::Null, |_| json!({ "content": [] }));
    up.server.notify_list_changed(ListKind::Tools);
    let mut heard = Vec::new();
    for _ in 0..2 {
        heard.push(reading.next().await.unwrap()["params"]["_meta"][SUBSCRIPTION].clone());
    }
    heard.sort_by_key(Value::to_string);
    assert_eq!(heard, [one.clone(), two.clone()]);
    // The same id cannot be used while it is.
    let mut twice = client.read();
    let meta = json!({ VERSION: "2026-07-28", CAPABILITIES: {} });
    let mut params = tools;
    params["_meta"] = meta;
    let listen =
        json!({ "jsonrpc": "2.0", "id": two, "method": "subscriptions/listen", "params": params });
    client.send(&listen).await;
    assert_eq!(twice.answer(&two).await["error"]["code"], -32600);
    // One leaves: no result, and its subscription is over.
    client.notify("notifications/cancelled", json!({ "requestId": two })).await;
    soon("unsubscribed", up.server.wait_for(|now| now.subscriptions.is_empty())).await;
    let mut reading = client.read();
    up.server.tool("newer", Value::Null, |_| json!({ "content": [] }));
    up.server.notify_list_changed(ListKind::Tools);
    let next = reading.next().await.unwrap();
    assert_eq!(next["params"]["_meta"][SUBSCRIPTION], one, "{next}");
}

#[tokio::test]
async fn the_end_of_the_stream_ends_what_waits() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Legacy, over).await;
        let client = start(&up).await;
        let call = json!({ "name": "up__elicit", "arguments": { "call_id": "x" } });
        let asked = client.request("tools/call", call).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let wanted = json!({ "notifications": { "toolsListChanged": true } });
        let (_, mut reading) = client.begin("subscriptions/listen", wanted).await;
        reading.next().await.unwrap();
        client.hang_up().await;
        while reading.next().await.is_some() {}
        soon("it is gone", up.server.wait_for(|now| now.sessions_open == 0)).await;
        assert_eq!(up.server.executions("x"), 1);
    }
}
