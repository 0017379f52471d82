//! Revision 2026-07-28: no handshake, no session; every request says who makes it.

use serde_json::{Value, json};

use crate::conformance::is_level;
use crate::jsonrpc::{Outcome, Request};
use crate::server::{Server, State};

pub(crate) const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

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

/// What a request says about who makes it and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope<'a>(&'a Value);

// === impl Envelope ===

impl<'a> Envelope<'a> {
    pub(crate) fn of(params: &'a Value) -> Self {
        Self(&params["_meta"])
    }

    /// The revision that it claims to be of, whatever that is.
    pub(crate) fn claim(self) -> Option<&'a Value> {
        self.0.get(VERSION)
    }

    pub(crate) fn version(self) -> &'a str {
        self.claim().and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn capabilities(self) -> &'a Value {
        &self.0[CAPABILITIES]
    }

    pub(crate) fn log_level(self) -> Option<&'a str> {
        self.0.get(LOG_LEVEL)?.as_str()
    }

    /// What is wrong with it.
    fn problem(self) -> Option<&'static str> {
        if !self.claim().is_some_and(Value::is_string) {
            return Some("no protocolVersion in _meta");
        }
        if !self.capabilities().is_object() {
            return Some("no clientCapabilities in _meta");
        }
        let level = self.0.get(LOG_LEVEL);
        let known = level.is_none_or(|level| level.as_str().is_some_and(is_level));
        (!known).then_some("no such logLevel")
    }
}

// === impl Server ===

impl Server {
    /// Which revisions the server speaks; those with a handshake unless set.
    pub fn set_eras(&self, eras: Eras) {
        self.state().eras = eras;
    }

    pub(crate) fn eras(&self) -> Eras {
        self.state().eras
    }

    /// Whether a message is one without a handshake that the server understands as such. `header` is the revision that
    /// HTTP says it is of.
    pub(crate) fn is_modern(&self, params: &Value, header: Option<&str>) -> bool {
        // Revisions are dates, so that text order is time order.
        let modern = Envelope::of(params).claim().is_some()
            || header.is_some_and(|revision| revision >= MODERN);
        modern && self.eras() != Eras::Legacy
    }

    /// What is wrong with what a request says about itself.
    pub(crate) fn refuse_envelope(request: &Request) -> Option<Outcome> {
        let problem = Envelope::of(&request.params).problem()?;
        Some(Outcome::error(-32602, problem))
    }

    /// Why a revision is not served, if it is not.
    pub(crate) fn refuse_version(request: &Request) -> Option<Outcome> {
        let version = Envelope::of(&request.params).version();
        (version != MODERN).then(|| unsupported("Unsupported version", version))
    }

    /// Whether a method is one that this revision has no more, or this server does not have, or has not for this.
    pub(crate) fn refuse_method(&self, request: &Request) -> Option<Outcome> {
        let method = request.method.as_str();
        let removed = REMOVED.contains(&method)
            || (method == "subscriptions/listen" && !self.state().http.listening);
        if removed {
            return Some(Outcome::error(-32601, "Method not found"));
        }
        let state = self.state();
        let (refused, code) = &state.refused_resources;
        let wanted = request.params["notifications"]["resourceSubscriptions"].as_array();
        let any = wanted.into_iter().flatten().any(|uri| refused.iter().any(|no| uri == no));
        any.then(|| Outcome::error(*code, "No such resource"))
    }

    /// Refuses every `subscriptions/listen` that names one of these, as a whole and with this code.
    pub fn refuse_resources(&self, uris: &[&str], code: i64) {
        let uris = uris.iter().map(|uri| (*uri).to_owned()).collect();
        self.state().refused_resources = (uris, code);
    }

    /// Why a request without a handshake is refused, if it is.
    pub(crate) fn refuse_modern(&self, request: &Request) -> Option<Outcome> {
        Self::refuse_envelope(request)
            .or_else(|| Self::refuse_version(request))
            .or_else(|| self.refuse_method(request))
    }

    /// The answer of a server that has no handshake to somebody who tries one.
    pub(crate) fn refuse_legacy(&self, request: &Request) -> Option<Outcome> {
        (self.eras() == Eras::Modern).then(|| Self::no_handshake(request))
    }

    pub(crate) fn no_handshake(request: &Request) -> Outcome {
        let asked = request.params["protocolVersion"].as_str().unwrap_or_default();
        unsupported("No handshake here", asked)
    }

    /// The answer to a request without a handshake on a connection that began with one.
    pub(crate) fn refuse_late_modern() -> Outcome {
        Outcome::error(-32600, "This connection began with a handshake")
    }

    /// Has every line connection stay with the first kind of request that it brings, as the Python
    /// SDK does, instead of taking both kinds.
    pub fn set_pinning(&self, enabled: bool) {
        self.state().pins = enabled;
    }

    pub(crate) fn pins(&self) -> bool {
        self.state().pins
    }

    /// Has every HTTP answer without a handshake name a session, which clients must not care about.
    pub fn set_stray_session_ids(&self, enabled: bool) {
        self.state().stray_session_ids = enabled;
    }

    pub(crate) fn has_stray_session_ids(&self) -> bool {
        self.state().stray_session_ids
    }
}

fn unsupported(message: &str, requested: &str) -> Outcome {
    let data = json!({ "supported": [MODERN], "requested": requested });
    let error = json!({ "code": -32022, "message": message, "data": data });
    Outcome::Error(error.to_string())
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
