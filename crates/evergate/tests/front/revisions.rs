//! What differs between the revisions of streamable HTTP, and what must not.

use http::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{REVISIONS, blocks, one_server, steps, still_works, tool_call};
use crate::support::NEWEST;

#[tokio::test]
async fn every_revision_gets_what_it_asks_for() {
    let (_http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        assert_eq!(client.welcome["protocolVersion"], revision);
        assert_eq!(client.welcome["serverInfo"]["name"], "evergate");
        still_works(&client).await;
    }
}

#[tokio::test]
async fn an_unknown_revision_is_answered_with_the_newest_that_has_a_handshake() {
    let (_http, gateway) = one_server().await;
    for revision in ["2026-07-28", "1999-01-01", "", "latest"] {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        assert_eq!(client.welcome["protocolVersion"], NEWEST, "{revision}");
    }
}

#[tokio::test]
async fn session_ids_are_visible_ascii_and_never_the_same() {
    let (_http, gateway) = one_server().await;
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    assert!(one.id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{}", one.id);
    assert_ne!(one.id, two.id);
}

#[tokio::test]
async fn an_initialize_without_its_fields_gets_an_error_and_no_session() {
    let (_http, gateway) = one_server().await;
    for params in [json!({}), json!(null), json!([1]), json!({ "protocolVersion": 7 })] {
        let body = json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params });
        let answer = gateway.http().post(&[], body.to_string()).await;
        assert_eq!(answer.json()["error"]["code"], -32602, "{params}");
        assert_eq!(answer.json()["id"], "i");
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    assert_eq!(gateway.health().await["sessions"], 0);
}

#[tokio::test]
async fn notifications_and_responses_are_accepted_without_a_body() {
    let (_http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        for message in [
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "method": "notifications/never/heard/of", "params": {} }),
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 99 } }),
            json!({ "jsonrpc": "2.0", "id": 12345, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": "nobody asked", "error": { "code": 1, "message": "" } }),
        ] {
            let answer = client.post(message.to_string()).await;
            assert_eq!(answer.status, StatusCode::ACCEPTED, "{message}");
            assert_eq!(answer.text(), "");
        }
        still_works(&client).await;
    }
}

#[tokio::test]
async fn a_quick_answer_is_plain_json() {
    let (_http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let call = tool_call(&json!(1), "web__echo", &json!({ "text": "hi" }));
        let answer = client.post(call.to_string()).await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{revision}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    }
}

#[tokio::test]
async fn messages_before_the_answer_make_it_a_stream_that_ends_with_the_answer() {
    let (_http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let stream = client.request_events(json!("p"), "tools/call", steps(3, 0)).await;
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        let all: Vec<_> =
            blocks(&stream.rest().await).into_iter().filter(|block| !block.comment).collect();
        let primed = usize::from(revision == NEWEST);
        if primed == 1 {
            assert!(all[0].id.is_some() && all[0].retry.is_some(), "{all:?}");
            assert_eq!(all[0].data.as_deref(), Some(""));
        }
        let messages: Vec<Value> = all[primed..]
            .iter()
            .map(|block| {
                assert_eq!(block.retry, None, "{revision}");
                assert_eq!(block.event.as_deref(), Some("message"));
                serde_json::from_str(block.data.as_ref().unwrap()).unwrap()
            })
            .collect();
        assert_eq!(messages.len(), 4, "{messages:?}");
        for (step, message) in messages[..3].iter().enumerate() {
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], "token");
            assert_eq!(message["params"]["progress"], step + 1);
        }
        assert_eq!(messages[3]["id"], "p");
        assert_eq!(messages[3]["result"]["content"][0]["text"], "all steps done");
    }
}

#[tokio::test]
async fn event_ids_are_unique_in_a_session() {
    let (_http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            // The same request id each time: streams are still told apart.
            let stream = client.request_events(json!(1), "tools/call", steps(2, 0)).await;
            ids.extend(blocks(&stream.rest().await).into_iter().filter_map(|block| block.id));
        }
        assert_eq!(ids.len(), if revision == NEWEST { 12 } else { 9 });
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "{ids:?}");
    }
}

#[tokio::test]
async fn a_question_of_the_server_comes_on_the_calls_own_stream() {
    let (_http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({ "sampling": {} })).await;
        let params = json!({ "name": "web__sample", "arguments": {} });
        let mut stream = client.request_events(json!(5), "tools/call", params).await;
        let question = stream.message().await.unwrap();
        assert_eq!(question["method"], "sampling/createMessage");
        assert_eq!(question["params"]["maxTokens"], 16);
        client.respond(&question["id"], json!({ "model": "me", "x": 1.5 })).await;
        let answer = stream.message().await.unwrap();
        assert_eq!(answer["id"], 5);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("\"model\":\"me\""), "{text}");
        assert_eq!(stream.message().await, None);
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_the_one_revision_that_has_them() {
    let (http, gateway) = one_server().await;
    let client = gateway.http().initialize_as("2025-03-26", json!({})).await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/roots/list_changed" },
        tool_call(&json!("two"), "web__echo", &json!({ "text": "b", "call_id": "batch" })),
        { "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "no such" } },
    ]);
    let mut stream = client.http.post_for_events(&client.headers(), batch.to_string()).await;
    let mut answers = Vec::new();
    while let Some(message) = stream.message().await {
        answers.push(message);
    }
    assert_eq!(answers.len(), 3, "{answers:?}");
    let answer = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer(json!(1))["result"], json!({}));
    assert_eq!(answer(json!("two"))["result"]["content"][0]["text"], "b");
    assert_eq!(answer(json!(3))["error"]["code"], -32602);
    assert_eq!(http.server().executions("batch"), 1);
}

#[tokio::test]
async fn a_batch_without_requests_is_accepted_and_an_empty_one_is_not() {
    let (_http, gateway) = one_server().await;
    let client = gateway.http().initialize_as("2025-03-26", json!({})).await;
    let quiet = json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]);
    assert_eq!(client.post(quiet.to_string()).await.status, StatusCode::ACCEPTED);
    let hello = json!([{ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }]);
    for bad in ["[]".to_owned(), "[1]".to_owned(), hello.to_string()] {
        let answer = client.post(bad.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad}");
        assert_eq!(answer.json()["error"]["code"], -32600, "{bad}");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn no_answer_of_a_large_batch_is_lost() {
    let (_http, gateway) = one_server().await;
    let client = gateway.http().initialize_as("2025-03-26", json!({})).await;
    let pings = (0..400).map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    let large =
        (400..403).map(|id| tool_call(&json!(id), "web__big", &json!({ "bytes": 2_000_000 })));
    let batch = Value::Array(pings.chain(large).collect());
    let mut stream = client.http.post_for_events(&client.headers(), batch.to_string()).await;
    let mut ids = Vec::new();
    while let Some(message) = stream.message().await {
        ids.push(message["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..403).collect::<Vec<_>>());
}

#[tokio::test]
async fn other_revisions_refuse_arrays() {
    let (http, gateway) = one_server().await;
    for revision in REVISIONS.into_iter().filter(|revision| *revision != "2025-03-26") {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let batch = json!([tool_call(&json!(1), "web__bump", &json!({ "call_id": "no" }))]);
        let answer = client.post(batch.to_string()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{revision}");
        assert_eq!(answer.json()["error"]["code"], -32600);
        still_works(&client).await;
    }
    assert_eq!(http.server().executions("no"), 0);
}

#[tokio::test]
async fn a_protocol_version_header_must_be_known_if_it_is_there() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let session = ("mcp-session-id", client.id.as_str());
    for bad in ["1999-01-01", "", "2026-07-28", "2025-06-18, 2025-06-18", "nonsense"] {
        let answer = client.http.post(&[session, ("mcp-protocol-version", bad)], ping).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad}");
        let headers = [session, ("mcp-protocol-version", bad)];
        // Revisions after those with a handshake have no stream to listen to.
        let later = ["2026-07-28", "nonsense"].contains(&bad);
        let refused = if later { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::BAD_REQUEST };
        assert_eq!(client.http.listen(&headers).await.status, refused, "{bad}");
    }
    assert_eq!(client.http.post(&[session], ping).await.json()["result"], json!({}));
    for known in REVISIONS {
        let answer = client.http.post(&[session, ("mcp-protocol-version", known)], ping).await;
        assert_eq!(answer.status, StatusCode::OK, "{known}");
    }
}
