//! What nobody should send, and that it harms nobody.

use std::fmt::Write as _;

use http::{Method, StatusCode};
use serde_json::json;

use crate::fixture::{one_server, one_server_with, still_works, tool_call};
use crate::raw_http::RawHttp;
use crate::support::Http;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn bodies_that_are_no_messages_get_the_code_for_it_and_disturb_nothing() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}"#, "[".repeat(100_000));
    let unparsable: [&[u8]; 10] = [
        b"",
        b"{",
        b"nonsense",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}",
        b"\0",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\0\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\0b\"}",
        b"\xef\xbb\xbf{}",
        deep.as_bytes(),
    ];
    for body in unparsable {
        let answer = client.post(body.to_vec()).await;
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{start}");
        assert_eq!(answer.json()["error"]["code"], -32700, "{start}");
        assert_eq!(answer.json()["id"], json!(null));
    }
    let strange = [
        "{}",
        "1",
        "null",
        "\"text\"",
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
    ];
    for body in strange {
        let answer = client.post(body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer.json()["error"]["code"], -32600, "{body}");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn a_connection_goes_on_after_a_bad_request() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let session = format!("Mcp-Session-Id: {}\r\n", client.id);
    let mut raw = RawHttp::connect(&gateway).await;
    for bad in ["{", "{}", "[]", "\0"] {
        assert_eq!(raw.post(&session, bad).await.status, 400, "{bad:?}");
        assert_eq!(raw.post(&session, PING).await.status, 200, "after {bad:?}");
    }
    assert_eq!(raw.post("Mcp-Session-Id: made-up\r\n", PING).await.status, 404);
    assert_eq!(raw.post("", PING).await.status, 400);
    assert_eq!(raw.post(&session, PING).await.status, 200);
}

#[tokio::test]
async fn a_connection_goes_on_after_a_request_that_was_turned_away_unread() {
    let keys = json!([{ "name": "a", "key": "a-long-key-of-a-client" }]);
    let (_http, gateway) = one_server_with(json!({ "auth": { "keys": keys } })).await;
    let key = "X-API-Key: a-long-key-of-a-client\r\n";
    let json = "Content-Type: application/json\r\n";
    let mut raw = RawHttp::connect(&gateway).await;
    for (path, headers, status) in [
        ("/mcp", format!("Host: localhost\r\n{json}"), 401),
        ("/mcp", format!("Host: evil.example\r\n{key}{json}"), 403),
        ("/mcp", format!("Host: localhost\r\n{key}{json}"), 406),
        ("/mcp", format!("Host: localhost\r\n{key}Accept: */*\r\n"), 415),
        ("/mcp/nobody", format!("Host: localhost\r\n{key}{json}"), 404),
        ("/nowhere", format!("Host: localhost\r\n{key}{json}"), 404),
        ("/message", format!("Host: localhost\r\n{key}{json}"), 404),
        ("/message?sessionId=x", format!("Host: localhost\r\n{key}"), 415),
    ] {
        let answer = raw.post_to(path, &headers, PING).await;
        assert_eq!((answer.status, answer.closes), (status, false), "{path}");
    }
    // What is too large to be read is said to end the connection.
    let answer = raw.post_to("/mcp", "Host: localhost\r\n", vec![b' '; 1_000_000]).await;
    assert_eq!((answer.status, answer.closes), (401, true));
}

#[tokio::test]
async fn other_content_types_are_415_and_other_accepts_406() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let session = ("mcp-session-id", client.id.as_str());
    for content in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"] {
        let answer = client.http.post(&[session, ("content-type", content)], PING).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content:?}");
    }
    for accept in ["application/json", "text/event-stream", "text/html", ""] {
        let answer = client.http.post(&[session, ("accept", accept)], PING).await;
        assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE, "{accept:?}");
    }
    for accept in ["application/json", ""] {
        let answer = client.http.get(&[session, ("accept", accept)]).await;
        assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE, "{accept:?}");
    }
    for accept in ["*/*", "application/*, text/*", "text/event-stream;q=1, application/json;q=0.1"]
    {
        let answer = client.http.post(&[session, ("accept", accept)], PING).await;
        assert_eq!(answer.status, StatusCode::OK, "{accept:?}");
    }
    let charset = ("content-type", "application/json; charset=utf-8");
    assert_eq!(client.http.post(&[session, charset], PING).await.status, StatusCode::OK);
}

#[tokio::test]
async fn bodies_over_the_limit_are_413_however_they_are_sent() {
    let (_http, gateway) = one_server_with(json!({ "max_body_bytes": 100_000 })).await;
    let client = gateway.connect().await;
    let body = tool_call(&json!(1), "web__echo", &json!({ "text": "x".repeat(100_000) }));
    let answer = client.post(body.to_string()).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("max_body_bytes"));

    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         Mcp-Session-Id: {}\r\n",
        client.id
    );
    // Says that it will be large, and would never have to say more.
    let mut raw = RawHttp::connect(&gateway).await;
    raw.send(format!("{head}Content-Length: 999999999999\r\n\r\n{{")).await;
    assert_eq!(raw.answer().await.unwrap().status, 413);
    // Does not say how large it is.
    let mut raw = RawHttp::connect(&gateway).await;
    raw.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n")).await;
    let chunk = format!("{:x}\r\n{}\r\n", 40_000, " ".repeat(40_000));
    for _ in 0..3 {
        raw.send(&chunk).await;
    }
    assert_eq!(raw.answer().await.unwrap().status, 413);

    let fits = tool_call(&json!(1), "web__echo", &json!({ "text": "x".repeat(90_000) }));
    assert_eq!(client.post(fits.to_string()).await.status, StatusCode::OK);
    still_works(&client).await;
}

/// A client that writes all before it reads anything must still get to see the refusal.
#[tokio::test]
async fn a_client_that_sends_far_too_much_still_reads_why_it_was_refused() {
    let (_http, gateway) = one_server_with(json!({ "max_body_bytes": 10_000 })).await;
    for _ in 0..10 {
        let mut raw = RawHttp::connect(&gateway).await;
        let answer = raw.post("", vec![b' '; 3_000_000]).await;
        assert_eq!((answer.status, answer.closes), (413, true));
    }
}

#[tokio::test]
async fn ids_of_every_kind_come_back_byte_for_byte() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let long = format!("\"{}\"", "i".repeat(50_000));
    for id in [
        "0",
        "-1",
        "1.0",
        "1.50e+3",
        "9223372036854775808",
        "123456789012345678901234567890",
        "\"\"",
        "\"1\"",
        r#""\u0041\n\"ü""#,
        &long,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let answer = client.post(body).await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(answer.text(), expected);
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"web__log"}}}}"#
        );
        let stream = client.http.post_for_events(&client.headers(), call).await.rest().await;
        assert!(stream.contains(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)));
    }
}

#[tokio::test]
async fn what_is_asked_for_wrongly_gets_an_error_for_its_id() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let cases = [
        ("tools/call", json!({ "name": "web__no_such_tool" }), -32602),
        ("tools/call", json!({ "name": "echo" }), -32602),
        ("tools/call", json!({ "name": "elsewhere__echo" }), -32602),
        ("tools/call", json!({ "name": "" }), -32602),
        ("tools/call", json!({ "name": 7 }), -32602),
        ("tools/call", json!({ "name": null }), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!([1, 2]), -32602),
        ("tools/call", json!("text"), -32602),
        ("tools/list", json!({ "cursor": "made up" }), -32602),
        ("prompts/get", json!({ "name": "no such prompt" }), -32602),
        ("logging/setLevel", json!({ "level": "loud" }), -32602),
        ("resources/read", json!({}), -32602),
    ];
    for (method, params, code) in cases {
        let answer = client.request_with_id(json!("q"), method, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert_eq!(answer["id"], "q");
    }
    still_works(&client).await;
}

#[tokio::test]
async fn deeply_nested_arguments_are_passed_on_or_refused_and_nothing_breaks() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    still_works(&client).await;
    for depth in [10, 100, 127, 128, 10_000, 500_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"web__read","arguments":{{"x":{nested}}}}}}}"#
        );
        let answer = client.http.send(Method::POST, &post_headers(&client), call).await;
        assert!(answer.status().as_u16() < 500, "{depth}: {}", answer.status());
        still_works(&client).await;
    }
    assert!(http.server().counters().handshakes <= 8);
}

fn post_headers(client: &crate::support::Session) -> Vec<(&str, &str)> {
    let mut headers = client.headers().to_vec();
    headers.push(("accept", "*/*"));
    headers.push(("content-type", "application/json"));
    headers
}

#[tokio::test]
async fn wrong_methods_are_405_and_say_which_are_right() {
    let (_http, gateway) = one_server().await;
    for (path, method, allowed) in [
        ("/mcp", Method::PUT, "GET, POST, DELETE"),
        ("/mcp", Method::PATCH, "GET, POST, DELETE"),
        ("/mcp", Method::HEAD, "GET, POST, DELETE"),
        ("/mcp", Method::OPTIONS, "GET, POST, DELETE"),
        ("/mcp/web", Method::PUT, "GET, POST, DELETE"),
        ("/sse", Method::POST, "GET"),
        ("/message", Method::GET, "POST"),
        ("/close", Method::GET, "POST"),
        ("/health", Method::POST, "GET"),
        ("/livez", Method::POST, "GET"),
        ("/readyz", Method::DELETE, "GET"),
    ] {
        let answer = Http::new(&gateway.at(path)).send(method.clone(), &[], "").await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert_eq!(answer.headers()["allow"], allowed, "{method} {path}");
    }
    assert_eq!(gateway.health().await["status"], "healthy");
}

#[tokio::test]
async fn paths_and_servers_that_do_not_exist_are_404() {
    let (_http, gateway) = one_server().await;
    for path in [
        "/else",
        "/dashboard/else",
        "/mcpx",
        "/mcp/nobody",
        "/mcp/web/more",
        "/mcp/%zz",
        "/mcp/%ff",
        "/mcp/%2e%2e",
    ] {
        let answer = Http::new(&gateway.at(path)).post(&[], PING).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.json()["error"]["message"].is_string());
    }
    for path in ["/mcp/web", "/mcp/web/", "/mcp/%77eb", "/mcp/"] {
        Http::new(&gateway.at(path)).initialize().await;
    }
}

#[tokio::test]
async fn a_flood_of_headers_is_refused() {
    let (_http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut many = String::new();
    for number in 0..2000 {
        write!(many, "X-{number}: y\r\n").unwrap();
    }
    let mut raw = RawHttp::connect(&gateway).await;
    assert_eq!(raw.post(&many, PING).await.status, 431);
    let mut raw = RawHttp::connect(&gateway).await;
    raw.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ").await;
    raw.send("y".repeat(2_000_000)).await;
    assert!(raw.answer().await.is_none_or(|answer| answer.status == 431));
    let mut raw = RawHttp::connect(&gateway).await;
    raw.send("this is not HTTP\r\n\r\n").await;
    assert!(raw.answer().await.is_none_or(|answer| answer.status == 400));
    still_works(&client).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_disturbs_nobody() {
    let (http, gateway) = one_server().await;
    let client = gateway.connect().await;
    let call = tool_call(&json!(1), "web__bump", &json!({ "call_id": "cut" })).to_string();
    let mut raw = RawHttp::connect(&gateway).await;
    raw.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         Mcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n{call}",
        client.id,
        call.len() + 1,
    ))
    .await;
    drop(raw);
    still_works(&client).await;
    assert_eq!(http.server().executions("cut"), 0);
}

/// Bodies, keys, session ids and query strings are in no log line, whatever is logged.
#[tokio::test]
async fn nothing_that_clients_send_is_in_the_logs() {
    let http = evergate_testkit::HttpServer::start(evergate_testkit::Server::new()).await;
    let config = json!({
        "mcpServers": { "web": { "url": format!("{}?token=hunter2query", http.url()), "headers": { "X-Secret": "hunter2header" } } },
        "gateway": { "auth": { "keys": [{ "name": "alice", "key": "hunter2hunter2key" }] } },
    });
    let gateway = crate::support::gateway(&config).env("RUST_LOG", "trace").start();
    let door = gateway.http().header("x-api-key", "hunter2hunter2key");
    let client = door.initialize().await;
    client.call("web__echo", json!({ "text": "hunter2body" })).await;
    client.call("web__hunter2tool", json!({})).await;
    for body in ["{\"hunter2bad\"", "[\"hunter2bad\"]", "{\"method\":\"hunter2bad\",\"id\":{}}"] {
        client.post(body).await;
    }
    gateway.http().header("authorization", "Bearer hunter2wrong").get(&[]).await;
    let foreign = [("mcp-session-id", "hunter2session"), ("last-event-id", "hunter2event")];
    door.post(&foreign, PING).await;
    door.listen(&foreign).await;
    let sse = Http::new(&gateway.at("/message?sessionId=hunter2number"));
    sse.header("x-api-key", "hunter2hunter2key").post(&[], PING).await;
    let logs = gateway.stderr();
    assert!(!logs.is_empty());
    assert!(!logs.contains(&client.id), "a session id is in the logs");
    let leaks: Vec<&str> = logs.lines().filter(|line| line.contains("hunter2")).collect();
    assert_eq!(leaks, [] as [&str; 0]);
}
