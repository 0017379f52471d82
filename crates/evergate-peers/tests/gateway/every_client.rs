//! Each client in front of all servers at once, with everything the protocol has for both.

use serde_json::json;

use crate::support::*;

const OPERATION: &str = "trigger-long-running-operation";
const DYNAMIC: &str = "demo://resource/dynamic/text/1";

async fn works_with_every_server(kind: ClientKind) {
    let (http, stdio) = (Upstream::everything_http(), Upstream::everything_stdio());
    let (files, memory) = (Upstream::filesystem(), Upstream::memory());
    let (python, rmcp) = (Upstream::python_http(), Upstream::rmcp_http());
    let gateway = Gateway::start(&[
        ("http", &http),
        ("stdio", &stdio),
        ("files", &files),
        ("memory", &memory),
        ("python", &python),
        ("rmcp", &rmcp),
    ])
    .await;
    let client = Client::connect(kind, &gateway.all()).await;
    lists(&client).await;
    calls(&client, &files).await;
    resources(&client).await;
    prompts(&client).await;
    notifications(&client).await;
    client.get("ping", json!({})).await;
    client.close().await;
    gateway.stop().await;
}

/// The tools of all servers are there once all servers are.
async fn lists(client: &Client) {
    let expected = [
        "files__read_text_file",
        "http__echo",
        "http__trigger-sampling-request",
        "memory__read_graph",
        "python__slow",
        "rmcp__echo",
        "stdio__echo",
    ];
    client.tools_with(&expected).await;
    // The same list every time.
    let first = client.get("list_tools", json!({})).await;
    assert_eq!(client.get("list_tools", json!({})).await, first);
}

async fn calls(client: &Client, files: &Upstream) {
    for server in ["http", "stdio"] {
        let answer = client.call_text(&format!("{server}__echo"), json!({ "message": "hi" })).await;
        assert_eq!(answer, "Echo: hi");
    }
    // Structured content has a schema, which clients hold it against.
    let location = json!({ "location": "New York" });
    let weather = client.call("http__get-structured-content", location).await.unwrap();
    assert!(weather["structuredContent"]["temperature"].is_number(), "{weather}");
    let image = client.call("http__get-tiny-image", json!({})).await.unwrap();
    assert_eq!(image["content"][1]["mimeType"], "image/png", "{image}");

    let path = files.allowed_folder().join("greeting.txt");
    assert_eq!(client.call_text("files__read_text_file", json!({ "path": path })).await, "hello");
    let outside = client.call("files__read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert_eq!(outside.unwrap()["isError"], true);

    let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote programs"] });
    client.call_text("memory__create_entities", json!({ "entities": [ada] })).await;
    let graph = client.call_text("memory__read_graph", json!({})).await;
    assert!(graph.contains("wrote programs"), "{graph}");

    assert_eq!(client.call_text("python__add", json!({ "a": 2, "b": 3 })).await, "5");
    let answer = client.call_text("rmcp__echo", json!({ "text": "hi", "call_id": "1" })).await;
    assert_eq!(answer, "hi");

    let unknown = client.call("nobody__nothing", json!({})).await.unwrap_err();
    assert_eq!(unknown["code"], -32602, "{unknown}");
}

/// Resources keep their addresses.
async fn resources(client: &Client) {
    let listed = client.list("list_resources", "resources", "uri").await;
    let document = "demo://resource/static/document/architecture.md";
    for uri in ["peer://greeting", document] {
        assert!(listed.iter().any(|name| name == uri), "{listed:?}");
    }
    let read = client.get("read", json!({ "uri": "peer://greeting" })).await;
    assert_eq!(read["contents"][0]["text"], "hello");
    let templates = client.list("list_templates", "resourceTemplates", "uriTemplate").await;
    assert!(templates.iter().any(|name| name.starts_with("demo://")), "{templates:?}");
    let read = client.get("read", json!({ "uri": DYNAMIC })).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("Resource 1"), "{read}");
    client.send("read", json!({ "uri": "nobody://nothing" })).await.unwrap_err();
}

async fn prompts(client: &Client) {
    let listed = client.list("list_prompts", "prompts", "name").await;
    for name in ["http__args-prompt", "stdio__args-prompt", "python__question"] {
        assert!(listed.iter().any(|listed| listed == name), "{listed:?}");
    }
    let with = json!({ "name": "python__question", "args": { "topic": "this" } });
    let prompt = client.get("get_prompt", with).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "What is this?");
    let reference = json!({ "type": "ref/prompt", "name": "http__completable-prompt" });
    let argument = json!({ "name": "department", "value": "E" });
    let with = json!({ "ref": reference, "argument": argument });
    let completed = client.get("complete", with).await;
    assert_eq!(completed["completion"]["values"], json!(["Engineering"]));
}

/// Progress, log messages and changes of resources.
async fn notifications(client: &Client) {
    client.events().await;
    for server in ["http", "stdio"] {
        let steps = json!({ "duration": 0.4, "steps": 4 });
        client.call_text(&format!("{server}__{OPERATION}"), steps).await;
        // It sends the last one so late that it may come after the answer, and is dropped.
        let progress = client.events().await["progress"].as_u64().unwrap_or_default();
        assert!((3..=4).contains(&progress), "{server}: {progress} times");
    }
    client.call_text("python__slow", json!({ "ms": 90, "steps": 3 })).await;
    assert_eq!(client.events().await["progress"], 3);

    client.get("set_level", json!({ "level": "debug" })).await;
    client.get("subscribe", json!({ "uri": DYNAMIC })).await;
    client.call_text("http__toggle-subscriber-updates", json!({})).await;
    let (mut logged, mut updated) = (0, 0);
    until("a log message and an update", async || {
        let events = client.events().await;
        logged += events["log_message"].as_u64().unwrap_or_default();
        updated += events["resource_updated"].as_u64().unwrap_or_default();
        logged > 0 && updated > 0
    })
    .await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v1() {
    works_with_every_server(ClientKind::TsV1).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v2() {
    works_with_every_server(ClientKind::TsV2).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn python_mcp() {
    works_with_every_server(ClientKind::PythonMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn fastmcp() {
    works_with_every_server(ClientKind::FastMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn rmcp() {
    works_with_every_server(ClientKind::Rmcp).await;
}
