//! The JSON-RPC envelope: what a message is, and how answers are written.
//!
//! Ids and results are kept as JSON text. A server that reformats them could not be used to check
//! that a client or a gateway passes them through unchanged.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// One message from the client.
#[derive(Debug)]
pub(crate) enum Message {
    Request(Request),
    Notification { method: String, params: Value, raw_params: String },
    Response(Value),
}

/// One request from the client.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The id exactly as the client wrote it.
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: Value,
    /// The params exactly as the client wrote them; empty if there were none.
    pub(crate) raw_params: String,
}

/// How a request ended: the JSON text of its `result` or `error` member.
#[derive(Debug)]
pub(crate) enum Outcome {
    Result(String),
    Error(String),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

// === impl Message ===

impl Message {
    /// Reads one message, or every message of a batch. `None` if it is not JSON-RPC.
    pub(crate) fn parse_all(text: &str) -> Option<(Vec<Self>, bool)> {
        let text = text.trim();
        if text.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let all = items.iter().map(|item| Self::parse(item.get())).collect::<Option<_>>()?;
            return Some((all, true));
        }
        Some((vec![Self::parse(text)?], false))
    }

    fn parse(text: &str) -> Option<Self> {
        let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
        let raw_params = envelope.params.map(RawValue::get).unwrap_or_default().to_owned();
        let params = envelope
            .params
            .map_or(Some(Value::Null), |params| serde_json::from_str(params.get()).ok())?;
        Some(match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => {
                Self::Request(Request { id: id.get().into(), method, params, raw_params })
            }
            (Some(method), None) => Self::Notification { method, params, raw_params },
            (None, _) => Self::Response(serde_json::from_str(text).ok()?),
        })
    }
}

// === impl Request ===

impl Request {
    /// The tool that a `tools/call` names.
    pub(crate) fn tool(&self) -> Option<&str> {
        (self.method == "tools/call").then(|| self.params.get("name")?.as_str())?
    }
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn ok(result: &Value) -> Self {
        Self::Result(result.to_string())
    }

    pub(crate) fn error(code: i64, message: &str) -> Self {
        Self::Error(json!({ "code": code, "message": message }).to_string())
    }

    /// A tool result with one text block.
    pub(crate) fn text(text: &str) -> Self {
        Self::ok(&json!({ "content": [{ "type": "text", "text": text }] }))
    }

    pub(crate) fn encode(&self, id: &str) -> String {
        let (member, value) = match self {
            Self::Result(value) => ("result", value),
            Self::Error(value) => ("error", value),
        };
        // Spliced, not built: the value must reach the client byte for byte.
        format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#)
    }
}

/// An error answer that is bound to no request, with `"id": null` or with no id at all.
pub(crate) fn unbound_error(code: i64, message: &str, null_id: bool) -> String {
    let error = json!({ "code": code, "message": message });
    let mut body = json!({ "jsonrpc": "2.0", "error": error });
    if null_id {
        body["id"] = Value::Null;
    }
    body.to_string()
}

pub(crate) fn notification(method: &str, params: &Value) -> String {
    let mut body = json!({ "jsonrpc": "2.0", "method": method });
    if !params.is_null() {
        body["params"] = params.clone();
    }
    body.to_string()
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    let mut body = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    if !params.is_null() {
        body["params"] = params.clone();
    }
    body.to_string()
}
