//! The fixtures of the conformance suite: the same questions by requests and by results.

use evergate_testkit::{Eras, MemoryServer, Server};
use serde_json::{Value, json};

use crate::raw_lines::{Lines, MemoryLines, text};

fn connect(eras: Eras) -> (MemoryServer, MemoryLines) {
    let server = Server::conformance();
    server.set_eras(eras);
    let memory = MemoryServer::new(server);
    let (reader, writer) = tokio::io::split(memory.connect().expect("server is up"));
    (memory, Lines::new(reader, writer))
}

async fn legacy(capabilities: Value) -> (MemoryServer, MemoryLines) {
    let (memory, mut client) = connect(Eras::Legacy);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
    client.request(0, "initialize", params).await;
    (memory, client)
}

fn everything() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// A call in 2026-07-28, and more fields of its params.
async fn call(client: &mut MemoryLines, tool: &str, more: Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": {}, "_meta": meta(&everything()) });
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    client.request(1, "tools/call", params).await
}

fn answer_to(method: &str) -> Value {
    match method {
        "elicitation/create" => {
            json!({ "action": "accept", "content": { "name": "Alice", "color": "blue" } })
        }
        "sampling/createMessage" => {
            let said = json!({ "type": "text", "text": "Paris" });
            json!({ "role": "assistant", "content": said, "model": "m" })
        }
        _ => json!({ "roots": [{ "uri": "file:///home" }] }),
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_fixture_asks_by_requests() {
    let (_memory, mut client) = legacy(everything()).await;
    for (tool, questions, said) in [
        ("test_input_required_result_elicitation", vec!["elicitation/create"], "Hello, Alice!"),
        ("test_input_required_result_sampling", vec!["sampling/createMessage"], "Paris"),
        ("test_input_required_result_list_roots", vec!["roots/list"], "file:///home"),
        ("test_input_required_result_capabilities", vec!["sampling/createMessage"], "Paris"),
        ("test_missing_capability", vec!["sampling/createMessage"], "Paris"),
        ("test_input_required_result_multi_round", vec!["elicitation/create"; 2], "blue"),
    ] {
        client.begin_call(1, tool).await;
        for question in questions {
            let asked = client.message().await;
            assert_eq!(asked["method"], question, "{tool}");
            let answer = answer_to(question);
            client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
        }
        let answer = client.message().await;
        assert!(text(&answer).contains(said), "{tool}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_fixture_asks_several_things_before_any_is_answered() {
    let (_memory, mut client) = legacy(everything()).await;
    client.begin_call(1, "test_input_required_result_multiple_inputs").await;
    let asked = [client.message().await, client.message().await, client.message().await];
    for asked in asked {
        let answer = answer_to(asked["method"].as_str().unwrap());
        client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    }
    let answer = client.message().await;
    assert!(text(&answer).contains("Alice") && text(&answer).contains("Paris"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_fixture_passes_a_refusal_on_and_asks_nobody_who_cannot_answer() {
    let (_memory, mut client) = legacy(everything()).await;
    client.begin_call(1, "test_missing_capability").await;
    let asked = client.message().await;
    let data = json!({ "requiredCapabilities": { "sampling": {} } });
    let error = json!({ "code": -32021, "message": "no", "data": data });
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    assert_eq!(client.message().await["error"], error);

    let (_memory, mut client) = legacy(json!({})).await;
    let answer = client.call(1, "test_missing_capability", json!({})).await;
    assert_eq!(answer["error"]["data"], data);
}

#[tokio::test(start_paused = true)]
async fn rounds_go_on_where_their_state_says() {
    let (_memory, mut client) = connect(Eras::Both);
    let tool = "test_input_required_result_multi_round";
    let answer = |key: &str| json!({ key: answer_to("elicitation/create") });
    let first = call(&mut client, tool, json!({})).await["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    let state = first["requestState"].clone();
    let retry = json!({ "inputResponses": answer("step1"), "requestState": state });
    let second = call(&mut client, tool, retry).await["result"].clone();
    assert_eq!(second["inputRequests"]["step2"]["method"], "elicitation/create");
    assert_ne!(second["requestState"], state);
    // An answer to another question is none, and the state says which question is next.
    let state = second["requestState"].clone();
    let retry = json!({ "inputResponses": answer("step1"), "requestState": state });
    let again = call(&mut client, tool, retry).await["result"].clone();
    assert_eq!(again["inputRequests"], second["inputRequests"]);
    let retry = json!({ "inputResponses": answer("step2"), "requestState": state });
    let last = call(&mut client, tool, retry).await;
    assert_eq!(text(&last), "Hello, Alice! You like \"blue\".");
    assert_eq!(last["result"]["resultType"], "complete");
    // A state is for the tool that gave it.
    let retry = json!({ "requestState": state });
    let other = call(&mut client, "test_input_required_result_tampered_state", retry).await;
    assert_eq!(other["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn every_listed_fixture_answers() {
    for eras in [Eras::Legacy, Eras::Both] {
        let (_memory, mut client) = connect(eras);
        let mut params = json!({});
        if eras == Eras::Legacy {
            let hello = json!({ "protocolVersion": "2025-11-25" });
            client.request(0, "initialize", hello).await;
        } else {
            params["_meta"] = meta(&json!({}));
        }
        let list = client.request(0, "tools/list", params.clone()).await;
        for tool in list["result"]["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            params["name"] = name.into();
            client.begin(1, "tools/call", params.clone()).await;
            let answer = loop {
                let message = client.message().await;
                if message["id"] == 1 {
                    break message;
                }
            };
            // A client that can nothing is refused by those who want something.
            let code = &answer["error"]["code"];
            assert!(code.is_null() || *code == -32021, "{eras:?} {name}: {answer}");
        }
        assert_eq!(list["result"]["tools"][0]["name"], "test_simple_text");
    }
}
