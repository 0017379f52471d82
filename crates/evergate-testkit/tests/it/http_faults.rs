//! Every fault on streamable HTTP.

use std::time::Duration;

use evergate_testkit::{AnswerStyle, Fault, HttpServer, Server, SessionLoss};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::raw_http::{BOTH, Client, End, Response, encode, read};

async fn start() -> (Server, HttpServer, Client) {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let client = Client::handshaken(&http).await;
    (server, http, client)
}

/// Calls `bump` under a fault; also how often it ran.
async fn call_under(fault: Fault, style: AnswerStyle) -> (Response, u64) {
    let (server, http, client) = start().await;
    http.answer_with(style);
    server.inject(fault.clone());
    let response = client.call("bump").await;
    assert_eq!(server.counters().faults, 1, "{fault:?}");
    (response, server.executions("a"))
}

#[tokio::test]
async fn table_of_faults() {
    use AnswerStyle::{Json, Sse};
    // fault, style, status, part of the body, how it ends, how often the tool ran
    let table = [
        (Fault::SessionLoss(SessionLoss::NotFound404), Json, 404, "-32001", End::Complete, 0),
        (Fault::Status(502, "bad gateway".into()), Sse, 502, "bad gateway", End::Complete, 0),
        (Fault::HangBeforeHeaders, Json, 0, "", End::Silence, 0),
        (Fault::HangMidStream, Json, 200, ": working on it", End::Silence, 1),
        (Fault::CutMidStream { event_id: false }, Json, 200, ": working", End::Cut, 1),
        (Fault::CutMidStream { event_id: true }, Sse, 200, "id: 1-0\n", End::Cut, 1),
        (Fault::HalfClose, Json, 0, "", End::Cut, 0),
        (Fault::CloseAfterBytes(10), Json, 0, "HTTP/1.1 2", End::Cut, 1),
        (Fault::CloseAfterBytes(10), Sse, 0, "HTTP/1.1 2", End::Cut, 1),
        (Fault::ExecuteThenCut, Json, 0, "", End::Cut, 1),
        (Fault::ExecuteThenCut, Sse, 0, "", End::Cut, 1),
        (Fault::CutBeforeExecute, Json, 0, "", End::Cut, 0),
        (Fault::WrongId, Json, 200, "nobody-asked", End::Complete, 1),
        (Fault::IdLess400, Json, 400, "Bad Request", End::Complete, 0),
        (Fault::Garbage, Json, 200, "this line is not JSON", End::Complete, 1),
        (Fault::Garbage, Sse, 200, "\"id\":1", End::Complete, 1),
        (Fault::Oversized(100_000), Json, 200, "xxxxx", End::Complete, 1),
        (Fault::Batch, Json, 200, "[{", End::Complete, 1),
        (Fault::SseRetry(1), Json, 200, "retry: 1\n", End::Complete, 1),
    ];
    for (fault, style, status, part, end, executed) in table {
        let (response, executions) = call_under(fault.clone(), style).await;
        assert_eq!((response.status, response.end), (status, end), "{fault:?}: {response:?}");
        assert!(response.body.contains(part), "{fault:?}: {}", response.body);
        assert_eq!(executions, executed, "{fault:?}");
    }
}

#[tokio::test]
async fn answers_twice_in_one_stream() {
    let (response, executions) = call_under(Fault::DuplicateAnswer, AnswerStyle::Json).await;
    let events = response.events();
    assert_eq!((events.len(), executions), (2, 1));
    assert_eq!(events[0], events[1]);
}

#[tokio::test]
async fn oversized_answers_have_the_size() {
    let (response, _) = call_under(Fault::Oversized(100_000), AnswerStyle::Json).await;
    assert!(response.body.len() > 100_000);
}

#[tokio::test]
async fn a_cut_stream_can_be_resumed() {
    let (server, _http, client) = start().await;
    server.inject(Fault::CutMidStream { event_id: true }).on_tool("bump");
    let cut = client.call("bump").await;
    let resumed = client.get(&[("last-event-id", cut.event_id().unwrap())]).await;
    assert_eq!((resumed.status, resumed.end), (200, End::Complete));
    let events = resumed.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].contains(r#""id":1,"result""#), "{events:?}");
    assert_eq!(server.executions("a"), 1);
}

#[tokio::test]
async fn a_cut_stream_can_be_lost_for_good() {
    let (server, _http, client) = start().await;
    server.inject(Fault::CutMidStream { event_id: true }).no_resume();
    let cut = client.call("bump").await;
    let resumed = client.get(&[("last-event-id", cut.event_id().unwrap())]).await;
    assert_eq!(resumed.status, 404);
}

#[tokio::test]
async fn retry_makes_the_client_poll() {
    let (server, _http, client) = start().await;
    server.inject(Fault::SseRetry(20)).on("tools/call");
    let body = encode("tools/call", &json!({ "name": "hold" }));
    let closed = client.post("/mcp", &body).await;
    assert_eq!(closed.end, End::Complete);
    let event_id = closed.event_id().unwrap();
    let early = client.get(&[("last-event-id", event_id)]).await;
    assert_eq!((early.events().len(), early.end), (0, End::Silence));
    server.release_held();
    server.wait_for(|counters| counters.listening == 0).await;
    let late = client.get(&[("last-event-id", event_id)]).await;
    assert_eq!((late.events().len(), late.end), (1, End::Complete));
}

#[tokio::test]
async fn a_client_that_polls_early_gets_the_answer_on_that_stream() {
    let (server, _http, client) = start().await;
    server.inject(Fault::SseRetry(20)).on("tools/call");
    let closed = client.post("/mcp", &encode("tools/call", &json!({ "name": "hold" }))).await;
    let resume = [("last-event-id", closed.event_id().unwrap())];
    let stream = client.open("/mcp", &resume).await;
    server.wait_for(|counters| counters.listening == 1).await;
    server.release_held();
    let resumed = read(stream).await;
    assert_eq!((resumed.events().len(), resumed.end), (1, End::Complete));
}

#[tokio::test]
async fn listening_streams_break_too() {
    let (server, _http, client) = start().await;
    let table = [
        (Fault::CutMidStream { event_id: true }, "id: ", End::Cut),
        (Fault::ExecuteThenCut, "", End::Cut),
        (Fault::SseRetry(7), "retry: 7", End::Complete),
        (Fault::CloseAfterBytes(5), "HTTP/", End::Cut),
    ];
    for (fault, part, end) in table {
        server.inject(fault.clone()).on("GET");
        let response = client.get(&[]).await;
        assert!(response.body.contains(part), "{fault:?}: {}", response.body);
        assert_eq!(response.end, end, "{fault:?}");
    }
    server.wait_for(|counters| counters.listening == 0).await;
    server.inject(Fault::HangMidStream).on("GET");
    let stream = client.open("/mcp", &[]).await;
    server.wait_for(|counters| counters.listening == 1).await;
    server.notify("notifications/message", json!({ "data": "unheard" }));
    let response = read(stream).await;
    assert_eq!((response.end, response.events().len()), (End::Silence, 0));
}

#[tokio::test]
async fn silence_outlasts_the_session() {
    let (server, _http, client) = start().await;
    server.inject(Fault::HangMidStream);
    let body = encode("ping", &json!({}));
    let stream = client.send("POST", "/mcp", &[("accept", BOTH)], &body).await.unwrap();
    server.wait_for(|counters| counters.faults == 1).await;
    server.expire_sessions(SessionLoss::NotFound404);
    assert_eq!(read(stream).await.end, End::Silence);
}

#[tokio::test]
async fn half_close_keeps_the_other_direction() {
    let (server, _http, client) = start().await;
    server.inject(Fault::HalfClose);
    let body = encode("ping", &json!({}));
    let mut stream = client.send("POST", "/mcp", &[("accept", BOTH)], &body).await.unwrap();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    for _ in 0..3 {
        stream.write_all(b"still there").await.unwrap();
    }
    assert_eq!(server.counters().connections_open, 1);
    drop(stream);
    server.wait_for(|counters| counters.connections_open == 0).await;
}

#[tokio::test]
async fn delayed_and_late_answers() {
    let (server, http, client) = start().await;
    server.inject(Fault::DelayAnswer(Duration::from_millis(50)));
    let began = Instant::now();
    assert_eq!(client.call("bump").await.status, 200);
    assert!(began.elapsed() >= Duration::from_millis(50));

    http.answer_with(AnswerStyle::Sse);
    server.inject(Fault::LateAnswer(Duration::from_millis(10))).on("tools/call");
    let body = encode("tools/call", &json!({ "name": "bump" }));
    let stream = client.send("POST", "/mcp", &[("accept", BOTH)], &body).await.unwrap();
    server.wait_for(|counters| counters.calls == 2).await;
    let cancel = json!({ "requestId": 1 });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel });
    assert_eq!(client.post("/mcp", &cancel.to_string()).await.status, 202);
    assert_eq!(read(stream).await.events().len(), 1);
}

#[tokio::test]
async fn delete_can_hang() {
    let (server, _http, client) = start().await;
    server.inject(Fault::HangInDelete);
    assert_eq!(client.call("bump").await.status, 200, "hits nothing but DELETE");
    let stream = client.send("DELETE", "/mcp", &[], "").await.unwrap();
    assert_eq!(read(stream).await.end, End::Silence);
    assert_eq!(server.counters().sessions_deleted, 0);
}

#[tokio::test]
async fn verbs_handshakes_and_notifications_are_hit_when_named() {
    let (server, http, client) = start().await;
    server.inject(Fault::SessionLoss(SessionLoss::NotFound404)).on("GET");
    server.inject(Fault::Status(503, String::new())).on("initialize");
    server.inject(Fault::Status(500, String::new())).on("notifications/cancelled");
    assert_eq!(client.get(&[]).await.status, 404);
    let fresh = Client::new(&http);
    assert_eq!(fresh.request("initialize", json!({})).await.status, 503);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#;
    assert_eq!(client.post("/mcp", cancel).await.status, 500);
    assert_eq!(server.counters().handshakes, 1);
    let lost = Fault::ExecuteThenCut;
    server.inject(lost).on("initialize");
    assert_eq!(fresh.request("initialize", json!({})).await.end, End::Cut);
    assert_eq!(server.counters().handshakes, 2);
}

#[tokio::test]
async fn a_cut_is_a_reset() {
    let (server, _http, client) = start().await;
    server.inject(Fault::CutBeforeExecute);
    let body = encode("ping", &json!({}));
    let mut stream = client.send("POST", "/mcp", &[("accept", BOTH)], &body).await.unwrap();
    let cut = timeout(Duration::from_secs(5), stream.read(&mut [0; 8])).await.unwrap();
    assert_eq!(cut.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}
