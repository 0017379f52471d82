//! Who has a session, and for how long.

use http::StatusCode;
use serde_json::json;

use crate::fixture::{one_server, one_server_with, still_works};
use crate::support::{Http, Session, until};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn status_with(http: &Http, id: &str) -> StatusCode {
    http.post(&[("mcp-session-id", id)], PING).await.status
}

#[tokio::test]
async fn ids_that_were_changed_or_made_up_are_404() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let http = gateway.http();
    let mut tampered = client.id.clone().into_bytes();
    for place in [0, tampered.len() / 2, tampered.len() - 2] {
        let before = tampered[place];
        tampered[place] = if before == b'A' { b'B' } else { b'A' };
        let id = String::from_utf8(tampered.clone()).unwrap();
        assert_eq!(status_with(&http, &id).await, StatusCode::NOT_FOUND, "{place}");
        tampered[place] = before;
    }
    for id in ["", " ", "made-up", &client.id[1..], &format!("{}A", client.id), &"x".repeat(9000)] {
        assert_eq!(status_with(&http, id).await, StatusCode::NOT_FOUND, "{id:?}");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn ids_of_another_gateway_are_404() {
    let (_one, gateway) = one_server().await;
    let (_two, other) = one_server().await;
    let client = other.connect().await;
    assert_eq!(status_with(&gateway.http(), &client.id).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_id_is_good_only_where_it_was_given_out() {
    let (_http, gateway) = one_server().await;
    let (all, one) = (gateway.http(), Http::new(&gateway.at("/mcp/web")));
    let (of_all, of_one) = (all.initialize().await, one.initialize().await);
    assert_eq!(status_with(&one, &of_all.id).await, StatusCode::NOT_FOUND);
    assert_eq!(status_with(&all, &of_one.id).await, StatusCode::NOT_FOUND);
    assert_eq!(of_one.call_text("echo", json!({ "text": "bare" })).await, "bare");
}

#[tokio::test]
async fn a_session_nobody_uses_expires() {
    let (_http, gateway) = one_server_with(json!({ "session_idle": "300ms" })).await;
    let client = gateway.connect().await;
    until("the session expires", async || gateway.health().await["sessions"] == 0).await;
    assert_eq!(status_with(&client.http, &client.id).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_session_with_a_call_under_way_or_a_listener_does_not_expire() {
    let (_http, gateway) = one_server_with(json!({ "session_idle": "400ms" })).await;
    let (calling, listening) = (gateway.connect().await, gateway.connect().await);
    let mut stream = listening.listen().await;
    let patient = async {
        // It would expire several times over meanwhile.
        let text = calling.call_text("web__slow", json!({ "ms": 1500 })).await;
        assert_eq!(text, "slow but done");
    };
    let heard = async {
        for _ in 0..8 {
            stream.bytes().await.expect("the listening stream goes on");
        }
    };
    tokio::join!(patient, heard);
    still_works(&calling).await;
    still_works(&listening).await;
}

#[tokio::test]
async fn without_a_session_there_is_a_400_that_says_what_to_do() {
    let (http, gateway) = one_server().await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "web__bump" } });
    for body in [PING.to_owned(), call.to_string()] {
        let answer = gateway.http().post(&[], body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("initialize"));
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    let accept = [("accept", "text/event-stream")];
    assert_eq!(gateway.http().get(&accept).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(gateway.http().delete(&[]).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(http.server().counters().calls, 0);
}

#[tokio::test]
async fn a_lenient_gateway_makes_a_session_for_a_client_that_has_none() {
    let section = json!({ "lenient": true, "session_idle": "1s" });
    let (_http, gateway) = one_server_with(section).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "web__echo", "arguments": { "text": "hi" } } });
    let answer = gateway.http().post(&[], body.to_string()).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    assert_eq!(status_with(&gateway.http(), &id).await, StatusCode::OK);
    // Ids that are wrong are still wrong.
    assert_eq!(status_with(&gateway.http(), "made-up").await, StatusCode::NOT_FOUND);
    until("unused sessions expire", async || gateway.health().await["sessions"] == 0).await;
    assert_eq!(status_with(&gateway.http(), &id).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_lenient_gateway_tells_the_session_of_a_batch_too() {
    let (_http, gateway) = one_server_with(json!({ "lenient": true })).await;
    let stream = gateway.http().post_for_events(&[], format!("[{PING}]")).await;
    assert_eq!(stream.status, StatusCode::OK);
    let id = stream.headers.get("mcp-session-id").expect("a session id").to_str().unwrap();
    assert_eq!(status_with(&gateway.http(), id).await, StatusCode::OK);
    // A revision without batches: no session is made for nothing.
    let before = gateway.health().await["sessions"].clone();
    let version = [("mcp-protocol-version", "2025-11-25")];
    let refused = gateway.http().post(&version, format!("[{PING}]")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(gateway.health().await["sessions"], before);
}

#[tokio::test]
async fn too_many_sessions_are_429_until_one_is_given_back() {
    let (_http, gateway) = one_server_with(json!({ "max_sessions": 2 })).await;
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    let refused = gateway.http().post(&[], hello.to_string()).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(seconds > 0);
    still_works(&one).await;
    two.http.delete(&two.headers()).await;
    still_works(&gateway.connect().await).await;
}

#[tokio::test]
async fn many_requests_with_a_session_from_before_a_restart_take_up_one_session() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    client.request("logging/setLevel", json!({ "level": "error" })).await;
    until("it is saved", async || {
        let saved = std::fs::read_to_string(gateway.state_dir().join("sessions.json"));
        saved.is_ok_and(|text| text.contains("error"))
    })
    .await;
    let gateway = gateway.restart(rustix::process::Signal::KILL).await;
    let all = (0..20).map(|_| client.request("ping", json!({})));
    for answer in futures_util::future::join_all(all).await {
        assert_eq!(answer["result"], json!({}));
    }
    assert_eq!(gateway.health().await["sessions"], 1);
    // What it had asked for was taken up with it, whichever request came first.
    let mut stream = client.listen().await;
    until("the gateway listens", async || http.server().counters().listening > 0).await;
    http.server().notify("notifications/message", json!({ "level": "info", "data": "no" }));
    http.server().notify("notifications/message", json!({ "level": "error", "data": "yes" }));
    let heard = loop {
        let message = stream.message().await.unwrap();
        if message["method"] == "notifications/message" {
            break message;
        }
    };
    assert_eq!(heard["params"]["data"], "yes");
}

#[tokio::test]
async fn a_session_survives_any_end_of_the_gateway() {
    let (http, mut gateway) = one_server().await;
    let clients: [Session; 2] = [gateway.connect().await, gateway.connect().await];
    still_works(&clients[0]).await;
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        gateway = gateway.restart(signal).await;
        for client in &clients {
            still_works(client).await;
        }
    }
    assert_eq!(http.server().counters().handshakes, 3);
}
