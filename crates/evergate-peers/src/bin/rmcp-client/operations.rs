//! What the client can be told to do.

use std::time::Duration;

use rmcp::model::ClientRequest;
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Value, json};

/// Does it, and says how it went.
pub(crate) async fn perform(peer: &Peer<RoleClient>, command: &Value) -> Value {
    let Some(request) = request(command) else {
        let message = format!("no operation {}", command["op"]);
        return json!({ "ok": false, "error": { "code": "Error", "message": message } });
    };
    let timeout = Duration::from_millis(command["timeout_ms"].as_u64().unwrap_or(60_000));
    let options = PeerRequestOptions::with_timeout(timeout);
    let answer = async {
        let sent: Result<ClientRequest, _> = serde_json::from_value(request);
        let sent = sent.map_err(|error| error.to_string())?;
        let handle = peer.send_request_with_option(sent, options).await;
        let handle = handle.map_err(|error| error.to_string())?;
        Ok::<_, String>(handle.await_response().await)
    };
    match answer.await {
        Ok(Ok(result)) => json!({ "ok": true, "result": result }),
        Ok(Err(ServiceError::McpError(error))) => json!({ "ok": false, "error": error }),
        Ok(Err(error)) => failed(&error.to_string()),
        Err(error) => failed(&error),
    }
}

fn failed(message: &str) -> Value {
    json!({ "ok": false, "error": { "code": "Error", "message": message } })
}

/// The request that a command stands for.
fn request(command: &Value) -> Option<Value> {
    let [uri, name, args] = ["uri", "name", "args"].map(|key| &command[key]);
    let (method, params) = match command["op"].as_str()? {
        "list_tools" => ("tools/list", None),
        "call" => ("tools/call", Some(json!({ "name": command["tool"], "arguments": args }))),
        "list_resources" => ("resources/list", None),
        "list_templates" => ("resources/templates/list", None),
        "read" => ("resources/read", Some(json!({ "uri": uri }))),
        "list_prompts" => ("prompts/list", None),
        "get_prompt" => ("prompts/get", Some(json!({ "name": name, "arguments": args }))),
        "complete" => (
            "completion/complete",
            Some(json!({ "ref": command["ref"], "argument": command["argument"] })),
        ),
        "set_level" => ("logging/setLevel", Some(json!({ "level": command["level"] }))),
        "subscribe" => ("resources/subscribe", Some(json!({ "uri": uri }))),
        "ping" => ("ping", None),
        _ => return None,
    };
    let mut request = json!({ "method": method });
    if let Some(params) = params {
        request["params"] = params;
    }
    Some(request)
}
