//! What a client can ask for, and what it is asked.

use serde_json::json;

use super::*;

async fn works_with_every_server(kind: ClientKind, era: Era) {
    let servers = servers();
    let gateway = in_front_of(&servers).await;
    let client = Client::connect_in(era, kind, &gateway.all()).await;
    calls(&client).await;
    prompts(&client).await;
    resources(&client).await;
    questions(&client).await;
    progress(&client).await;
    log_messages(&client).await;
    client.close().await;
    gateway.stop().await;
}
for_each_client!(works_with_every_server, finding_out);

async fn calls(client: &Client) {
    let simple = FIXTURES.map(|server| format!("{server}__test_simple_text"));
    let mut expected: Vec<&str> = simple.iter().map(String::as_str).collect();
    expected.extend(["everything__echo", "rmcp__echo"]);
    client.tools_with(&expected).await;
    for tool in simple {
        assert!(client.call_text(&tool, json!({})).await.contains("simple text"), "{tool}");
    }
    let answer = client.call_text("everything__echo", json!({ "message": "hi" })).await;
    assert_eq!(answer, "Echo: hi");
    let answer = client.call_text("rmcp__add", json!({ "a": 2, "b": 3, "call_id": "1" })).await;
    assert_eq!(answer, "5");
    // Structured content has a schema, which clients hold it against.
    let location = json!({ "location": "New York" });
    let weather = client.call("everything__get-structured-content", location).await.unwrap();
    assert!(weather["structuredContent"]["temperature"].is_number(), "{weather}");
    for server in FIXTURES {
        let failed = client.call(&format!("{server}__test_error_handling"), json!({})).await;
        assert_eq!(failed.unwrap()["isError"], true, "{server}");
    }
    client.call("nobody__nothing", json!({})).await.unwrap_err();
}

async fn prompts(client: &Client) {
    let listed = client.list("list_prompts", "prompts", "name").await;
    for server in FIXTURES {
        let name = format!("{server}__test_prompt_with_arguments");
        assert!(listed.contains(&name), "{listed:?}");
        let with = json!({ "name": name, "args": { "arg1": "one", "arg2": "two" } });
        let prompt = client.get("get_prompt", with).await;
        let said = prompt["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(said.contains("one") && said.contains("two"), "{server}: {said}");
    }
    let reference = json!({ "type": "ref/prompt", "name": "everything__completable-prompt" });
    let argument = json!({ "name": "department", "value": "E" });
    let completed = client.get("complete", json!({ "ref": reference, "argument": argument })).await;
    assert_eq!(completed["completion"]["values"], json!(["Engineering"]));
}

async fn resources(client: &Client) {
    let listed = client.list("list_resources", "resources", "uri").await;
    assert!(listed.iter().any(|uri| uri == "test://static-text"), "{listed:?}");
    let read = client.get("read", json!({ "uri": "test://static-text" })).await;
    assert!(read["contents"][0]["text"].is_string(), "{read}");
    let templates = client.list("list_templates", "resourceTemplates", "uriTemplate").await;
    assert!(templates.iter().any(|name| name.starts_with("demo://")), "{templates:?}");
    let read = client.get("read", json!({ "uri": "demo://resource/dynamic/text/1" })).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("Resource 1"), "{read}");
    client.send("read", json!({ "uri": "nobody://nothing" })).await.unwrap_err();
}

/// Servers with a handshake ask by a request in the middle of the call, the others by its result.
async fn questions(client: &Client) {
    client.events().await;
    let asked = async |tool: &str, args, event: &str, answer: &str| {
        let said = client.call(tool, args).await.unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert!(said.to_string().contains(answer), "{tool}: {said}");
        assert_eq!(client.events().await[event], 1, "{tool}");
    };
    for server in FIXTURES {
        let tool = |what: &str| format!("{server}__test_input_required_result_{what}");
        asked(&tool("elicitation"), json!({}), "elicitation", "Ada").await;
        asked(&tool("sampling"), json!({}), "sampling", "sampled").await;
        asked(&tool("list_roots"), json!({}), "roots", "evergate").await;
        asked(&tool("request_state"), json!({}), "elicitation", "").await;
        client.call(&tool("multi_round"), json!({})).await.unwrap();
        assert_eq!(client.events().await["elicitation"], 2, "{server}");
        let with = json!({ "name": format!("{server}__test_input_required_result_prompt") });
        client.get("get_prompt", with).await;
        assert_eq!(client.events().await["elicitation"], 1, "{server}");
    }
    asked("everything__trigger-elicitation-request", json!({}), "elicitation", "Ada").await;
    let prompt = json!({ "prompt": "anything" });
    asked("everything__trigger-sampling-request", prompt, "sampling", "sampled").await;
}

async fn progress(client: &Client) {
    client.events().await;
    for server in FIXTURES {
        client.call_text(&format!("{server}__test_tool_with_progress"), json!({})).await;
        assert_eq!(client.events().await["progress"], 3, "{server}");
    }
    let steps = json!({ "duration": 0.4, "steps": 4 });
    client.call_text("everything__trigger-long-running-operation", steps).await;
    // It sends the last one so late that it may come after the answer, and is dropped.
    let progress = client.events().await["progress"].as_u64().unwrap_or_default();
    assert!((3..=4).contains(&progress), "{progress} times");
}

/// Only whoever asks for them gets them, and with each call anew.
async fn log_messages(client: &Client) {
    for server in FIXTURES {
        let tool = format!("{server}__test_tool_with_logging");
        // FastMCP asks for them with every call.
        if client.kind != ClientKind::FastMcp {
            client.call_text(&tool, json!({})).await;
            assert_eq!(client.events().await["log_message"], json!(null), "{server}");
        }
        let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
        client.get("call", json!({ "tool": tool, "args": {}, "meta": meta })).await;
        let mut logged = 0;
        until("log messages", async || {
            logged += client.events().await["log_message"].as_u64().unwrap_or_default();
            logged >= 3
        })
        .await;
    }
}
