//! What can be read.

use serde_json::{Value, json};

use super::contents::PIXEL;
use crate::jsonrpc::Outcome;

pub(super) fn list() -> Vec<Value> {
    let resource =
        |uri: &str, mime_type: &str| json!({ "uri": uri, "name": uri, "mimeType": mime_type });
    vec![
        resource("test://static-text", "text/plain"),
        resource("test://static-binary", "image/png"),
        resource("test://watched-resource", "text/plain"),
    ]
}

pub(super) fn templates() -> Vec<Value> {
    vec![json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "mimeType": "application/json",
    })]
}

pub(super) fn read(uri: &str, modern: bool) -> Outcome {
    let Some(mut content) = content(uri) else {
        let code = if modern { -32602 } else { -32002 };
        let error =
            json!({ "code": code, "message": "Resource not found", "data": { "uri": uri } });
        return Outcome::Error(error.to_string());
    };
    content["uri"] = uri.into();
    Outcome::ok(&json!({ "contents": [content] }))
}

fn content(uri: &str) -> Option<Value> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    if let Some(id) = id.filter(|id| !id.is_empty() && !id.contains('/')) {
        let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        return Some(json!({ "mimeType": "application/json", "text": data.to_string() }));
    }
    let text = |text: &str| json!({ "mimeType": "text/plain", "text": text });
    match uri {
        "test://static-text" => Some(text("This is the content of the static text resource.")),
        "test://static-binary" => Some(json!({ "mimeType": "image/png", "blob": PIXEL })),
        "test://watched-resource" => Some(text("Watched.")),
        _ => None,
    }
}
