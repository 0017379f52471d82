//! Revision 2026-07-28: no handshake, no session; every request says who makes it.

use serde_json::{Map, Value, json};

use crate::conformance::is_level;
use crate::jsonrpc::{self, Outcome, Request};
use crate::server::{Server, State};

pub(crate) const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
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

/// What a request says about who makes it and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope<'a>(&'a Value);

/// The changes that somebody wants to hear of.
#[derive(Debug, Clone)]
pub(crate) struct Listening {
    /// The id of the request that asked, as the client wrote it.
    pub(crate) id: String,
    /// The filter, as far as it wants anything.
    wanted: Map<String, Value>,
}

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

// === impl Listening ===

impl Listening {
    pub(crate) fn new(request: &Request) -> Self {
        let filter = request.params["notifications"].as_object();
        let wanted = filter.into_iter().flatten().filter(|(_, value)| match value {
            Value::Bool(wanted) => *wanted,
            Value::Array(items) => !items.is_empty(),
            _ => false,
        });
        let wanted = wanted.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { id: request.id.clone(), wanted }
    }

    /// The resources that it names.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &str> {
        let uris = self.wanted.get("resourceSubscriptions").and_then(Value::as_array);
        uris.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether a notification of this method is wanted. What no filter speaks of comes to all who listen.
    pub(crate) fn wants(&self, method: &str) -> bool {
        match method {
            "notifications/tools/list_changed" => self.wanted.contains_key("toolsListChanged"),
            "notifications/prompts/list_changed" => self.wanted.contains_key("promptsListChanged"),
            "notifications/resources/list_changed" => {
                self.wanted.contains_key("resourcesListChanged")
            }
            _ => true,
        }
    }

    /// The first message of the stream.
    pub(crate) fn acknowledgement(&self) -> String {
        let params = json!({ "notifications": self.wanted });
        let text = jsonrpc::notification("notifications/subscriptions/acknowledged", &params);
        self.told(&text)
    }

    /// A notification, for this subscription.
    pub(crate) fn told(&self, notification: &str) -> String {
        let mut notification: Value = serde_json::from_str(notification).unwrap_or_default();
        let id: Value = serde_json::from_str(&self.id).unwrap_or_default();
        if notification["params"].is_null() {
            notification["params"] = json!({});
        }
        notification["params"]["_meta"] = json!({ SUBSCRIPTION: id });
        notification.to_string()
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

    /// Whether a method is one that this revision has no more.
    pub(crate) fn refuse_method(request: &Request) -> Option<Outcome> {
        let removed = REMOVED.contains(&request.method.as_str());
        removed.then(|| Outcome::error(-32601, "Method not found"))
    }

    /// Why a request without a handshake is refused, if it is.
    pub(crate) fn refuse_modern(request: &Request) -> Option<Outcome> {
        Self::refuse_envelope(request)
            .or_else(|| Self::refuse_version(request))
            .or_else(|| Self::refuse_method(request))
    }

    /// The answer of a server that has no handshake to somebody who tries one.
    pub(crate) fn refuse_legacy(&self, request: &Request) -> Option<Outcome> {
        (self.eras() == Eras::Modern).then(|| {
            let asked = request.params["protocolVersion"].as_str().unwrap_or_default();
            unsupported("No handshake here", asked)
        })
    }
}

fn unsupported(message: &str, requested: &str) -> Outcome {
    let data = json!({ "supported": [MODERN], "requested": requested });
    let error = json!({ "code": -32022, "message": message, "data": data });
    Outcome::Error(error.to_string())
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
