//! A client of 2026-07-28 that shows everything it gets and can get everything wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evergate_runtime::wire::EventDecoder;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use crate::support::{Answer, Events, Gateway, Http};

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Cheap to clone: it has nothing but an address and what it says of itself.
#[derive(Clone)]
pub(crate) struct Stateless {
    pub(crate) http: Http,
    pub(crate) capabilities: Value,
    next: Arc<AtomicU64>,
}

/// A request that can still be changed.
#[derive(Clone)]
pub(crate) struct Draft {
    http: Http,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

/// What a request was answered with.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// What came before the answer.
    pub(crate) notes: Vec<Value>,
    /// The whole JSON-RPC message; null if there was none.
    pub(crate) message: Value,
}

// === impl Stateless ===

impl Stateless {
    /// One that can answer everything.
    pub(crate) fn new(http: Http) -> Self {
        let capabilities = json!({ "sampling": {}, "elicitation": {}, "roots": {} });
        Self { http, capabilities, next: Arc::default() }
    }

    pub(crate) fn of(gateway: &Gateway) -> Self {
        Self::new(gateway.http())
    }

    /// One that sees only this server.
    pub(crate) fn of_server(gateway: &Gateway, server: &str) -> Self {
        Self::new(Http::new(&gateway.at(&format!("/mcp/{server}"))))
    }

    pub(crate) fn able(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.http = self.http.header("authorization", &format!("Bearer {key}"));
        self
    }

    /// A request with everything that belongs to it.
    pub(crate) fn draft(&self, method: &str, params: Value) -> Draft {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut params = params;
        let named = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
            _ => None,
        };
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            header("content-type", "application/json"),
            header("accept", "application/json, text/event-stream"),
            header("mcp-protocol-version", MODERN),
            header("mcp-method", method),
        ];
        headers.extend(named.map(|named| header("mcp-name", &encoded(named))));
        let mut meta = match params["_meta"].take() {
            Value::Object(meta) => meta,
            _ => Map::new(),
        };
        meta.insert(VERSION.into(), MODERN.into());
        meta.insert(CAPABILITIES.into(), self.capabilities.clone());
        meta.insert(CLIENT_INFO.into(), json!({ "name": "eras", "version": "1" }));
        params["_meta"] = meta.into();
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        Draft { http: self.http.clone(), headers, body }
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Replied {
        self.draft(method, params).send().await
    }

    /// The result of a request that has one.
    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        self.request(method, params).await.complete()
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Draft {
        self.draft("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    pub(crate) async fn call_text(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).send().await.text()
    }

    pub(crate) async fn tool_names(&self) -> Vec<String> {
        let result = self.result("tools/list", json!({})).await;
        let tools = result["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Listens, and has read the acknowledgement, which it returns.
    pub(crate) async fn listen(&self, wanted: Value) -> (Events, Value) {
        let draft = self.draft("subscriptions/listen", json!({ "notifications": wanted }));
        let mut events = draft.open().await;
        assert_eq!(events.status, StatusCode::OK);
        let acknowledged = events.message().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], draft.body["id"]);
        (events, acknowledged["params"]["notifications"].clone())
    }
}

// === impl Draft ===

impl Draft {
    pub(crate) fn id(mut self, id: Value) -> Self {
        self.body["id"] = id;
        self
    }

    /// Says this in a header, whatever it would have said.
    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        self.without(name).also(name, value)
    }

    /// Says this in one more header.
    pub(crate) fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn param(mut self, name: &str, value: Value) -> Self {
        self.body["params"][name] = value;
        self
    }

    pub(crate) fn meta(mut self, name: &str, value: Value) -> Self {
        self.body["params"]["_meta"][name] = value;
        self
    }

    pub(crate) fn without_meta(mut self, name: &str) -> Self {
        self.body["params"]["_meta"].as_object_mut().unwrap().remove(name);
        self
    }

    /// The same call again with answers to its questions.
    pub(crate) fn answering(&self, asked: &Value, answers: Value) -> Self {
        let mut next = self.clone().param("inputResponses", answers);
        next = next.id(json!(format!("{}, again", self.body["id"])));
        let state = &asked["requestState"];
        if state.is_string() { next.param("requestState", state.clone()) } else { next }
    }

    pub(crate) async fn send(&self) -> Replied {
        let answer = self.http.post(&self.headers(), self.body.to_string()).await;
        let replied = Replied::of(answer);
        if !replied.message.is_null() {
            assert_eq!(replied.message["id"], self.body["id"], "{replied:?}");
        }
        replied
    }

    /// The answer as a stream.
    pub(crate) async fn open(&self) -> Events {
        self.http.post_for_events(&self.headers(), self.body.to_string()).await
    }

    /// Any body with these headers.
    pub(crate) async fn send_text(&self, body: &str) -> Answer {
        self.http.post(&self.headers(), body.to_owned()).await
    }

    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value)).collect()
    }
}

// === impl Replied ===

impl Replied {
    fn of(answer: Answer) -> Self {
        assert!(!answer.headers.contains_key("mcp-session-id"), "there are no sessions");
        let is_stream = answer.header("content-type") == Some("text/event-stream");
        let mut messages = if is_stream {
            messages_of(&answer.body)
        } else if answer.body.is_empty() {
            Vec::new()
        } else {
            vec![answer.json()]
        };
        let message = messages.pop().unwrap_or_default();
        for note in &messages {
            let is_notification = note["method"].is_string() && note.get("id").is_none();
            assert!(is_notification, "only notifications before the answer: {note}");
        }
        let replied =
            Self { status: answer.status, headers: answer.headers, notes: messages, message };
        if let Some(result) = replied.message.get("result") {
            assert_eq!(replied.status, StatusCode::OK, "{replied:?}");
            assert!(result["resultType"].is_string(), "{replied:?}");
            let info = &result["_meta"][SERVER_INFO];
            assert!(info["name"].is_string() && info["version"].is_string(), "{replied:?}");
        }
        replied
    }

    /// The result, which must be the end of it.
    #[track_caller]
    pub(crate) fn complete(&self) -> Value {
        let result = &self.message["result"];
        assert_eq!(result["resultType"], "complete", "{self:?}");
        result.clone()
    }

    /// The text of a tool's result.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        let text = self.complete()["content"][0]["text"].as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("no text: {self:?}"))
    }

    /// The result that asks something.
    #[track_caller]
    pub(crate) fn questions(&self) -> Value {
        let result = &self.message["result"];
        assert_eq!(result["resultType"], "input_required", "{self:?}");
        assert_eq!((result.get("ttlMs"), result.get("cacheScope")), (None, None));
        result.clone()
    }

    /// The error, which must have this status and code.
    #[track_caller]
    pub(crate) fn error(&self, status: u16, code: i64) -> Value {
        let error = &self.message["error"];
        assert_eq!((self.status.as_u16(), &error["code"]), (status, &json!(code)), "{self:?}");
        assert!(error["message"].is_string(), "{self:?}");
        error.clone()
    }
}

/// The names under which a result asks things, in order.
pub(crate) fn keys(asked: &Value) -> Vec<String> {
    let mut keys: Vec<_> = asked["inputRequests"].as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

/// The only name under which a result asks something.
pub(crate) fn key(asked: &Value) -> String {
    let keys = keys(asked);
    assert_eq!(keys.len(), 1, "{asked}");
    keys[0].clone()
}

fn messages_of(body: &[u8]) -> Vec<Value> {
    let mut decoder = EventDecoder::new(16 << 20);
    decoder.push(body);
    let mut messages = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        assert!(event.id.is_none(), "such a stream cannot be taken up again");
        if !event.data.is_empty() {
            messages.push(serde_json::from_slice(event.data.as_ref()).unwrap());
        }
    }
    messages
}

/// A value as a header says it.
pub(crate) fn encoded(text: &str) -> String {
    let plain = text.chars().all(|char| char == ' ' || char.is_ascii_graphic());
    if plain && text.trim() == text && !text.is_empty() {
        return text.to_owned();
    }
    format!("=?base64?{}?=", STANDARD.encode(text))
}
