//! Lines in memory, all on paused time: what the server offers, and faults.

use std::io;
use std::time::Duration;

use evergate_testkit::{Fault, ListKind, MemoryServer, Server, SessionLoss};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::raw_lines::{handshaken, text};

fn start() -> (Server, MemoryServer) {
    let server = Server::new();
    let memory = MemoryServer::new(server.clone());
    (server, memory)
}

#[tokio::test(start_paused = true)]
async fn offers_lists_in_pages() {
    let (server, memory) = start();
    server.set_page_size(10);
    let mut client = handshaken(&memory).await;
    let first = client.request(1, "tools/list", json!({})).await;
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 10);
    let cursor = first["result"]["nextCursor"].clone();
    let second = client.request(2, "tools/list", json!({ "cursor": cursor })).await;
    assert_eq!(second["result"]["tools"].as_array().unwrap().len(), 5);
    assert_eq!(second["result"]["nextCursor"], Value::Null);
    for (method, member) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let list = client.request(3, method, json!({})).await;
        assert!(!list["result"][member].as_array().unwrap().is_empty(), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn negotiates_the_revision() {
    let (server, memory) = start();
    server.set_protocol("2025-03-26");
    server.set_instructions("be kind");
    server.set_capabilities(json!({ "tools": {} }));
    let mut client = handshaken(&memory).await;
    let answer = client.initialize().await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-03-26");
    assert_eq!(answer["result"]["instructions"], "be kind");
    assert_eq!(answer["result"]["capabilities"], json!({ "tools": {} }));
    let older = json!({ "protocolVersion": "2024-11-05" });
    let answer = client.request(1, "initialize", older).await;
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(server.counters().sessions_open, 1);
}

#[tokio::test(start_paused = true)]
async fn runs_tools_and_counts_them() {
    let (server, memory) = start();
    server.tool(
        "twice",
        json!({}),
        |arguments| json!({ "doubled": arguments["n"].as_u64().unwrap_or(0) * 2 }),
    );
    let mut client = handshaken(&memory).await;
    assert_eq!(text(&client.call(1, "echo", json!({ "text": "hi" })).await), "hi");
    assert_eq!(text(&client.call(2, "bump", json!({ "call_id": "b" })).await), "1");
    assert_eq!(text(&client.call(3, "bump", json!({ "call_id": "b" })).await), "2");
    assert_eq!(client.call(4, "twice", json!({ "n": 4 })).await["result"]["doubled"], 8);
    assert_eq!(client.call(5, "fail", json!({})).await["result"]["isError"], true);
    let error = client.call(6, "rpc_error", json!({})).await["error"].clone();
    assert_eq!((&error["code"], &error["hint"]), (&json!(-32050), &json!("extra")));
    assert_eq!(client.call(7, "nonsense", json!({})).await["error"]["code"], -32602);
    assert_eq!(client.request(8, "nonsense", json!({})).await["error"]["code"], -32601);
    let counters = server.counters();
    assert_eq!((counters.calls, server.executions("b")), (6, 2));
    assert_eq!(counters.requests["tools/call"], 7);
    assert_eq!((counters.handshakes, counters.initialized), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn passes_raw_results_byte_for_byte() {
    let (_server, memory) = start();
    let mut client = handshaken(&memory).await;
    let raw = r#"{"b": 1.0,"a":123456789012345678901234567890}"#;
    let params = json!({ "name": "raw", "arguments": { "json": raw } });
    client.begin(1, "tools/call", params).await;
    let line = client.line().await.unwrap().unwrap();
    assert_eq!(line.trim_end(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{raw}}}"#));
}

#[tokio::test(start_paused = true)]
async fn advertised_tools_change() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    server.set_tools(vec![json!({ "name": "only", "inputSchema": {}, "x-unknown": 1 })]);
    server.remove_tool("echo");
    server.notify_list_changed(ListKind::Tools);
    assert_eq!(client.message().await["method"], "notifications/tools/list_changed");
    let list = client.request(1, "tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"][0]["x-unknown"], 1);
    assert_eq!(text(&client.call(2, "only", json!({})).await), "only");
    assert_eq!(text(&client.call(3, "bump", json!({})).await), "1");
    assert_eq!(client.call(4, "echo", json!({})).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_prompts_completion_and_level() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    client.request(1, "resources/subscribe", json!({ "uri": "test://a" })).await;
    assert_eq!(server.counters().subscriptions, ["test://a"]);
    server.update_resource("test://b");
    server.update_resource("test://a");
    assert_eq!(client.message().await["params"]["uri"], "test://a");
    client.request(2, "resources/unsubscribe", json!({ "uri": "test://a" })).await;
    assert!(server.counters().subscriptions.is_empty());
    client.request(3, "logging/setLevel", json!({ "level": "warning" })).await;
    assert_eq!(server.counters().log_level.as_deref(), Some("warning"));
    let read = client.request(4, "resources/read", json!({ "uri": "test://zebra" })).await;
    assert_eq!(read["result"]["contents"][0]["text"], "contents of test://zebra");
    let missing = client.request(5, "resources/read", json!({ "uri": "else://a" })).await;
    assert_eq!(missing["error"]["code"], -32002);
    let prompt = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let prompt = client.request(6, "prompts/get", prompt).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Hello, Ada!");
    let complete = json!({ "argument": { "name": "name", "value": "al" } });
    let complete = client.request(7, "completion/complete", complete).await;
    assert_eq!(complete["result"]["completion"]["values"], json!(["alice"]));
}

#[tokio::test(start_paused = true)]
async fn progress_goes_before_the_answer() {
    let (_server, memory) = start();
    let mut client = handshaken(&memory).await;
    let began = Instant::now();
    let params = json!({
        "name": "progress",
        "arguments": { "steps": 2, "ms": 1000 },
        "_meta": { "progressToken": "t" },
    });
    let step = client.request(1, "tools/call", params).await;
    assert_eq!(step["params"], json!({ "progressToken": "t", "progress": 1, "total": 2 }));
    assert_eq!(client.message().await["params"]["progress"], 2);
    assert_eq!(text(&client.message().await), "all steps done");
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn asks_the_client() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    let asked = client.call(1, "sample", json!({})).await;
    assert_eq!(asked["method"], "sampling/createMessage");
    let reply = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "role": "assistant" } });
    client.send(&reply).await;
    let came_back: Value = serde_json::from_str(text(&client.message().await)).unwrap();
    assert_eq!(came_back, reply);

    let answer = server.request_client("roots/list", Value::Null);
    let asked = client.message().await;
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } })).await;
    assert_eq!(answer.await.unwrap()["result"], json!({ "roots": [] }));
    drop(client);
    server.wait_for(|counters| counters.connections_open == 0).await;
    assert!(server.request_client("roots/list", Value::Null).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn held_calls_end_by_release_or_cancellation() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    client.begin_call(1, "hold").await;
    client.begin_call(2, "hold").await;
    server.wait_for(|counters| counters.calls == 2).await;
    let cancel = json!({ "requestId": 1 });
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }))
        .await;
    server.wait_for(|counters| counters.cancelled == [json!(1)]).await;
    server.release_held();
    assert_eq!(client.message().await["id"], 2);
    assert_eq!(client.request(3, "ping", json!({})).await["id"], 3);
}

#[tokio::test(start_paused = true)]
async fn memory_server_dies_and_comes_back() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    assert_eq!(server.counters().sessions_open, 1);
    memory.kill();
    assert_eq!(client.line().await.unwrap(), None);
    server.wait_for(|counters| counters.connections_open == 0).await;
    assert_eq!(server.counters().sessions_open, 0);
    let refused = memory.connect().unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    memory.revive();
    memory.refuse_next(1);
    assert!(memory.connect().is_err());
    memory.set_connect_delay(Duration::from_secs(31));
    let began = Instant::now();
    handshaken(&memory).await;
    assert_eq!(began.elapsed().as_secs(), 31);
    assert_eq!(server.counters().handshakes, 2);
}

#[tokio::test(start_paused = true)]
async fn expired_sessions_answer_in_the_shape_until_a_new_handshake() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    server.expire_sessions(SessionLoss::Ok200(-32015, "no such session".into()));
    for id in 1..3 {
        let error = client.call(id, "bump", json!({})).await["error"].clone();
        assert_eq!(error, json!({ "code": -32015, "message": "no such session" }));
    }
    client.initialize().await;
    assert_eq!(text(&client.call(3, "bump", json!({})).await), "1");
}

#[tokio::test(start_paused = true)]
async fn rules_choose_requests() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    let fault = || Fault::Status(500, "broken".into());
    server.inject(fault()).on_tool("bump").after(1).times(2);
    let mut failed = Vec::new();
    for id in 1..6 {
        client.call(id, "echo", json!({})).await;
        failed.push(client.call(id, "bump", json!({})).await["error"].is_object());
    }
    assert_eq!(failed, [false, true, true, false, false]);
    assert_eq!(server.counters().faults, 2);
    server.inject(fault()).forever();
    assert_eq!(client.initialize().await["error"], Value::Null);
    assert!(client.request(6, "ping", json!({})).await["error"].is_object());
    server.clear_faults();
    assert!(client.request(7, "ping", json!({})).await["error"].is_null());
    server.inject(fault()).on("initialize").arm();
    assert!(client.initialize().await["error"].is_object());
}

/// Arms a fault, calls `bump` and returns every line until the stream ends or stays silent, with
/// whether it ended.
async fn lines_after(fault: Fault) -> (Vec<String>, bool, u64) {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    server.inject(fault).on("tools/call");
    client.begin_call(1, "bump").await;
    let mut lines = Vec::new();
    let ended = loop {
        match timeout(Duration::from_hours(1), client.line()).await {
            Ok(Ok(Some(line))) => lines.push(line.trim_end().into()),
            Ok(_) => break true,
            Err(_) => break false,
        }
    };
    (lines, ended, server.executions("a"))
}

#[tokio::test(start_paused = true)]
async fn faults_on_lines() {
    const ANSWER: &str =
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"1","type":"text"}]}}"#;
    // fault, what the lines contain in order, whether the stream ends, how often the tool ran
    let table: Vec<(Fault, Vec<&str>, bool, u64)> = vec![
        (Fault::SessionLoss(SessionLoss::NotFound404), vec!["Session not found"], false, 0),
        (Fault::Status(500, "boom".into()), vec!["boom"], false, 0),
        (Fault::HangBeforeHeaders, vec![], false, 0),
        (Fault::HangMidStream, vec!["working on it"], false, 1),
        (Fault::CutMidStream { event_id: false }, vec!["working on it"], true, 1),
        (Fault::HalfClose, vec![], true, 0),
        (Fault::CloseAfterBytes(20), vec![&ANSWER[..20]], true, 1),
        (Fault::ExecuteThenCut, vec![], true, 1),
        (Fault::CutBeforeExecute, vec![], true, 0),
        (Fault::DelayAnswer(Duration::from_mins(1)), vec![ANSWER], false, 1),
        (Fault::DuplicateAnswer, vec![ANSWER, ANSWER], false, 1),
        (Fault::WrongId, vec![r#""id":"nobody-asked-with-this-id""#], false, 1),
        (Fault::IdLess400, vec!["Bad Request"], false, 0),
        (Fault::LateAnswer(Duration::ZERO), vec![], false, 1),
        (Fault::Garbage, vec!["this line is not JSON", ANSWER], false, 1),
        (Fault::Oversized(5000), vec!["xxxxxxxxxx"], false, 1),
        (Fault::Batch, vec![ANSWER], false, 1),
        (Fault::SseRetry(1), vec![ANSWER], false, 1),
    ];
    for (fault, expected, ends, executed) in table {
        let (lines, ended, executions) = lines_after(fault.clone()).await;
        assert_eq!(lines.len(), expected.len(), "{fault:?}: {lines:?}");
        for (line, part) in lines.iter().zip(expected) {
            assert!(line.contains(part), "{fault:?}: {line}");
        }
        assert_eq!((ended, executions), (ends, executed), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_follows_the_cancellation() {
    let (server, memory) = start();
    let mut client = handshaken(&memory).await;
    server.inject(Fault::LateAnswer(Duration::from_secs(5)));
    client.begin_call(1, "bump").await;
    server.wait_for(|counters| counters.calls == 1).await;
    let cancel = json!({ "requestId": 1 });
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }))
        .await;
    let began = Instant::now();
    assert_eq!(text(&client.message().await), "1");
    assert_eq!(began.elapsed().as_secs(), 5);
}
