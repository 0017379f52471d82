//! Revision 2026-07-28: no handshake, no session; every request says who makes it.

use serde_json::{Value, json};

use crate::jsonrpc::{self, Outcome, Request};
use crate::server::{Server, State};

pub(crate) const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Methods that this revision does not have any more.
const REMOVED: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
/// Results that say how long they may be kept.
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// Which revisions a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eras {
    /// Those with a handshake, up to 2025-11-25.
    #[default]
    Legacy,
    /// Only 2026-07-28.
    Modern,
    /// All of them.
    Both,
}

/// The resources that somebody who listens wants to hear of.
pub(crate) fn wanted_resources(request: &Request) -> Vec<String> {
    let wanted = request.params["notifications"]["resourceSubscriptions"].as_array();
    wanted.into_iter().flatten().filter_map(|uri| Some(uri.as_str()?.to_owned())).collect()
}

// === impl Server ===

impl Server {
    /// Which revisions the server speaks; those with a handshake unless set.
    pub fn set_eras(&self, eras: Eras) {
        self.state().eras = eras;
    }

    /// Whether a request is one without a handshake that the server understands as such.
    pub(crate) fn is_modern(&self, request: &Request) -> bool {
        self.state().eras != Eras::Legacy && request.params["_meta"].get(VERSION).is_some()
    }

    /// Why a request without a handshake is refused, if it is.
    pub(crate) fn refuse_modern(request: &Request) -> Option<Outcome> {
        let meta = &request.params["_meta"];
        let version = meta[VERSION].as_str().unwrap_or_default();
        if version != MODERN {
            let data = json!({ "supported": [MODERN], "requested": version });
            let error = json!({ "code": -32022, "message": "Unsupported version", "data": data });
            return Some(Outcome::Error(error.to_string()));
        }
        if !meta[CAPABILITIES].is_object() {
            return Some(Outcome::error(-32602, "no clientCapabilities"));
        }
        let removed = REMOVED.contains(&request.method.as_str());
        removed.then(|| Outcome::error(-32601, "Method not found"))
    }

    /// The answer of a server that has no handshake to somebody who tries one.
    pub(crate) fn refuse_legacy(&self) -> Option<Outcome> {
        (self.state().eras == Eras::Modern).then(|| {
            let data = json!({ "supported": [MODERN], "requested": "" });
            let error = json!({ "code": -32022, "message": "No handshake here", "data": data });
            Outcome::Error(error.to_string())
        })
    }
}

impl State {
    pub(super) fn discover(&self) -> Value {
        let (_, mut result) = self.handshake(MODERN);
        result["supportedVersions"] = json!([MODERN]);
        if let Some(fields) = result.as_object_mut() {
            fields.remove("protocolVersion");
            fields.remove("serverInfo");
        }
        result
    }
}

/// A result with what this revision puts on every one.
pub(crate) fn complete(outcome: Outcome, request: &Request) -> Outcome {
    let Outcome::Result(text) = outcome else { return outcome };
    let Ok(Value::Object(mut fields)) = serde_json::from_str(&text) else {
        return Outcome::Result(text);
    };
    let done = fields.entry("resultType").or_insert_with(|| "complete".into()) == "complete";
    if done && CACHEABLE.contains(&request.method.as_str()) {
        fields.entry("ttlMs").or_insert_with(|| 0.into());
        fields.entry("cacheScope").or_insert_with(|| "private".into());
    }
    let meta = fields.entry("_meta").or_insert_with(|| json!({}));
    meta[SERVER_INFO] = json!({ "name": "evergate-testkit", "version": env!("CARGO_PKG_VERSION") });
    Outcome::ok(&Value::Object(fields))
}

/// A question to the client, by way of the result, or the answer if it has come with the request.
pub(crate) fn ask(params: &Value, method: &str, asked: Value) -> Outcome {
    if let Some(answer) = params["inputResponses"].get("answer") {
        if params["requestState"] != "state of the tool" {
            return Outcome::error(-32602, "Invalid or expired requestState");
        }
        return Outcome::text(&json!({ "result": answer }).to_string());
    }
    let mut wanted = json!({ "method": method });
    if !asked.is_null() {
        wanted["params"] = asked;
    }
    Outcome::ok(&json!({
        "resultType": "input_required",
        "inputRequests": { "answer": wanted },
        "requestState": "state of the tool",
    }))
}

/// The first message to somebody who listens.
pub(crate) fn acknowledgement(request: &Request) -> String {
    let params = json!({ "notifications": request.params["notifications"] });
    let text = jsonrpc::notification("notifications/subscriptions/acknowledged", &params);
    told(&text, &request.id)
}

/// A notification on the subscription with this id.
pub(crate) fn told(notification: &str, id: &str) -> String {
    let mut notification: Value = serde_json::from_str(notification).unwrap_or_default();
    let id: Value = serde_json::from_str(id).unwrap_or_default();
    if notification["params"].is_null() {
        notification["params"] = json!({});
    }
    notification["params"]["_meta"] = json!({ SUBSCRIPTION: id });
    notification.to_string()
}
