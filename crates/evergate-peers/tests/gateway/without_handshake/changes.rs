//! Changes that a client listens for.

use serde_json::{Value, json};

use super::*;

const DYNAMIC: &str = "demo://resource/dynamic/text/1";
const WATCHED: &str = "test://watched-resource";

async fn hears_of_changes(kind: ClientKind, era: Era) {
    let servers = servers();
    let gateway = in_front_of(&servers).await;
    let client = Client::connect_in(era, kind, &gateway.all()).await;
    let ready = FIXTURES.map(|server| format!("{server}__test_trigger_tool_change"));
    let mut ready: Vec<&str> = ready.iter().map(String::as_str).collect();
    ready.push("everything__trigger-sampling-request");
    client.tools_with(&ready).await;

    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": [DYNAMIC, WATCHED] });
    let acknowledged = client.get("listen", json!({ "filter": filter })).await;
    assert_eq!(acknowledged["toolsListChanged"], true, "{acknowledged}");
    assert_eq!(acknowledged["promptsListChanged"], Value::Null, "{acknowledged}");
    let arrives = async |event: &str| {
        until(event, async || client.events().await[event].as_u64() > Some(0)).await;
    };
    client.events().await;
    for server in FIXTURES {
        let before = client.tools().await.len();
        client.call_text(&format!("{server}__test_trigger_tool_change"), json!({})).await;
        arrives("tools_changed").await;
        assert_ne!(client.tools().await.len(), before, "{server}");
    }
    // Both test kits have the same address, and it belongs to the first.
    for server in ["old", "kit"] {
        client.call_text(&format!("{server}__test_trigger_resource_update"), json!({})).await;
    }
    arrives("resource_updated").await;
    client.events().await;
    client.call_text("everything__toggle-subscriber-updates", json!({})).await;
    arrives("resource_updated").await;

    // Not asked for, not heard of.
    client.call_text("kit__test_trigger_prompt_change", json!({})).await;
    client.get("unlisten", json!({})).await;
    let events = client.events().await;
    assert_eq!(events["prompts_changed"], Value::Null, "{events}");
    assert_eq!(events["listen_ended"], Value::Null, "{events}");
    client.call_text("kit__test_trigger_tool_change", json!({})).await;
    assert_eq!(client.events().await["tools_changed"], Value::Null);
    client.close().await;
    gateway.stop().await;
}
for_each_client!(hears_of_changes);
