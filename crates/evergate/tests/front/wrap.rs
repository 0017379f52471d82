//! `evergate wrap`: one server as it is, but it recovers.

use evergate_testkit::{HttpServer, Server};
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::tool_call;
use crate::pipes::{Pipes, kill, scripted};
use crate::support::{exists, until};

#[tokio::test]
async fn the_server_shows_through() {
    let server = Server::new();
    server.set_instructions("Use it well.\nAlways.");
    server.set_capabilities(json!({ "tools": {}, "experimental": { "x": { "y": 1 } } }));
    let http = HttpServer::start(server).await;
    let mut client = Pipes::start(["wrap".to_owned(), http.url()]);
    assert_eq!(client.request(json!(1), "ping", json!({})).await["result"], json!({}));
    let welcome = client.initialize().await;
    assert_eq!(welcome["serverInfo"]["name"], "evergate-testkit");
    assert_eq!(welcome["instructions"], "Use it well.\nAlways.");
    assert_eq!(
        welcome["capabilities"],
        json!({ "tools": { "listChanged": true }, "experimental": { "x": { "y": 1 } } })
    );
    let tools = client.request(json!(2), "tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "echo");
    assert_eq!(client.call_text("echo", json!({ "text": "bare" })).await, "bare");
    client.input = None;
    assert_eq!(client.next().await, None);
    assert_eq!(client.ended().await.code(), Some(0));
    assert_eq!(http.server().counters().sessions_open, 0, "its session was given back");
}

#[tokio::test]
async fn a_command_is_served_with_everything_it_can_do() {
    let mut client = Pipes::wrap(&[]);
    let welcome = client.initialize().await;
    assert_eq!(welcome["serverInfo"]["name"], "evergate-testkit");
    assert_eq!(client.call_text("echo", json!({ "text": "hi" })).await, "hi");
    let params = json!({ "name": "progress", "arguments": { "steps": 2 }, "_meta": { "progressToken": "t" } });
    client
        .send(&json!({ "jsonrpc": "2.0", "id": "p", "method": "tools/call", "params": params }))
        .await;
    for step in 1..=2 {
        assert_eq!(client.next().await.unwrap()["params"]["progress"], step);
    }
    assert_eq!(client.next().await.unwrap()["id"], "p");
    for tool in ["sample", "elicit", "roots"] {
        client.send(&tool_call(&json!(tool), tool, &json!({}))).await;
        let question = client.next().await.unwrap();
        client
            .send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "to": tool } }))
            .await;
        let answer = client.answer(&json!(tool)).await.to_string();
        assert!(answer.contains(&format!("\\\"to\\\":\\\"{tool}\\\"")), "{answer}");
    }
}

#[tokio::test]
async fn a_command_runs_where_and_with_what_the_client_started_it() {
    // Cargo runs tests in the folder that this variable names.
    let script = format!("test \"$CARGO_MANIFEST_DIR\" -ef . && exec '{}'", scripted().display());
    let mut client = Pipes::start(["wrap", "--", "sh", "-c", &script]);
    client.initialize().await;
    assert_eq!(client.call_text("echo", json!({ "text": "hi" })).await, "hi");
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_named_in_every_answer() {
    let mut client = Pipes::start(["wrap", "--", "/no/such/command"]);
    client.initialize().await;
    let answer = client.request(json!(1), "tools/call", json!({ "name": "x" })).await;
    assert_eq!(answer["error"]["data"]["outcome"], "not_sent");
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("command_not_found"), "{said}");
    client.input = None;
    assert_eq!(client.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_killed_child_is_replaced_between_calls() {
    let mut client = Pipes::wrap(&[]);
    client.initialize().await;
    let mut last = 0;
    for _ in 0..3 {
        let pid: u32 = client.call_text("pid", json!({})).await.parse().unwrap();
        assert_ne!(pid, last);
        kill(pid, Signal::KILL);
        until("it is gone", async || !exists(pid)).await;
        last = pid;
    }
    assert_eq!(client.call_text("echo", json!({ "text": "still" })).await, "still");
}

#[tokio::test]
async fn a_child_killed_during_a_call_gives_an_error_that_says_so_and_the_next_call_works() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut client = Pipes::wrap(&["--state-file", state.to_str().unwrap()]);
    client.initialize().await;
    let pid: u32 = client.call_text("pid", json!({})).await.parse().unwrap();
    client.send(&tool_call(&json!("h"), "hold", &json!({ "call_id": "held" }))).await;
    let runs = || std::fs::read_to_string(&state).unwrap_or_default().matches(" held\n").count();
    until("it runs", async || runs() == 1).await;
    kill(pid, Signal::KILL);
    let answer = client.answer(&json!("h")).await;
    assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
    assert_eq!(client.call_text("echo", json!({ "text": "next" })).await, "next");
    assert_eq!(runs(), 1);
}

#[tokio::test]
async fn output_of_the_child_that_is_no_message_never_reaches_the_client() {
    let mut client = Pipes::wrap(&["--garbage", "--stderr", "chatter"]);
    client.initialize().await;
    assert_eq!(client.call_text("echo", json!({ "text": "clean" })).await, "clean");
}

#[tokio::test]
async fn a_result_with_line_breaks_stays_on_one_line() {
    let http = HttpServer::start(Server::new()).await;
    let mut client = Pipes::start(["wrap".to_owned(), http.url()]);
    client.initialize().await;
    let pretty = "{\n  \"content\": [\r\n  ],\n \"n\": 1.0\n}";
    let params = json!({ "name": "raw", "arguments": { "json": pretty } });
    let answer = client.request(json!(1), "tools/call", params).await;
    assert_eq!(answer["result"], json!({ "content": [], "n": 1.0 }));
}

#[tokio::test]
async fn a_server_that_starts_slowly_is_waited_for_even_if_no_more_input_comes() {
    let mut client = Pipes::wrap(&["--slow-start", "1500"]);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    client.send(&hello).await;
    client.send(&tool_call(&json!(2), "echo", &json!({ "text": "patient" }))).await;
    client.input = None;
    let mut answers = [json!(null), json!(null)];
    while let Some(message) = client.next().await {
        match message["id"].as_u64() {
            Some(id) => answers[usize::try_from(id).unwrap() - 1] = message,
            None => assert_ne!(answers[0], json!(null), "news came too early: {message}"),
        }
    }
    let [welcome, echo] = answers;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "evergate-testkit", "{welcome}");
    assert_eq!(echo["result"]["content"][0]["text"], "patient", "{echo}");
    assert_eq!(client.ended().await.code(), Some(0));
}

#[tokio::test]
async fn nothing_of_it_survives_even_a_kill() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut client = Pipes::wrap(&["--ignore-stdin-eof"]);
        client.initialize().await;
        let child: u32 = client.call_text("pid", json!({})).await.parse().unwrap();
        kill(client.pid(), signal);
        client.ended().await;
        until("the child is gone", async || !exists(child)).await;
    }
}

#[tokio::test]
async fn an_address_that_comes_up_late_is_waited_for() {
    let http = HttpServer::start(Server::new()).await;
    http.kill().await;
    let mut client = Pipes::start(["wrap".to_owned(), http.url()]);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    client.send(&hello).await;
    client.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
    assert_eq!(client.next().await.unwrap()["id"], 2, "others do not wait");
    http.revive().await;
    let welcome = client.answer(&json!(1)).await;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "evergate-testkit");
}

#[tokio::test]
async fn wrong_usage_is_64() {
    for args in [
        &["wrap"][..],
        &["wrap", "http://localhost:1/mcp", "more"],
        &["wrap", "--header", "nonsense", "http://localhost:1/mcp"],
    ] {
        let mut client = Pipes::start(args);
        assert_eq!(client.ended().await.code(), Some(64), "{args:?}");
        assert_eq!(client.next().await, None);
    }
}
