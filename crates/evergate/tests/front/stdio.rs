//! `evergate stdio`: all servers, for clients that launch a command.

use evergate_testkit::{HttpServer, Server};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::tool_call;
use crate::pipes::{Pipes, kill, scripted};
use crate::support::{exists, until};

/// Two servers: one over HTTP, one a child.
async fn two_servers(section: Value) -> (HttpServer, TempDir, Pipes) {
    let http = HttpServer::start(Server::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evergate.json");
    let servers = json!({ "web": { "url": http.url() }, "child": { "command": scripted() } });
    let config = json!({ "mcpServers": servers, "gateway": section });
    std::fs::write(&path, config.to_string()).unwrap();
    let pipes = Pipes::start(["stdio", "--config", path.to_str().unwrap()]);
    (http, folder, pipes)
}

#[tokio::test]
async fn a_whole_conversation() {
    let (http, _folder, mut client) = two_servers(json!({})).await;
    assert_eq!(client.request(json!(0), "ping", json!({})).await["result"], json!({}));
    let early = client.request(json!(1), "tools/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32600);
    let welcome = client.initialize().await;
    assert_eq!(welcome["serverInfo"]["name"], "evergate");
    let tools = client.request(json!(2), "tools/list", json!({})).await.to_string();
    assert!(tools.contains("\"web__echo\"") && tools.contains("\"child__pid\""), "{tools}");
    assert_eq!(client.call_text("web__echo", json!({ "text": "a" })).await, "a");
    assert_eq!(client.call_text("child__echo", json!({ "text": "b" })).await, "b");

    let params = json!({ "name": "child__progress", "arguments": { "steps": 3 }, "_meta": { "progressToken": 0 } });
    client
        .send(&json!({ "jsonrpc": "2.0", "id": "p", "method": "tools/call", "params": params }))
        .await;
    for step in 1..=3 {
        let message = client.next().await.unwrap();
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], 0);
        assert_eq!(message["params"]["progress"], step);
    }
    assert_eq!(client.next().await.unwrap()["id"], "p");

    for server in ["web", "child"] {
        client.send(&tool_call(&json!("s"), &format!("{server}__sample"), &json!({}))).await;
        let question = client.next().await.unwrap();
        assert_eq!(question["method"], "sampling/createMessage");
        client
            .send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "model": server } }))
            .await;
        let answer = client.answer(&json!("s")).await.to_string();
        assert!(answer.contains(&format!("\\\"model\\\":\\\"{server}\\\"")), "{answer}");
    }

    let held = tool_call(&json!("h"), "web__hold", &json!({ "call_id": "h" }));
    client.send(&held).await;
    http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "h" } }))
        .await;
    http.server().wait_for(|counters| counters.cancelled.len() == 1).await;
    // No answer to what was taken back: the next line is the next answer.
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" })).await;
    assert_eq!(client.next().await.unwrap()["id"], 9);
}

/// Both lines come in one piece, so that nothing separates them.
#[tokio::test]
async fn a_cancellation_right_behind_its_request_is_not_missed() {
    let (http, _folder, mut client) = two_servers(json!({})).await;
    client.initialize().await;
    client.call_text("web__echo", json!({})).await;
    for round in 0..30 {
        let request = tool_call(&json!(round), "web__hold", &json!({}));
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": round } });
        client.send_text(format!("{request}\n{cancel}\n")).await;
    }
    client.input = None;
    // Were one of them still held, the end would take as long as the drain.
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), client.child.wait()).await;
    assert!(ended.expect("a call is still under way").unwrap().success());
    drop(http);
}

#[tokio::test]
async fn garbage_is_answered_and_survived() {
    let (_http, _folder, mut client) = two_servers(json!({ "max_body_bytes": 20_000 })).await;
    client.initialize().await;
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(30_000));
    for (line, code) in [
        ("garbage", -32700),
        ("{\"jsonrpc\":\"2.0\"", -32700),
        ("\u{0}", -32700),
        ("{}", -32600),
        ("[]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600),
        (&long, -32600),
    ] {
        client.send_text(format!("{line}\n")).await;
        let answer = client.next().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{}", &line[..line.len().min(50)]);
        assert_eq!(answer["id"], Value::Null);
    }
    client.send_text(b"\xff\xfe\n").await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32700);
    // Empty lines are no messages, and line ends of other systems no garbage.
    client.send_text("\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n").await;
    assert_eq!(client.next().await.unwrap()["id"], 1);
    assert_eq!(client.call_text("child__echo", json!({ "text": "fine" })).await, "fine");
    let stderr = client.stderr.lock().unwrap().clone();
    assert!(!stderr.contains("garbage"), "{stderr}");
}

#[tokio::test]
async fn the_end_of_input_ends_it_after_everything_is_answered() {
    for _ in 0..5 {
        let (_http, _folder, mut client) = two_servers(json!({})).await;
        let hello = json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
        let calls = [
            hello.to_string(),
            tool_call(&json!("slow"), "web__slow", &json!({ "ms": 300 })).to_string(),
            tool_call(&json!("echo"), "child__echo", &json!({ "text": "x" })).to_string(),
        ];
        client.send_text(calls.join("\n") + "\n").await;
        client.input = None;
        let mut ids = Vec::new();
        while let Some(message) = client.next().await {
            assert!(message.get("result").is_some(), "{message}");
            ids.push(message["id"].as_str().unwrap().to_owned());
        }
        ids.sort();
        assert_eq!(ids, ["echo", "hello", "slow"]);
        assert_eq!(client.ended().await.code(), Some(0));
    }
}

#[tokio::test]
async fn a_last_line_without_an_end_is_answered_too() {
    let (_http, _folder, mut client) = two_servers(json!({})).await;
    client.initialize().await;
    client.send_text(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    client.input = None;
    assert_eq!(client.next().await.unwrap()["id"], 1);
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn signals_and_a_reader_that_goes_away_end_it_and_its_children() {
    for how in ["TERM", "INT", "closed output", "closed input"] {
        let (_http, _folder, mut client) = two_servers(json!({})).await;
        client.initialize().await;
        let child: u32 = client.call_text("child__pid", json!({})).await.parse().unwrap();
        match how {
            "TERM" => kill(client.pid(), Signal::TERM),
            "INT" => kill(client.pid(), Signal::INT),
            "closed input" => client.input = None,
            _ => {
                client.output = None;
                client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
            }
        }
        assert_eq!(client.ended().await.code(), Some(0), "{how}");
        until("the child is gone", async || !exists(child)).await;
    }
}

#[tokio::test]
async fn a_drain_waits_for_a_call_and_a_second_signal_does_not() {
    let (http, _folder, mut client) = two_servers(json!({})).await;
    client.initialize().await;
    let child: u32 = client.call_text("child__pid", json!({})).await.parse().unwrap();
    client.send(&tool_call(&json!("h"), "web__hold", &json!({ "call_id": "h" }))).await;
    http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
    kill(client.pid(), Signal::TERM);
    http.server().release_held();
    assert_eq!(client.answer(&json!("h")).await["result"]["content"][0]["text"], "released");
    assert_eq!(client.ended().await.code(), Some(0));
    until("the child is gone", async || !exists(child)).await;
}

/// There are no comments on a pipe: whoever wants progress hears that the call waits.
#[tokio::test]
async fn a_held_call_gives_signs_of_life_and_then_the_answer() {
    let http = HttpServer::start(Server::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evergate.json");
    // The call may meet the server while it dies, and is to be held all the same.
    let config = json!({
        "mcpServers": { "web": { "url": http.url(), "replay": "always" } },
        "gateway": { "keep_alive": "100ms" },
    });
    std::fs::write(&path, config.to_string()).unwrap();
    let mut client = Pipes::start(["stdio", "--config", path.to_str().unwrap()]);
    client.initialize().await;
    assert_eq!(client.call_text("web__echo", json!({ "text": "a" })).await, "a");
    http.kill().await;
    let params = json!({ "name": "web__progress", "arguments": { "steps": 2 }, "_meta": { "progressToken": "t" } });
    let call = json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params });
    client.send(&call).await;
    let mut told = 0.0;
    for _ in 0..2 {
        let sign = client.next().await.unwrap();
        assert_eq!(
            (&sign["method"], &sign["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("t"))
        );
        assert!(sign["params"]["message"].as_str().unwrap().contains("waiting for web"), "{sign}");
        let now = sign["params"]["progress"].as_f64().unwrap();
        assert!(now > told, "{sign}");
        told = now;
    }
    http.revive().await;
    let answer = loop {
        let message = client.next().await.unwrap();
        if message["id"] == "c" {
            break message;
        }
        let now = message["params"]["progress"].as_f64().unwrap();
        assert!(now > told, "{message} after {told}");
        told = now;
    };
    assert!(answer["result"].is_object(), "{answer}");
    assert!(told >= 2.0, "the server's own reports come through");
}
