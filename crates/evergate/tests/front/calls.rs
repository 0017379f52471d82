//! What ends a call, and what does not.

use std::time::Duration;

use http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{one_server, still_works, tool_call};
use crate::support::{Session, until};

async fn hold(client: &Session, id: Value) -> Value {
    let params = json!({ "name": "web__hold", "arguments": { "call_id": id.to_string() } });
    client.request_with_id(id, "tools/call", params).await
}

#[tokio::test]
async fn a_client_that_disconnects_has_not_cancelled() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let call = tool_call(&json!("gone"), "web__hold", &json!({ "call_id": "gone" }));
    tokio::select! {
        _ = client.post(call.to_string()) => panic!("nobody released it"),
        () = http.server().wait_for(|counters| counters.executions.contains_key("gone")) => {}
    }
    // By now the gateway has had time to see the end of that connection.
    for _ in 0..5 {
        still_works(&client).await;
    }
    let answered = http.server().counters().answered;
    http.server().release_held();
    http.server().wait_for(|counters| counters.answered > answered).await;
    assert_eq!(http.server().counters().cancelled, [] as [Value; 0]);
    assert_eq!(http.server().executions("gone"), 1);
}

#[tokio::test]
async fn a_client_that_cancels_ends_the_call_on_both_sides() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    for id in [json!(7), json!("seven"), json!(-7)] {
        let before = http.server().counters().cancelled.len();
        let cancelling = async {
            let key = id.to_string();
            http.server().wait_for(|counters| counters.executions.contains_key(&key)).await;
            client.notify("notifications/cancelled", json!({ "requestId": id })).await;
        };
        let (answer, ()) = tokio::join!(hold(&client, id.clone()), cancelling);
        assert!(answer.get("result").is_none(), "{answer}");
        http.server().wait_for(|counters| counters.cancelled.len() > before).await;
        still_works(&client).await;
    }
}

#[tokio::test]
async fn a_cancellation_of_somebody_elses_call_does_nothing() {
    let (http, gateway) = one_server().await;
    let (client, other) = (gateway.connect().await, gateway.connect().await);
    let disturbing = async {
        http.server().wait_for(|counters| counters.executions.contains_key("1")).await;
        for bad in [json!({ "requestId": 1 }), json!({}), json!({ "requestId": null }), json!([1])]
        {
            other.notify("notifications/cancelled", bad).await;
        }
        client.notify("notifications/cancelled", json!({ "requestId": 2 })).await;
        client.notify("notifications/cancelled", json!({ "requestId": "1" })).await;
        http.server().release_held();
    };
    let (answer, ()) = tokio::join!(hold(&client, json!(1)), disturbing);
    assert_eq!(answer["result"]["content"][0]["text"], "released");
}

#[tokio::test]
async fn a_session_that_is_given_back_is_gone_and_its_calls_with_it() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut listening = client.listen().await;
    let deleting = async {
        http.server().wait_for(|counters| counters.executions.contains_key("1")).await;
        assert_eq!(client.http.delete(&client.headers()).await.status, StatusCode::OK);
    };
    let (answer, ()) = tokio::join!(hold(&client, json!(1)), deleting);
    assert!(answer.get("result").is_none(), "{answer}");
    assert_eq!(listening.message().await, None);
    http.server().wait_for(|counters| counters.cancelled.len() == 1).await;
    gone(&client).await;
    assert_eq!(gateway.health().await["sessions"], 0);
    let gateway = gateway.restart(Signal::TERM).await;
    gone(&client).await;
    let gateway = gateway.restart(Signal::KILL).await;
    gone(&client).await;
    drop(gateway);
}

/// Nothing can be done with it.
async fn gone(client: &Session) {
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
    ] {
        let answer = client.post(message.to_string()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{message}");
    }
    assert_eq!(client.listen().await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.http.delete(&client.headers()).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_id_that_is_under_way_cannot_be_used_again_until_it_is_answered() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let again = async {
        http.server().wait_for(|counters| counters.executions.contains_key("1")).await;
        let refused = client.request_with_id(json!(1), "ping", json!({})).await;
        assert_eq!(refused["error"]["code"], -32600);
        http.server().release_held();
    };
    let (answer, ()) = tokio::join!(hold(&client, json!(1)), again);
    assert_eq!(answer["result"]["content"][0]["text"], "released");
    assert_eq!(client.request_with_id(json!(1), "ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn the_same_ids_of_two_clients_have_nothing_to_do_with_each_other() {
    let (http, gateway) = one_server().await;
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    let releasing = async {
        until("both are held", async || http.server().executions("1") == 2).await;
        http.server().release_held();
    };
    let (a, b, ()) = tokio::join!(hold(&one, json!(1)), hold(&two, json!(1)), releasing);
    assert_eq!(a["result"], b["result"]);
}

#[tokio::test]
async fn an_error_of_the_server_passes_as_it_is() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let answer = client.post(tool_call(&json!(1), "web__rpc_error", &json!({})).to_string()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let raw =
        r#"{"code":-32050,"message":"scripted error","data":{"why":"asked to"},"hint":"extra"}"#;
    assert!(answer.text().contains(raw), "{}", answer.text());
}

#[tokio::test]
async fn a_result_with_line_breaks_passes_as_json_and_as_an_event() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let pretty = "{\n  \"content\": [],\r\n\t\"big\": 9223372036854775808,\n\"float\": 1.0 }";
    let call = tool_call(&json!(1), "web__raw", &json!({ "json": pretty }));
    let answer = client.post(call.to_string()).await;
    assert_eq!(answer.json()["result"]["content"], json!([]));
    assert!(answer.text().contains("9223372036854775808") && answer.text().contains("1.0"));
    let delay = Duration::from_millis(400);
    http.server().inject(evergate_testkit::Fault::DelayAnswer(delay)).on_tool("raw");
    let stream = client.http.post_for_events(&client.headers(), call.to_string()).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let text = stream.rest().await;
    assert!(text.contains("9223372036854775808") && text.contains("1.0"), "{text}");
    assert_eq!(text.matches("\ndata: {").count(), 1, "{text}");
}

/// Around the moment when a response becomes a stream.
#[tokio::test]
async fn every_call_is_answered_exactly_once_however_long_it_takes() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let calls = (0..120).map(|number| {
        let arguments = json!({ "ms": 215 + number / 2, "call_id": format!("{number}") });
        let call = tool_call(&json!(number), "web__slow", &arguments);
        let client = client.clone();
        async move {
            let stream = client.http.post_for_events(&client.headers(), call.to_string()).await;
            let answer = format!("\"id\":{number},\"result\"");
            (stream.rest().await.matches(&answer).count(), number)
        }
    });
    for (answers, number) in futures_util::future::join_all(calls).await {
        assert_eq!(answers, 1, "{number}");
        assert_eq!(http.server().executions(&format!("{number}")), 1);
    }
}
