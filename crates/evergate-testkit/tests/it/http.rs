//! Streamable HTTP as it should be.

use evergate_testkit::{AnswerStyle, HttpServer, ListKind, Server, SessionLoss, serve_http_io};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::raw_http::{BOTH, Client, End, encode, read};

async fn start() -> (Server, HttpServer) {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    (server, http)
}

#[tokio::test]
async fn session_from_handshake_to_delete() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let response = client.call("bump").await;
    assert_eq!((response.status, response.end), (200, End::Complete));
    assert_eq!(response.headers["content-type"], "application/json");
    assert_eq!(response.json()["result"]["content"][0]["text"], "1");
    let counters = server.counters();
    assert_eq!((counters.handshakes, counters.initialized, counters.sessions_open), (1, 1, 1));
    assert_eq!(Some(&counters.last_headers["mcp-session-id"]), client.session.as_ref());

    let deleted = read(client.send("DELETE", "/mcp", &[], "").await.unwrap()).await;
    assert_eq!(deleted.status, 200);
    let response = client.call("bump").await;
    assert_eq!(response.status, 404);
    assert_eq!(response.json()["error"]["code"], -32001);
    assert_eq!(response.json()["id"], Value::Null);
    let counters = server.counters();
    assert_eq!((counters.sessions_deleted, counters.sessions_open), (1, 0));
    assert_eq!(counters.calls, 1);
}

#[tokio::test]
async fn refuses_what_the_specification_refuses() {
    let (_server, http) = start().await;
    let mut client = Client::new(&http);
    assert_eq!(client.call("bump").await.status, 400, "no session id");
    client.session = Some("made-up".into());
    assert_eq!(client.call("bump").await.status, 404, "unknown session id");
    let client = Client::handshaken(&http).await;
    let ping = encode("ping", &json!({}));
    let send = async |verb: &str, headers: &[(&str, &str)], body: &str| {
        read(client.send(verb, "/mcp", headers, body).await.unwrap()).await.status
    };
    assert_eq!(send("POST", &[("accept", "application/json")], &ping).await, 406);
    assert_eq!(send("GET", &[("accept", "application/json")], "").await, 406);
    let version = ("mcp-protocol-version", "1999-01-01");
    assert_eq!(send("POST", &[("accept", BOTH), version], &ping).await, 400);
    assert_eq!(send("POST", &[("accept", BOTH)], "{").await, 400);
    assert_eq!(send("POST", &[("accept", BOTH)], &format!("[{ping}]")).await, 400, "batch");
    assert_eq!(send("PUT", &[], "").await, 405);
    http.listening_stream(false);
    assert_eq!(client.get(&[]).await.status, 405);
}

#[tokio::test]
async fn answers_with_streams_when_told_or_needed() {
    let (_server, http) = start().await;
    let client = Client::handshaken_with(&http, "2025-06-18").await;
    let response = client.call("log").await;
    assert_eq!(response.headers["content-type"], "text/event-stream");
    assert_eq!(response.end, End::Complete);
    let events = response.events();
    assert!(events[0].contains("notifications/message"), "{events:?}");
    assert!(events[1].contains("logged"), "{events:?}");
    http.answer_with(AnswerStyle::Sse);
    let response = client.call("bump").await;
    assert_eq!(response.events().len(), 1);
    assert!(!response.body.contains("data:\n"), "no priming event before 2025-11-25");
    let client = Client::handshaken(&http).await;
    // The first stream of the session was the answer to its `initialize`.
    assert!(client.call("bump").await.body.starts_with("id: 2-0\ndata:\n\n"));
}

#[tokio::test]
async fn batches_belong_to_one_revision() {
    let (server, http) = start().await;
    let client = Client::handshaken_with(&http, "2025-03-26").await;
    let ping = encode("ping", &json!({}));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
    let response = client.post("/mcp", &format!("[{ping},{note},{ping}]")).await;
    assert_eq!(response.json().as_array().unwrap().len(), 2);
    assert_eq!(server.counters().cancelled, [json!(9)]);
    assert_eq!(client.post("/mcp", &format!("[{note}]")).await.status, 202);
}

#[tokio::test]
async fn listening_stream_carries_unasked_messages_and_resumes() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let stream = client.open("/mcp", &[]).await;
    server.wait_for(|counters| counters.listening == 1).await;
    server.notify_list_changed(ListKind::Prompts);
    let answer = server.request_client("roots/list", Value::Null);
    let seen = read(stream).await;
    assert_eq!(seen.end, End::Silence);
    let events = seen.events();
    assert!(events[0].contains("notifications/prompts/list_changed"), "{events:?}");
    let asked: Value = serde_json::from_str(&events[1]).unwrap();
    let reply = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } });
    assert_eq!(client.post("/mcp", &reply.to_string()).await.status, 202);
    assert_eq!(answer.await.unwrap()["result"]["roots"], json!([]));

    // `read` dropped the connection, which the server notices by itself.
    server.wait_for(|counters| counters.listening == 0).await;
    server.notify("notifications/message", json!({ "data": "missed" }));
    let resumed = client.get(&[("last-event-id", seen.event_id().unwrap())]).await;
    assert_eq!(resumed.events().len(), 1);
    assert!(resumed.body.contains("missed"), "{}", resumed.body);
    assert_eq!(resumed.end, End::Silence, "it goes on listening");
}

#[tokio::test]
async fn subscriptions_belong_to_sessions() {
    let (server, http) = start().await;
    let subscribed = Client::handshaken(&http).await;
    let other = Client::handshaken(&http).await;
    subscribed.request("resources/subscribe", json!({ "uri": "test://a" })).await;
    let streams = (subscribed.open("/mcp", &[]).await, other.open("/mcp", &[]).await);
    server.wait_for(|counters| counters.listening == 2).await;
    server.update_resource("test://a");
    let (mine, theirs) = tokio::join!(read(streams.0), read(streams.1));
    assert_eq!((mine.events().len(), theirs.events().len()), (1, 0));
}

#[tokio::test]
async fn asks_on_the_stream_of_the_call() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let body = encode("tools/call", &json!({ "name": "elicit" }));
    let stream = client.send("POST", "/mcp", &[("accept", BOTH)], &body).await.unwrap();
    server.wait_for(|counters| counters.calls == 1).await;
    // Ids of requests to clients come from the same numbers as those of transports and sessions.
    for id in 1..10 {
        let reply = json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } });
        client.post("/mcp", &reply.to_string()).await;
    }
    let events = read(stream).await.events();
    assert!(events[0].contains("elicitation/create"), "{events:?}");
    assert!(events[1].contains("accept"), "{events:?}");
}

#[tokio::test]
async fn losing_the_connection_does_not_cancel() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let body = encode("tools/call", &json!({ "name": "hold", "arguments": { "call_id": "h" } }));
    let stream = client.send("POST", "/mcp", &[("accept", BOTH)], &body).await.unwrap();
    server.wait_for(|counters| counters.calls == 1).await;
    drop(stream);
    server.wait_for(|counters| counters.connections_open == 0).await;
    assert_eq!(server.executions("h"), 1);
    server.release_held();
    assert_eq!(client.call("bump").await.status, 200);
}

#[tokio::test]
async fn expired_sessions_answer_in_their_shape() {
    let shapes = [
        (SessionLoss::NotFound404, 404, "-32001"),
        (SessionLoss::NotFound404Empty, 404, ""),
        (SessionLoss::BadRequest400NoValidSession, 400, "No valid session ID provided"),
        (SessionLoss::BadRequest400NotInitialized, 400, "Server not initialized"),
        (SessionLoss::BadRequest400Opaque, 400, "Bad Request"),
        (SessionLoss::Ok200(-32600, "session not found".into()), 200, "\"id\":1,\"error\""),
        (SessionLoss::Unauthorized401, 401, "Unauthorized: Session not found"),
        (SessionLoss::Unprocessable422, 422, "expect initialize request"),
        (SessionLoss::Unavailable503, 503, "session not found"),
    ];
    let (server, http) = start().await;
    for (shape, status, part) in shapes {
        let client = Client::handshaken(&http).await;
        let stream = client.open("/mcp", &[]).await;
        server.wait_for(|counters| counters.listening == 1).await;
        server.expire_sessions(shape.clone());
        assert_eq!(read(stream).await.end, End::Complete, "the listening stream ends");
        for response in [client.call("bump").await, client.call("bump").await] {
            assert_eq!(response.status, status, "{shape:?}");
            assert!(response.body.contains(part), "{shape:?}: {}", response.body);
        }
        assert_eq!(client.get(&[]).await.status, status);
        server.wait_for(|counters| counters.listening == 0).await;
    }
    let counters = server.counters();
    assert_eq!((counters.calls, counters.sessions_open), (0, 0));
}

#[tokio::test]
async fn dies_and_comes_back_on_the_same_port() {
    let (server, http) = start().await;
    server.set_unknown_session(SessionLoss::BadRequest400NoValidSession);
    let client = Client::handshaken(&http).await;
    let stream = client.open("/mcp", &[]).await;
    server.wait_for(|counters| counters.listening == 1).await;
    for _ in 0..3 {
        http.kill().await;
        let counters = server.counters();
        assert_eq!((counters.connections_open, counters.sessions_open), (0, 0));
        let refused = client.send("GET", "/mcp", &[], "").await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        http.revive().await;
        assert_eq!(client.call("bump").await.status, 400, "the session is forgotten");
        Client::handshaken(&http).await;
    }
    assert_eq!(read(stream).await.end, End::Cut);
}

#[tokio::test(start_paused = true)]
async fn speaks_http_over_any_stream_on_paused_time() {
    let server = Server::new();
    let (mut ours, theirs) = tokio::io::duplex(4096);
    let serving = serve_http_io(&server, theirs);
    let asking = async {
        let client = Client { addr: ([127, 0, 0, 1], 1).into(), session: None };
        let body = encode("initialize", &json!({ "protocolVersion": "2025-06-18" }));
        let request = client.encode("POST", "/mcp", &[("accept", BOTH)], &body);
        ours.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(read(ours).await.status, 200);
    };
    tokio::join!(serving, asking);
    assert_eq!(server.counters().handshakes, 1);
}

#[tokio::test]
async fn what_a_client_wrote_is_kept_byte_for_byte() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let params = r#"{ "name":"echo","arguments":{ "b":1.0e2 ,"a":18446744073709551617} }"#;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"#;
    client.post("/mcp", &format!("{call}{params}}}")).await;
    assert_eq!(server.received("tools/call"), [params]);
    assert_eq!(server.received("notifications/initialized").len(), 1);
}

#[tokio::test]
async fn without_the_token_nobody_gets_in() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    server.set_bearer_token(Some("secret"));
    assert_eq!(client.call("bump").await.status, 401);
    assert_eq!(client.get(&[]).await.status, 401);
    let ping = encode("ping", &json!({}));
    let send = async |token: &str| {
        let headers = [("accept", BOTH), ("authorization", token)];
        read(client.send("POST", "/mcp", &headers, &ping).await.unwrap()).await.status
    };
    assert_eq!(send("Bearer wrong").await, 401);
    assert_eq!(send("Bearer secret").await, 200);
    let counters = server.counters();
    assert_eq!((counters.unauthorized, counters.calls), (3, 0));
}

#[tokio::test]
async fn cut_listening_breaks_the_stream_and_keeps_the_session() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let stream = client.open("/mcp", &[]).await;
    server.wait_for(|counters| counters.listening == 1).await;
    server.cut_listening();
    assert_eq!(read(stream).await.end, End::Cut);
    assert_eq!(client.request("ping", json!({})).await.status, 200, "the session is still known");
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_sends_no_response() {
    let (server, http) = start().await;
    let client = Client::handshaken(&http).await;
    let call = encode("tools/call", &json!({ "name": "hold", "arguments": {} }));
    let stream = client.send("POST", "/mcp", &[("accept", BOTH)], &call).await.unwrap();
    server.wait_for(|counters| counters.calls == 1).await;
    http.kill().await;
    let response = read(stream).await;
    assert_eq!((response.end, response.body.as_str()), (End::Cut, ""));
}
