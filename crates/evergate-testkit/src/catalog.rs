//! What the server offers: lists, pages and who runs what.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::jsonrpc::Outcome;
use crate::tools;

/// A tool of the test's own: arguments in, result object out.
pub(crate) type ToolHandler = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// Everything that can be listed.
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Value>,
    pub(crate) prompts: Vec<Value>,
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    pub(crate) handlers: BTreeMap<String, ToolHandler>,
    /// Built-in tools that a test took away.
    pub(crate) removed: BTreeSet<String>,
    pub(crate) page_size: Option<usize>,
    /// Whether these are the fixtures of the conformance suite.
    pub(crate) fixtures: bool,
}

// === impl Catalog ===

impl Default for Catalog {
    fn default() -> Self {
        let resource = |uri: &str| json!({ "uri": uri, "name": uri, "mimeType": "text/plain" });
        Self {
            tools: tools::built_in(),
            prompts: vec![json!({
                "name": "greet",
                "description": "Greets somebody",
                "arguments": [{ "name": "name", "description": "Whom", "required": true }],
            })],
            resources: vec![resource("test://a"), resource("test://b")],
            templates: vec![json!({ "uriTemplate": "test://{name}", "name": "any" })],
            handlers: BTreeMap::new(),
            removed: BTreeSet::new(),
            page_size: None,
            fixtures: false,
        }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

impl Catalog {
    pub(crate) fn advertises_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool["name"] == name)
    }

    pub(crate) fn list(&self, member: &str, params: &Value) -> Outcome {
        let items = match member {
            "tools" => &self.tools,
            "prompts" => &self.prompts,
            "resources" => &self.resources,
            _ => &self.templates,
        };
        let start = match params.get("cursor").and_then(Value::as_str) {
            None => 0,
            Some(cursor) => match cursor.strip_prefix("from-").and_then(|n| n.parse().ok()) {
                Some(start) => start,
                None => return Outcome::error(-32602, "Invalid cursor"),
            },
        };
        let end = self.page_size.map_or(items.len(), |size| items.len().min(start + size.max(1)));
        let page = items.get(start..end).unwrap_or_default();
        let mut result = json!({ member: page });
        if end < items.len() {
            result["nextCursor"] = json!(format!("from-{end}"));
        }
        Outcome::ok(&result)
    }

    /// The text of a resource; anything that the template `test://{name}` covers exists.
    pub(crate) fn read_resource(&self, uri: &str) -> Outcome {
        let listed = self.resources.iter().any(|resource| resource["uri"] == uri);
        if !listed && !uri.starts_with("test://") {
            return Outcome::Error(
                json!({ "code": -32002, "message": "Resource not found", "data": { "uri": uri } })
                    .to_string(),
            );
        }
        let text = format!("contents of {uri}");
        Outcome::ok(
            &json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] }),
        )
    }

    pub(crate) fn get_prompt(&self, params: &Value) -> Outcome {
        let name = params["name"].as_str().unwrap_or_default();
        if !self.prompts.iter().any(|prompt| prompt["name"] == name) {
            return Outcome::error(-32602, &format!("Unknown prompt: {name}"));
        }
        let whom = params["arguments"]["name"].as_str().unwrap_or("world");
        let text = format!("Hello, {whom}!");
        Outcome::ok(&json!({
            "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
        }))
    }
}
