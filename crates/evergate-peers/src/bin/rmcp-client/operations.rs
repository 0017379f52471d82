//! What the client can be told to do.

use std::time::Duration;

use rmcp::model::ClientRequest;
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::Running;

/// Does it, and says how it went.
pub(crate) async fn perform(running: &Running, command: &Value) -> Value {
    let Some((method, params)) = request(command) else {
        return failed(&format!("no operation {}", command["op"]));
    };
    let limit = Duration::from_millis(command["timeout_ms"].as_u64().unwrap_or(60_000));
    let params = params.unwrap_or_default();
    // Where a server may ask back, the SDK answers and asks again by itself.
    match method {
        "tools/call" => within(limit, params, async |params| running.call_tool(params).await).await,
        "prompts/get" => {
            within(limit, params, async |params| running.get_prompt(params).await).await
        }
        "resources/read" => {
            within(limit, params, async |params| running.read_resource(params).await).await
        }
        _ => plainly(running, method, params, limit).await,
    }
}

/// The SDK tells the other side when nobody waits any more.
async fn within<P: DeserializeOwned, R: Serialize>(
    limit: Duration,
    params: Value,
    operation: impl AsyncFnOnce(P) -> Result<R, ServiceError>,
) -> Value {
    let params = match serde_json::from_value(params) {
        Ok(params) => params,
        Err(error) => return failed(&error.to_string()),
    };
    match timeout(limit, operation(params)).await {
        Ok(Ok(result)) => json!({ "ok": true, "result": result }),
        Ok(Err(error)) => refused(error),
        Err(_) => failed("timeout"),
    }
}

async fn plainly(running: &Running, method: &str, params: Value, limit: Duration) -> Value {
    let mut request = json!({ "method": method });
    if !params.is_null() {
        request["params"] = params;
    }
    let request: ClientRequest = match serde_json::from_value(request) {
        Ok(request) => request,
        Err(error) => return failed(&error.to_string()),
    };
    let options = PeerRequestOptions::with_timeout(limit);
    let answer = match running.peer().send_request_with_option(request, options).await {
        Ok(handle) => handle.await_response().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(result) => json!({ "ok": true, "result": result }),
        Err(error) => refused(error),
    }
}

/// An error as the little language has it.
pub(crate) fn refused(error: ServiceError) -> Value {
    match error {
        ServiceError::McpError(error) => json!({ "ok": false, "error": error }),
        error => failed(&error.to_string()),
    }
}

pub(crate) fn failed(message: &str) -> Value {
    json!({ "ok": false, "error": { "code": "Error", "message": message } })
}

/// The request that a command stands for.
fn request(command: &Value) -> Option<(&'static str, Option<Value>)> {
    let [uri, name, args] = ["uri", "name", "args"].map(|key| &command[key]);
    Some(match command["op"].as_str()? {
        "list_tools" => ("tools/list", None),
        "call" => {
            let mut params = json!({ "name": command["tool"], "arguments": args });
            if let Some(meta) = command.get("meta") {
                params["_meta"] = meta.clone();
            }
            ("tools/call", Some(params))
        }
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
    })
}
