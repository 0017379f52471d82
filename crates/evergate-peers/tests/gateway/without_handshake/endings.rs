//! Servers that die, calls that are given up, and a gateway that is restarted.

use evergate_testkit::Eras;
use serde_json::json;

use super::*;

async fn echo(client: &Client, server: &str) {
    let (tool, arguments, expected) = match server {
        "everything" | "stdio" => ("echo", json!({ "message": "hi" }), "Echo: hi"),
        "rmcp" => ("echo", json!({ "text": "hi", "call_id": "1" }), "hi"),
        _ => ("test_simple_text", json!({}), "simple text"),
    };
    let said = client.call_text(&format!("{server}__{tool}"), arguments).await;
    assert!(said.contains(expected), "{server}: {said}");
}

/// Killed between two calls: the second is answered.
async fn does_not_notice_a_dead_server(kind: ClientKind, era: Era) {
    let mut servers = Vec::from(servers());
    servers.push(("stdio", Upstream::everything_stdio()));
    let gateway = in_front_of(&servers).await;
    let client = Client::connect_in(era, kind, &gateway.all()).await;
    for (name, _) in &servers {
        echo(&client, name).await;
    }
    let late = ["everything__trigger-sampling-request", "stdio__trigger-sampling-request"];
    let before = client.tools_with(&late).await;
    for (name, server) in &mut servers {
        server.kill_and_restart().await;
        // At once, while it may still be starting: neither the list nor a call shows it.
        assert_eq!(client.tools().await, before, "{name}");
        echo(&client, name).await;
    }
    // All of them together.
    for (_, server) in &mut servers {
        server.kill_and_restart().await;
    }
    for (name, _) in &servers {
        echo(&client, name).await;
    }
    assert_eq!(client.tools().await, before);
    client.close().await;
    gateway.stop().await;
}
for_each_client!(does_not_notice_a_dead_server);

/// What a client gives up, the server is told of.
async fn gives_up(kind: ClientKind, era: Era) {
    let servers =
        [("old", Upstream::kit(Eras::Legacy).await), ("new", Upstream::kit(Eras::Modern).await)];
    let gateway = in_front_of(&servers).await;
    let client = Client::connect_in(era, kind, &gateway.all()).await;
    client.tools_with(&["old__hold", "new__hold"]).await;
    for (name, server) in &servers {
        let call = json!({ "tool": format!("{name}__hold"), "args": {}, "timeout_ms": 500 });
        client.send("call", call).await.unwrap_err();
        let given_up = |counted: &evergate_testkit::Counters| {
            !counted.cancelled.is_empty() || counted.abandoned > 0
        };
        until(name, async || given_up(&server.server().counters())).await;
        // And the next call is served as if nothing had been.
        let said = client.call_text(&format!("{name}__echo"), json!({ "text": "hi" })).await;
        assert_eq!(said, "hi", "{name}");
        assert_eq!(server.server().counters().calls, 2, "{name}");
    }
    client.close().await;
    gateway.stop().await;
}
for_each_client!(gives_up);

/// There is nothing to come back to but the address.
async fn does_not_notice_a_new_gateway(kind: ClientKind, era: Era) {
    let servers = [
        ("everything", Upstream::everything_http()),
        ("kit", Upstream::kit_fixtures("both")),
        ("stdio", Upstream::everything_stdio()),
    ];
    let mut gateway = in_front_of(&servers).await;
    let client = Client::connect_in(era, kind, &gateway.all()).await;
    let expected = [
        "everything__trigger-sampling-request",
        "kit__test_simple_text",
        "stdio__trigger-sampling-request",
    ];
    let tools = client.tools_with(&expected).await;
    let filter = json!({ "filter": { "toolsListChanged": true } });
    client.get("listen", filter.clone()).await;

    gateway.restart().await;
    // A stream without a session is lost with the gateway, and the client can tell.
    until("the stream ended", async || client.events().await["listen_ended"] == 1).await;
    client.get("listen", filter).await;
    for (name, _) in &servers {
        echo(&client, name).await;
    }
    assert_eq!(client.tools().await, tools);
    client.call_text("kit__test_trigger_tool_change", json!({})).await;
    until("a change", async || client.events().await["tools_changed"].as_u64() > Some(0)).await;
    client.close().await;
    gateway.stop().await;
}
for_each_client!(does_not_notice_a_new_gateway);

/// The gateway as a command that the client starts.
async fn starts_the_gateway(kind: ClientKind, era: Era) {
    let mut servers = [
        ("everything", Upstream::everything_http()),
        ("kit", Upstream::kit_fixtures("both")),
        ("stdio", Upstream::everything_stdio()),
    ];
    let directory = tempfile::tempdir().unwrap();
    let shown = servers.each_ref().map(|(name, server)| (*name, server));
    let config = Gateway::write_config(&directory, &shown);
    let arguments = ["stdio".into(), "--config".into(), config.into_os_string()];
    let client = Client::connect_in(era, kind, &Gateway::as_command(arguments)).await;
    for (name, server) in &mut servers {
        echo(&client, name).await;
        server.kill_and_restart().await;
        // The test kit is back at once. Once the gateway has answered something it has also seen that its connections are
        // gone, which a call that is sent on one of them would find out too late.
        client.list("list_prompts", "prompts", "name").await;
        echo(&client, name).await;
    }
    client.events().await;
    for tool in
        ["stdio__trigger-elicitation-request", "kit__test_input_required_result_elicitation"]
    {
        let said = client.call(tool, json!({})).await.unwrap();
        assert!(said.to_string().contains("Ada"), "{tool}: {said}");
        assert_eq!(client.events().await["elicitation"], 1, "{tool}");
    }
    let filter = json!({ "filter": { "toolsListChanged": true } });
    client.get("listen", filter).await;
    client.call_text("kit__test_trigger_tool_change", json!({})).await;
    until("a change", async || client.events().await["tools_changed"].as_u64() > Some(0)).await;
    client.close().await;
    let [.., (_, child)] = &servers;
    until("no orphan", async || child.children().is_empty()).await;
}
for_each_client!(starts_the_gateway, finding_out);
