//! Revision 2026-07-28: no handshake, no session; every request says who makes it.

use serde_json::{Value, json};

use crate::jsonrpc::{Outcome, Request};
use crate::server::{Server, State};

pub(crate) const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

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
    pub(crate) fn refuse_modern(&self, request: &Request) -> Option<Outcome> {
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
        let method = request.method.as_str();
        let removed = REMOVED.contains(&method)
            || (method == "subscriptions/listen" && !self.state().http.listening);
        removed.then(|| Outcome::error(-32601, "Method not found"))
    }

    /// Has every line connection stay with the first kind of request that it brings, as the Python
    /// SDK does, instead of taking both kinds.
    pub fn set_pinning(&self, enabled: bool) {
        self.state().pins = enabled;
    }

    /// Has every HTTP answer without a handshake name a session, which clients must not care about.
    pub fn set_stray_session_ids(&self, enabled: bool) {
        self.state().stray_session_ids = enabled;
    }

    pub(crate) fn pins(&self) -> bool {
        self.state().pins
    }

    pub(crate) fn has_stray_session_ids(&self) -> bool {
        self.state().stray_session_ids
    }

    /// The answer to a request without a handshake on a connection that began with one.
    pub(crate) fn refuse_late_modern() -> Outcome {
        Outcome::error(-32600, "This connection began with a handshake")
    }

    /// The answer of a server that has no handshake to somebody who tries one.
    pub(crate) fn refuse_legacy(&self) -> Option<Outcome> {
        (self.state().eras == Eras::Modern).then(Self::no_handshake)
    }

    pub(crate) fn no_handshake() -> Outcome {
        let data = json!({ "supported": [MODERN], "requested": "" });
        let error = json!({ "code": -32022, "message": "No handshake here", "data": data });
        Outcome::Error(error.to_string())
    }
}

impl State {
    pub(crate) fn discover(&self) -> Value {
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
    let text = match outcome {
        Outcome::Result(text) => text,
        // A code of earlier revisions; this one has none of its own for it.
        Outcome::Error(error) => return Outcome::Error(error.replace("-32002", "-32602")),
    };
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

/// Whether a request wants to hear of log messages of this level. Without a word about it there are none.
pub(crate) fn wants_log(params: &Value, level: &str) -> bool {
    let wanted = params["_meta"][LOG_LEVEL].as_str();
    wanted.is_some_and(|wanted| is_as_severe(level, wanted))
}

/// Whether a log message of `level` is for somebody who wants those from `wanted` on.
pub(crate) fn is_as_severe(level: &str, wanted: &str) -> bool {
    const LEVELS: [&str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    rank(wanted).is_some_and(|wanted| rank(level).is_some_and(|level| level >= wanted))
}
