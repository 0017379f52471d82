//! Under which names clients see what servers offer, and that every name leads back to its owner.

use evergate_testkit::Server;
use serde_json::{Value, json};

use crate::kit::{at, connect_to, next_of, servers, text, web};
use crate::support::gateway;

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

fn only(server: &Server, tools: &[&str]) {
    server.set_tools(tools.iter().map(|name| tool(name)).collect());
}

#[tokio::test]
async fn a_prefix_and_a_separator_of_ones_own_make_the_names() {
    let (one, two) = (web().await, web().await);
    only(one.server(), &["zeta", "alpha"]);
    only(two.server(), &["alpha"]);
    let config = json!({
        "gateway": { "separator": "___" },
        "mcpServers": { "b": at(&one), "a": at(&two) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    // Servers by name, tools in the order of their server.
    let names = client.tool_names().await;
    assert_eq!(names, ["a___alpha", "b___zeta", "b___alpha"]);
    assert_eq!(client.call_text("a___alpha", json!({})).await, "alpha");
    assert_eq!((one.server().counters().calls, two.server().counters().calls), (0, 1));
    let answer = client.call("a__alpha", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn bare_names_belong_to_the_first_and_the_loser_is_named_in_the_health_report() {
    let (one, two) = (web().await, web().await);
    only(one.server(), &["same", "mine"]);
    only(two.server(), &["same", "yours"]);
    for server in [one.server(), two.server()] {
        server.set_prompts(Vec::new());
        server.set_resources(Vec::new());
    }
    let config = json!({
        "gateway": { "naming": "bare" },
        "mcpServers": { "one": at(&one), "two": at(&two) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    assert_eq!(client.tool_names().await, ["same", "mine", "yours"]);
    client.call_text("same", json!({})).await;
    client.call_text("yours", json!({})).await;
    assert_eq!((one.server().counters().calls, two.server().counters().calls), (1, 1));
    let warnings = gateway.health().await["warnings"].to_string();
    let named = ["same", "two", "one"].iter().all(|word| warnings.contains(word));
    assert!(named, "{warnings}");
    // What is hidden in /mcp is there in the endpoint of its own server.
    let direct = connect_to(&gateway, "two").await;
    assert_eq!(direct.tool_names().await, ["same", "yours"]);
    direct.call_text("same", json!({})).await;
    assert_eq!(two.server().counters().calls, 2);
}

#[tokio::test]
async fn a_long_tool_is_called_by_its_short_name() {
    let http = web().await;
    let (long, other) = (format!("{}_a", "x".repeat(70)), format!("{}_b", "x".repeat(70)));
    only(http.server(), &[&long, &other]);
    let gateway = gateway(&servers(json!({ "server": at(&http) }))).start();
    let client = gateway.connect().await;
    let names = client.tool_names().await;
    assert!(names.iter().all(|name| name.chars().count() == 64), "{names:?}");
    assert_ne!(names[0], names[1]);
    assert_eq!(client.call_text(&names[0], json!({})).await, long);
    assert_eq!(client.call_text(&names[1], json!({})).await, other);
    assert!(http.server().received("tools/call")[0].contains(&long));
}

#[tokio::test]
async fn the_order_is_the_same_after_every_start() {
    let hosts = [web().await, web().await, web().await];
    let config = servers(json!({ "c": at(&hosts[0]), "a": at(&hosts[1]), "b": at(&hosts[2]) }));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let gateway = gateway(&config).start();
        seen.push(gateway.connect().await.tool_names().await);
    }
    assert_eq!(seen[0].len(), 45);
    assert!(seen[0][0].starts_with("a__") && seen[0][44].starts_with("c__"));
    assert!(seen.iter().all(|names| *names == seen[0]));
}

#[tokio::test]
async fn prompts_and_completions_reach_their_owner() {
    let (one, two) = (web().await, web().await);
    let gateway = gateway(&servers(json!({ "one": at(&one), "two": at(&two) }))).start();
    let client = gateway.connect().await;
    let prompts = client.request("prompts/list", json!({})).await;
    let names: Vec<&str> = prompts["result"]["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one__greet", "two__greet"]);
    let params = json!({ "name": "two__greet", "arguments": { "name": "Ada" } });
    let answer = client.request("prompts/get", params).await;
    assert_eq!(answer["result"]["messages"][0]["content"]["text"], "Hello, Ada!");
    let reference = json!({ "type": "ref/prompt", "name": "two__greet" });
    let params = json!({ "ref": reference, "argument": { "name": "name", "value": "a" } });
    let answer = client.request("completion/complete", params).await;
    assert_eq!(answer["result"]["completion"]["values"], json!(["alice"]));
    assert!(two.server().received("completion/complete")[0].contains(r#""name":"greet""#));
    let template = json!({ "type": "ref/resource", "uri": "test://{name}" });
    let params = json!({ "ref": template, "argument": { "name": "name", "value": "b" } });
    let answer = client.request("completion/complete", params).await;
    assert_eq!(answer["result"]["completion"]["values"], json!(["bob"]));
    let counts = |http: &evergate_testkit::HttpServer| http.server().counters().requests;
    assert_eq!(counts(&two)["prompts/get"], 1);
    assert_eq!(counts(&one).get("prompts/get"), None);
    assert_eq!(counts(&one)["completion/complete"], 1, "the template is the first server's");
    let answer = client.request("prompts/get", json!({ "name": "greet" })).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn a_resource_is_read_from_whoever_lists_it_or_has_a_template_for_it_or_knows_it() {
    let (one, two) = (web().await, web().await);
    one.server().set_resources(vec![json!({ "uri": "one://a", "name": "a" })]);
    two.server().set_resources(vec![json!({ "uri": "two://a", "name": "a" })]);
    let gateway = gateway(&servers(json!({ "one": at(&one), "two": at(&two) }))).start();
    let client = gateway.connect().await;
    let read = async |uri: &str| client.request("resources/read", json!({ "uri": uri })).await;
    let contents = |answer: &Value| answer["result"]["contents"][0]["text"].clone();
    assert_eq!(contents(&read("two://a").await), "contents of two://a");
    assert_eq!(two.server().received("resources/read").len(), 1);
    assert_eq!(one.server().received("resources/read").len(), 0);
    // Only a template covers it.
    assert_eq!(contents(&read("test://anything").await), "contents of test://anything");
    // Nobody lists it any more, the second server still has it.
    two.server().set_resources(vec![
        json!({ "uri": "two://a", "name": "a" }),
        json!({ "uri": "hidden://x", "name": "x" }),
    ]);
    assert_eq!(contents(&read("hidden://x").await), "contents of hidden://x");
    let answer = read("nobody://x").await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    let answer = client.request("resources/subscribe", json!({ "uri": "nobody://x" })).await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
}

#[tokio::test]
async fn subscriptions_reach_the_owner_and_its_news_comes_back() {
    let (one, two) = (web().await, web().await);
    two.server().set_resources(vec![json!({ "uri": "two://a", "name": "a" })]);
    let gateway = gateway(&servers(json!({ "one": at(&one), "two": at(&two) }))).start();
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    let answer = client.request("resources/subscribe", json!({ "uri": "two://a" })).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(two.server().counters().subscriptions, ["two://a"]);
    assert!(one.server().counters().subscriptions.is_empty());
    two.server().wait_for(|now| now.listening == 1).await;
    two.server().update_resource("two://a");
    let news = next_of(&mut events, "notifications/resources/updated").await;
    assert_eq!(news["params"]["uri"], "two://a");
    client.request("resources/unsubscribe", json!({ "uri": "two://a" })).await;
    assert!(two.server().counters().subscriptions.is_empty());
}

#[tokio::test]
async fn a_method_nobody_knows_reaches_the_only_server_as_it_is() {
    let (one, two) = (web().await, web().await);
    let gateway = gateway(&servers(json!({ "one": at(&one), "two": at(&two) }))).start();
    let client = connect_to(&gateway, "one").await;
    // Fields that other methods give a meaning have none here.
    let params = r#"{ "uri":5, "level":[1.0], "ref":"x", "cursor":null, "name":{}, "b":18446744073709551617, "_meta":{"z":1,"a":{"name":"b"}} }"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"future/method","params":{params}}}"#);
    let answer = client.http.post(&client.headers(), body).await.json();
    assert_eq!(answer["id"], 7);
    assert_eq!(
        answer["error"],
        json!({ "code": -32601, "message": "Method not found: future/method" })
    );
    assert_eq!(one.server().received("future/method"), [params]);
    let client = gateway.connect().await;
    let answer = client.request("future/method", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601);
    assert!(answer["error"]["message"].as_str().unwrap().contains("/mcp/{server}"), "{answer}");
    assert_eq!(one.server().received("future/method").len(), 1);
    assert!(two.server().received("future/method").is_empty());
}

#[tokio::test]
async fn a_tool_of_a_server_that_is_not_listed_yet_is_called_all_the_same() {
    let http = web().await;
    http.kill().await;
    let config = json!({
        "gateway": { "startup_wait": "100ms" },
        "mcpServers": { "late": at(&http) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    assert!(client.tool_names().await.is_empty());
    let call = crate::kit::begin(&client, "late__bump", json!({ "call_id": "x" }));
    http.revive().await;
    assert_eq!(text(&call.await.unwrap()), "1");
    assert_eq!(http.server().executions("x"), 1);
}
