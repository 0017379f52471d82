//! `/sse` and `/message`, for clients of revision 2024-11-05.

use http::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{listened_to, one_server, one_server_with, tool_call};
use crate::support::{Answer, Events, Gateway, Http};

/// A client with its stream.
pub(crate) struct Sse {
    pub(crate) stream: Events,
    pub(crate) posts: Http,
    next: u64,
}

// === impl Sse ===

impl Sse {
    pub(crate) async fn open(http: Http, gateway: &Gateway) -> Self {
        let mut stream = http.listen(&[]).await;
        assert_eq!(stream.status, StatusCode::OK);
        let first = stream.next().await.unwrap();
        assert_eq!(first.kind, "endpoint");
        let endpoint = std::str::from_utf8(&first.data).unwrap().to_owned();
        assert!(endpoint.starts_with("/message?sessionId="), "{endpoint}");
        let mut posts = http;
        posts.url = gateway.at(&endpoint);
        Self { stream, posts, next: 0 }
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        self.posts.post(&[], message.to_string()).await
    }

    /// Sends a request; its answer is the next one on the stream.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        assert_eq!(self.post(&message).await.status, StatusCode::ACCEPTED);
        loop {
            let message = self.stream.message().await.unwrap();
            // News may come in between.
            if message.get("method").is_none() {
                assert_eq!(message["id"], self.next, "{message}");
                return message;
            }
        }
    }

    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": "2024-11-05", "capabilities": capabilities,
            "clientInfo": { "name": "old", "version": "1" } });
        let answer = self.request("initialize", params).await;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&initialized).await.status, StatusCode::ACCEPTED);
        answer
    }
}

async fn open(gateway: &Gateway) -> Sse {
    Sse::open(Http::new(&gateway.at("/sse")), gateway).await
}

#[tokio::test]
async fn a_client_introduces_itself_lists_and_calls() {
    let (http, gateway) = one_server().await;
    let mut client = open(&gateway).await;
    let welcome = client.initialize(json!({})).await;
    assert_eq!(welcome["result"]["protocolVersion"], "2024-11-05");
    let tools = client.request("tools/list", json!({})).await;
    assert!(tools.to_string().contains("web__echo"));
    let params = json!({ "name": "web__bump", "arguments": { "call_id": "once" } });
    let answer = client.request("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "1");
    assert_eq!(http.server().executions("once"), 1);
}

#[tokio::test]
async fn progress_news_and_questions_come_down_the_stream() {
    let (http, gateway) = one_server().await;
    listened_to(&http).await;
    let mut client = open(&gateway).await;
    client.initialize(json!({ "sampling": {} })).await;
    client.post(&json!({ "jsonrpc": "2.0", "id": "p", "method": "tools/call", "params": crate::fixture::steps(2, 0) })).await;
    for step in 1..=2 {
        assert_eq!(client.stream.message().await.unwrap()["params"]["progress"], step);
    }
    assert_eq!(client.stream.message().await.unwrap()["id"], "p");
    http.server().notify("notifications/message", json!({ "level": "info", "data": "news" }));
    assert_eq!(client.stream.message().await.unwrap()["params"]["data"], "news");
    client.post(&tool_call(&json!("s"), "web__sample", &json!({}))).await;
    let question = client.stream.message().await.unwrap();
    assert_eq!(question["method"], "sampling/createMessage");
    client
        .post(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "model": "old one" } }))
        .await;
    let answer = client.stream.message().await.unwrap();
    assert_eq!(answer["id"], "s");
    assert!(answer.to_string().contains("old one"), "{answer}");
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered() {
    let (http, gateway) = one_server().await;
    let mut client = open(&gateway).await;
    client.initialize(json!({})).await;
    client.post(&tool_call(&json!(9), "web__hold", &json!({ "call_id": "h" }))).await;
    http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
    client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } })).await;
    http.server().wait_for(|counters| counters.cancelled.len() == 1).await;
    // The next message is the answer to the next request.
    client.request("ping", json!({})).await;
}

#[tokio::test]
async fn messages_for_streams_that_do_not_exist_are_404() {
    let (_http, gateway) = one_server().await;
    let mut client = open(&gateway).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for path in
        ["/message", "/message?sessionId=", "/message?sessionId=0123456789abcdef", "/message?x=y"]
    {
        let answer = Http::new(&gateway.at(path)).post(&[], ping.clone()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    client.request("ping", json!({})).await;
    let gone = client.posts.clone();
    drop(client);
    crate::support::until("the session ends with its stream", async || {
        gone.post(&[], ping.clone()).await.status == StatusCode::NOT_FOUND
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_somebody_else_is_404() {
    let keys = json!([{ "name": "a", "key": "a-long-key-of-a-client" }, { "name": "b", "key": "b-long-key-of-a-client" }]);
    let (_http, gateway) = one_server_with(json!({ "auth": { "keys": keys } })).await;
    let of = |path: &str, key: &str| Http::new(&gateway.at(path)).header("x-api-key", key);
    let mut client = Sse::open(of("/sse", "a-long-key-of-a-client"), &gateway).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let mut thief = of("", "b-long-key-of-a-client");
    thief.url.clone_from(&client.posts.url);
    assert_eq!(thief.post(&[], ping).await.status, StatusCode::NOT_FOUND);
    client.request("ping", json!({})).await;
}

#[tokio::test]
async fn bad_messages_are_refused_and_the_stream_goes_on() {
    let (_http, gateway) = one_server_with(json!({ "max_body_bytes": 50_000 })).await;
    let mut client = open(&gateway).await;
    for (body, status) in [
        ("{".to_owned(), StatusCode::BAD_REQUEST),
        ("{}".to_owned(), StatusCode::BAD_REQUEST),
        ("[]".to_owned(), StatusCode::BAD_REQUEST),
        (" ".repeat(60_000), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        assert_eq!(client.posts.post(&[], body).await.status, status);
    }
    let plain = client.posts.post(&[("content-type", "text/plain")], "{}").await;
    assert_eq!(plain.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    client.request("ping", json!({})).await;
}

#[tokio::test]
async fn the_end_of_the_stream_ends_the_session_and_its_calls() {
    let (http, gateway) = one_server().await;
    let mut client = open(&gateway).await;
    client.initialize(json!({})).await;
    client.post(&tool_call(&json!(9), "web__hold", &json!({ "call_id": "h" }))).await;
    http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
    assert_eq!(gateway.health().await["sessions"], 1);
    drop(client);
    http.server().wait_for(|counters| counters.cancelled.len() == 1).await;
    crate::support::until("the session ends", async || gateway.health().await["sessions"] == 0)
        .await;
}

#[tokio::test]
async fn a_client_that_comes_back_may_go_on_without_a_handshake() {
    let (_http, gateway) = one_server().await;
    let mut client = open(&gateway).await;
    client.initialize(json!({})).await;
    drop(client);
    let gateway = gateway.restart(rustix::process::Signal::TERM).await;
    let mut again = open(&gateway).await;
    let params = json!({ "name": "web__echo", "arguments": { "text": "back" } });
    let answer = again.request("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "back");
}

#[tokio::test]
async fn a_client_that_comes_back_may_ask_many_things_at_once() {
    let (_http, gateway) = one_server().await;
    let mut client = open(&gateway).await;
    let posts = (0..20).map(|id| {
        let call = tool_call(&json!(id), "web__echo", &json!({ "text": "x" }));
        let posts = client.posts.clone();
        async move { posts.post(&[], call.to_string()).await.status }
    });
    for status in futures_util::future::join_all(posts).await {
        assert_eq!(status, StatusCode::ACCEPTED);
    }
    let mut answered = Vec::new();
    while answered.len() < 20 {
        let answer = client.stream.message().await.unwrap();
        assert!(answer.get("result").is_some(), "{answer}");
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..20).collect::<Vec<_>>());
    assert_eq!(gateway.health().await["sessions"], 1);
}

#[tokio::test]
async fn a_silent_stream_shows_signs_of_life() {
    let (_http, gateway) = one_server_with(json!({ "keep_alive": "200ms" })).await;
    let mut stream = Http::new(&gateway.at("/sse")).listen(&[]).await;
    let mut text = String::new();
    while text.matches("\n: ").count() < 2 {
        text.push_str(std::str::from_utf8(&stream.bytes().await.unwrap()).unwrap());
    }
    assert!(text.starts_with("event: endpoint\ndata: /message?sessionId="), "{text}");
}

#[tokio::test]
async fn a_draining_gateway_answers_what_is_under_way_and_ends_the_stream() {
    let (http, mut gateway) = one_server().await;
    let mut client = open(&gateway).await;
    client.initialize(json!({})).await;
    client.post(&tool_call(&json!(9), "web__hold", &json!({ "call_id": "h" }))).await;
    http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
    gateway.signal(rustix::process::Signal::TERM);
    crate::support::until("it drains", async || {
        Http::new(&gateway.at("/readyz")).get(&[]).await.status == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    http.server().release_held();
    assert_eq!(client.stream.message().await.unwrap()["id"], 9);
    assert_eq!(client.stream.message().await, None);
    assert!(gateway.ended().await.success());
}

/// A session must not outlive its stream because a message for it came slowly.
#[tokio::test]
async fn a_message_that_arrives_after_the_end_of_its_stream_leaves_nothing_behind() {
    let (_http, gateway) = one_server().await;
    let client = open(&gateway).await;
    let path = client.posts.url.strip_prefix(&gateway.at("")).unwrap().to_owned();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let (start, end) = body.split_at(10);
    let mut raw = crate::raw_http::RawHttp::connect(&gateway).await;
    raw.send(format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{start}",
        body.len()
    ))
    .await;
    // By the time of another answer the first part has been looked at.
    gateway.health().await;
    let posts = client.posts.clone();
    drop(client);
    crate::support::until("the stream's end is seen", async || {
        posts.post(&[], body.clone()).await.status == StatusCode::NOT_FOUND
    })
    .await;
    raw.send(end).await;
    raw.answer().await.unwrap();
    assert_eq!(gateway.health().await["sessions"], 0);
}
