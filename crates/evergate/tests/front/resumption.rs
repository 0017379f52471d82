//! Connections that break in the middle of an answer.

use http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{REVISIONS, identified, one_server, one_server_with, steps, still_works};
use crate::support::{Events, NEWEST, until};

/// All messages that are left, without their ids.
async fn rest(mut stream: Events) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await {
        all.push(message);
    }
    all
}

fn progress_of(message: &Value) -> Option<u64> {
    message["params"]["progress"].as_u64()
}

#[tokio::test]
async fn a_cut_answer_is_taken_up_with_exactly_the_rest_and_ends() {
    let (http, gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let mut stream = client.request_events(json!("r"), "tools/call", steps(6, 30)).await;
        identified(&mut stream).await.unwrap();
        let (id, second) = identified(&mut stream).await.unwrap();
        assert_eq!(progress_of(&second), Some(2));
        drop(stream);
        let left = rest(client.listen_from(&id).await).await;
        let (answer, progress) = left.split_last().unwrap();
        let progress: Vec<_> = progress.iter().filter_map(progress_of).collect();
        assert_eq!(progress, [3, 4, 5, 6], "{revision}");
        assert_eq!(answer["id"], "r");
        assert_eq!(answer["result"]["content"][0]["text"], "all steps done");
    }
    assert_eq!(http.server().executions("steps"), REVISIONS.len() as u64);
    assert_eq!(http.server().counters().cancelled, [] as [Value; 0]);
}

#[tokio::test]
async fn a_connection_may_break_after_every_single_message() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut stream = client.request_events(json!(1), "tools/call", steps(8, 10)).await;
    let mut seen = Vec::new();
    while let Some((id, message)) = identified(&mut stream).await {
        seen.push(progress_of(&message));
        // Replaced before it is dropped: the old connection may well outlive its reader.
        stream = client.listen_from(&id).await;
    }
    let expected: Vec<_> = (1..=8).map(Some).chain([None]).collect();
    assert_eq!(seen, expected);
    assert_eq!(http.server().executions("steps"), 1);
}

#[tokio::test]
async fn the_priming_event_is_enough_to_come_back_with() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut stream = client.request_events(json!(1), "tools/call", steps(3, 50)).await;
    let primer = stream.next().await.unwrap();
    assert!(primer.data.is_empty());
    drop(stream);
    let all = rest(client.listen_from(&primer.id.unwrap()).await).await;
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(all.last().unwrap()["id"], 1);
}

#[tokio::test]
async fn a_finished_answer_can_be_fetched_again_from_any_point() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut stream = client.request_events(json!(1), "tools/call", steps(2, 0)).await;
    let mut ids = Vec::new();
    while let Some((id, _)) = identified(&mut stream).await {
        ids.push(id);
    }
    for (seen, id) in ids.iter().enumerate() {
        let left = rest(client.listen_from(id).await).await;
        assert_eq!(left.len(), 2 - seen, "{left:?}");
    }
    assert_eq!(http.server().executions("steps"), 1);
}

#[tokio::test]
async fn an_answer_that_is_large_survives_a_cut() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let arguments = json!({ "bytes": 3_000_000 });
    let params = json!({ "name": "web__slow", "arguments": { "ms": 400 } });
    let mut slow = client.request_events(json!("slow"), "tools/call", params).await;
    let primer = slow.next().await.unwrap().id.unwrap();
    drop(slow);
    assert_eq!(client.call_text("web__big", arguments).await.len(), 3_000_000);
    let left = rest(client.listen_from(&primer).await).await;
    assert_eq!(left[0]["result"]["content"][0]["text"], "slow but done");
}

#[tokio::test]
async fn a_question_can_be_answered_after_a_cut() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let params = json!({ "name": "web__elicit", "arguments": {} });
    let mut stream = client.request_events(json!(1), "tools/call", params).await;
    let primer = stream.next().await.unwrap().id.unwrap();
    drop(stream);
    let mut again = client.listen_from(&primer).await;
    let question = again.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    client.respond(&question["id"], json!({ "action": "decline" })).await;
    let answer = again.message().await.unwrap();
    assert!(answer.to_string().contains("decline"), "{answer}");
}

#[tokio::test]
async fn after_a_crash_of_the_gateway_a_client_learns_at_once_that_its_answer_is_lost() {
    let (_http, mut gateway) = one_server().await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let mut stream =
            client.request_events(json!("lost \"one\""), "tools/call", steps(1000, 20)).await;
        let (id, _) = identified(&mut stream).await.unwrap();
        gateway = gateway.restart(Signal::KILL).await;
        assert_eq!(stream.next().await.map(|event| event.id), None);
        let left = rest(client.listen_from(&id).await).await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0]["id"], "lost \"one\"");
        assert_eq!(left[0]["error"]["data"]["outcome"], "unknown");
        assert_eq!(left[0]["error"]["data"]["retryable"], false);
        let code = left[0]["error"]["code"].as_i64().unwrap();
        assert!(!(-32768..=-32000).contains(&code), "{code}");
        still_works(&client).await;
    }
}

#[tokio::test]
async fn ids_that_were_never_given_out_are_refused() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    for garbage in ["", "1", "l.", "c.1.1", "c.1.1.!!!", "l.zz.1", "0_1", "c.1.1.e30.e30"] {
        let refused = client.listen_from(garbage).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{garbage:?}");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn a_position_beyond_the_end_is_no_reason_to_wait_for_ever() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut stream = client.request_events(json!(1), "tools/call", steps(1, 0)).await;
    let mut id = String::new();
    while let Some((last, _)) = identified(&mut stream).await {
        id = last;
    }
    let parts: Vec<&str> = id.split('.').collect();
    let beyond = format!("{}.{}.{}.{}", parts[0], parts[1], u64::MAX, parts[3]);
    assert_eq!(rest(client.listen_from(&beyond).await).await, [] as [Value; 0]);
    still_works(&client).await;
}

#[tokio::test]
async fn events_of_another_session_are_never_served() {
    let (_http, gateway) = one_server().await;
    let (owner, other) = (gateway.connect().await, gateway.connect().await);
    let params = json!({ "name": "web__log", "arguments": {} });
    let mut stream = owner.request_events(json!(1), "tools/call", params).await;
    let (id, _) = identified(&mut stream).await.unwrap();
    let left = rest(other.listen_from(&id).await).await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].get("result").is_none(), "{left:?}");
    let theirs = rest(owner.listen_from(&id).await).await;
    assert_eq!(theirs[0]["result"]["content"][0]["text"], "logged");
}

#[tokio::test]
async fn no_call_under_way_is_forgotten_however_many_there_are() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let calls = (0..80).map(|number| {
        let arguments = json!({ "call_id": format!("{number}") });
        let params = json!({ "name": "web__hold", "arguments": arguments });
        client.request_events(json!(number), "tools/call", params)
    });
    let mut primers = Vec::new();
    for mut stream in futures_util::future::join_all(calls).await {
        primers.push(stream.next().await.unwrap().id.unwrap());
    }
    until("all are held", async || http.server().counters().executions.len() == 80).await;
    http.server().release_held();
    for (number, id) in primers.iter().enumerate() {
        let left = rest(client.listen_from(id).await).await;
        assert_eq!(left[0]["id"], number);
        assert_eq!(left[0]["result"]["content"][0]["text"], "released", "{left:?}");
    }
}

#[tokio::test]
async fn a_stream_that_is_taken_up_is_not_primed_again() {
    let (_http, gateway) = one_server_with(json!({ "keep_alive": "50ms" })).await;
    let client = gateway.http().initialize_as(NEWEST, json!({})).await;
    let mut stream = client.listen().await;
    let primer = stream.next().await.unwrap().id.unwrap();
    let mut again = client.listen_from(&primer).await;
    let mut text = String::new();
    while !text.contains(": still here") {
        text.push_str(std::str::from_utf8(&again.bytes().await.unwrap()).unwrap());
    }
    assert!(!text.contains("id:"), "an id is never used twice: {text}");
}
