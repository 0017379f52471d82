//! Payloads are the business of clients and servers: what one writes the other reads, byte for byte.

use bytes::Bytes;
use evergate_testkit::AnswerStyle;
use serde_json::{Value, json};

use crate::kit::{at, at_sse, begin, child, connect_to, next_of, servers, soon, text, web};
use crate::support::{Session, gateway};

async fn post(client: &Session, body: String) -> Bytes {
    let answer = client.http.post(&client.headers(), body).await;
    match answer.headers["content-type"].to_str().unwrap() {
        "text/event-stream" => panic!("a stream: {}", answer.text()),
        _ => answer.body,
    }
}

#[tokio::test]
async fn params_and_results_pass_byte_for_byte() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let result = r#"{ "z" : 18446744073709551617 , "a":1.0e2,"content":[],"name":"web__raw","nested":{"name":"x","name2":"y"},"_meta":{"b":1,"a":2} ,"é":"\u00e9","future":null}"#;
    let arguments = format!(r#"{{"json":{},"name":"web__raw" , "n":-0.0}}"#, json!(result));
    let rest = r#""task" : {"ttl":1e3}, "_meta":{ "vendor/x":[1 , 2]},"zzz":18446744073709551617"#;
    let params = |name: &str| format!(r#"{{ {rest},"arguments":{arguments},"name" : "{name}" }}"#);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"a b","method":"tools/call","params":{}}}"#,
        params("web__raw")
    );
    let answer = post(&client, body).await;
    assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":"a b","result":{result}}}"#));
    assert_eq!(http.server().received("tools/call"), [params("raw")]);
}

#[tokio::test]
async fn results_over_several_lines_pass_in_json_and_on_one_line_in_a_stream() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let pretty = "{\n  \"content\": [],\r\n  \"n\": 1.0\n}";
    let call = |id: u64| {
        let params = json!({ "name": "web__raw", "arguments": { "json": pretty } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let answer = post(&client, call(1)).await;
    assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{pretty}}}"#));
    // Servers over standard output cannot send line breaks; gateways to such clients must not either.
    http.answer_with(AnswerStyle::Sse);
    let answer =
        client.call("web__raw", json!({ "json": pretty.replace(['\n', '\r'], " ") })).await;
    assert_eq!(answer["result"], json!({ "content": [], "n": 1.0 }));
}

#[tokio::test]
async fn errors_of_a_server_are_its_own_words() {
    let http = web().await;
    for entry in [at(&http), at_sse(&http), child(&[])] {
        let gateway = gateway(&servers(json!({ "s": entry }))).start();
        let client = gateway.connect().await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__rpc_error","arguments":{}}}"#;
        let answer = post(&client, body.into()).await;
        let error = r#"{"code":-32050,"message":"scripted error","data":{"why":"asked to"},"hint":"extra"}"#;
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
        let failed = client.call("s__fail", json!({})).await;
        assert_eq!(
            failed["result"],
            json!({ "content": [{ "type": "text", "text": "this tool always fails" }], "isError": true })
        );
    }
}

#[tokio::test]
async fn two_clients_with_the_same_ids_and_tokens_hear_each_of_its_own_call() {
    let http = web().await;
    for entry in [at(&http), at_sse(&http), child(&[])] {
        let gateway = gateway(&servers(json!({ "s": entry }))).start();
        let clients = [gateway.connect().await, gateway.connect().await];
        let calls = clients.iter().enumerate().map(|(n, client)| async move {
            let steps = 3 + n;
            let params = json!({
                "name": "s__progress",
                "arguments": { "steps": steps, "ms": 20, "call_id": n.to_string() },
                "_meta": { "progressToken": "same", "kept": n },
            });
            let mut events = client.request_events(json!(1), "tools/call", params).await;
            let mut seen = Vec::new();
            loop {
                let message = events.message().await.unwrap();
                if message["id"] == 1 {
                    assert_eq!(text(&message), "all steps done");
                    return (steps, seen);
                }
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], "same");
                assert_eq!(message["params"]["total"], steps);
                seen.push(message["params"]["progress"].as_u64().unwrap());
            }
        });
        for (steps, seen) in futures_util::future::join_all(calls).await {
            assert_eq!(seen, (1..=steps as u64).collect::<Vec<_>>());
        }
    }
    // The tokens that servers saw were different, and nothing else in `_meta` was touched.
    let metas: Vec<Value> = http
        .server()
        .received("tools/call")
        .iter()
        .map(|params| serde_json::from_str::<Value>(params).unwrap()["_meta"].clone())
        .collect();
    assert_ne!(metas[0]["progressToken"], metas[1]["progressToken"]);
    assert_eq!(metas[0]["kept"].as_u64().unwrap() + metas[1]["kept"].as_u64().unwrap(), 1);
}

#[tokio::test]
async fn a_call_without_a_token_is_sent_without_one() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let client = gateway.connect().await;
    client.call_text("s__progress", json!({ "steps": 2 })).await;
    assert_eq!(
        http.server().received("tools/call"),
        [r#"{"arguments":{"steps":2},"name":"progress"}"#]
    );
}

#[tokio::test]
async fn a_cancellation_reaches_the_right_request_of_the_right_server() {
    let http = web().await;
    for entry in [at(&http), at_sse(&http)] {
        let gateway = gateway(&servers(json!({ "s": entry }))).start();
        let (mine, other) = (gateway.connect().await, gateway.connect().await);
        let before = http.server().counters();
        let hold =
            |call_id: &str| json!({ "name": "s__hold", "arguments": { "call_id": call_id } });
        let kept = tokio::spawn({
            let other = other.clone();
            async move { other.request_with_id(json!(7), "tools/call", hold("kept")).await }
        });
        let dropped = tokio::spawn({
            let mine = mine.clone();
            async move { mine.request_with_id(json!(7), "tools/call", hold("dropped")).await }
        });
        http.server().wait_for(|now| now.calls == before.calls + 2).await;
        let gone = json!({ "requestId": 7, "reason": "changed my mind" });
        mine.notify("notifications/cancelled", gone).await;
        http.server().wait_for(|now| now.cancelled.len() == before.cancelled.len() + 1).await;
        let answer = soon("an end", dropped).await.unwrap();
        assert!(answer.get("error").is_some(), "{answer}");
        http.server().release_held();
        assert_eq!(text(&soon("the other's answer", kept).await.unwrap()), "released");
        assert_eq!(http.server().counters().cancelled.len(), before.cancelled.len() + 1);
    }
}

#[tokio::test]
async fn a_cancellation_of_what_nobody_asked_is_ignored() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let client = gateway.connect().await;
    for id in [json!(99), json!("99"), json!(null)] {
        client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    }
    client.notify("notifications/cancelled", json!({})).await;
    assert_eq!(client.call_text("s__bump", json!({})).await, "1");
    assert!(http.server().counters().cancelled.is_empty());
}

#[tokio::test]
async fn each_client_hears_its_own_log_level_and_the_server_is_asked_for_the_most() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let (quiet, loud) = (gateway.connect().await, gateway.connect().await);
    let (mut to_quiet, mut to_loud) = (quiet.listen().await, loud.listen().await);
    quiet.tool_names().await;
    let level = |level: &str| json!({ "level": level });
    loud.request("logging/setLevel", level("debug")).await;
    assert_eq!(http.server().counters().log_level.as_deref(), Some("debug"));
    quiet.request("logging/setLevel", level("error")).await;
    assert_eq!(http.server().counters().log_level.as_deref(), Some("debug"), "the loud one stays");
    http.server().wait_for(|now| now.listening == 1).await;
    for (level, data) in [("info", "a"), ("critical", "b")] {
        http.server().notify("notifications/message", json!({ "level": level, "data": data }));
    }
    assert_eq!(next_of(&mut to_loud, "notifications/message").await["params"]["data"], "a");
    assert_eq!(next_of(&mut to_quiet, "notifications/message").await["params"]["data"], "b");
    // The same for what comes in the stream of a call: `log` says info.
    let call = json!({ "name": "s__log", "arguments": {} });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    let answer = quiet.http.post(&quiet.headers(), call.to_string()).await;
    assert_eq!(text(&answer.json()), "logged", "nothing but the answer");
    let answer = loud.request("logging/setLevel", level("loud")).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn what_a_server_says_of_a_call_comes_in_the_calls_own_stream() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let (mine, other) = (gateway.connect().await, gateway.connect().await);
    let mut elsewhere = other.listen().await;
    let params = json!({ "name": "s__log", "arguments": {} });
    let mut events = mine.request_events(json!(1), "tools/call", params).await;
    assert_eq!(events.message().await.unwrap()["params"]["data"], "from the tool log");
    assert_eq!(events.message().await.unwrap()["id"], 1);
    http.server().wait_for(|now| now.listening == 1).await;
    crate::kit::none_before_mark(&mut elsewhere, http.server(), "nothing").await;
}

#[tokio::test]
async fn a_broken_connection_of_a_client_does_not_end_its_call() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let call = begin(&client, "s__hold", json!({ "call_id": "x" }));
    http.server().wait_for(|now| now.calls == 1).await;
    call.abort();
    let other = connect_to(&gateway, "s").await;
    assert_eq!(other.call_text("bump", json!({})).await, "1");
    assert!(http.server().counters().cancelled.is_empty());
    http.server().release_held();
    http.server().wait_for(|now| now.answered > 0).await;
    // And its id can be used again once it is answered.
    crate::support::until("the id is free", async || {
        client.request_with_id(json!(2), "ping", json!({})).await.get("result").is_some()
    })
    .await;
    assert!(http.server().counters().cancelled.is_empty());
}
