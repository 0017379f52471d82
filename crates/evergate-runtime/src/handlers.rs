//! What the embedder does for servers: sampling, elicitation, roots. What it does not do is not declared, unless it
//! says itself what to declare.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::lifecycle::Generation;
use crate::observe::Notification;
use crate::protocol::{RawJson, RpcError, code, method};

type Sink = Arc<dyn Fn(Notification, Option<u64>) + Send + Sync>;

type Handling = Pin<Box<dyn Future<Output = Result<RawJson, RpcError>> + Send>>;
type Handler = Arc<dyn Fn(ServerRequest) -> Handling + Send + Sync>;

/// A request a server makes of its client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerRequest {
    /// Who asks.
    pub server: Arc<str>,
    /// On which connection.
    pub generation: Generation,
    /// What for.
    pub method: String,
    /// The params as sent.
    pub params: Option<RawJson>,
    /// How it was found out whom it is for.
    pub attribution: Attribution,
    /// The number of the call whose handlers get it, if [`CallBuilder::number`](crate::CallBuilder::number) gave it one.
    pub call: Option<u64>,
    pub(crate) progress: mpsc::Sender<RawJson>,
}

/// How it was found out which caller a server means with a request of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attribution {
    /// It came on a call's own stream, so it is about that call, and that call's handlers get it.
    Call,
    /// It came on a stream that all calls share, and all calls in flight that have handlers are of one caller: the
    /// newest call's get it.
    OnlyCaller,
    /// Calls with different handlers are in flight, and the server did not say which of them it asks about. The hub's
    /// own handlers get it; to ask one caller what concerns another would be worse than to refuse.
    Ambiguous,
    /// No call with handlers of its own can be meant. The hub's own handlers get it.
    Nobody,
}

/// The embedder's side of server-to-client requests. Cheap to clone.
#[derive(Clone)]
pub struct Handlers {
    by_method: HashMap<&'static str, Handler>,
    any: Option<Handler>,
    declared: Option<RawJson>,
    on_notification: Option<Sink>,
    /// Ours, unless set.
    client_info: Option<Value>,
}

// === impl ServerRequest ===

impl ServerRequest {
    /// Tells the server how far the answer is: the params of a `notifications/progress` with the token the server gave.
    /// What comes faster than it can be sent is left out.
    pub fn tell_progress(&self, params: RawJson) {
        // The next one says more anyway.
        let _ = self.progress.try_send(params);
    }
}

// === impl Handlers ===

impl Handlers {
    /// Declares nothing and answers only pings.
    pub fn new() -> Self {
        Self {
            by_method: HashMap::new(),
            any: None,
            declared: None,
            on_notification: None,
            client_info: None,
        }
    }

    /// The name and version servers see.
    #[must_use]
    pub fn client_info(self, name: &str, version: &str) -> Self {
        Self { client_info: Some(json!({ "name": name, "version": version })), ..self }
    }

    /// Answers `sampling/createMessage`.
    #[must_use]
    pub fn on_sampling<F, R>(self, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<RawJson, RpcError>> + Send + 'static,
    {
        self.on(method::SAMPLING, handler)
    }

    /// Answers `elicitation/create`.
    #[must_use]
    pub fn on_elicitation<F, R>(self, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<RawJson, RpcError>> + Send + 'static,
    {
        self.on(method::ELICITATION, handler)
    }

    /// Answers `roots/list`.
    #[must_use]
    pub fn on_roots<F, R>(self, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<RawJson, RpcError>> + Send + 'static,
    {
        self.on(method::ROOTS_LIST, handler)
    }

    /// Answers every request that has no handler of its own, except pings. Declares nothing: see [`Self::declare`].
    #[must_use]
    pub fn on_any<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<RawJson, RpcError>> + Send + 'static,
    {
        self.any = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Takes the notifications that arrive on the own streams of calls that have these handlers, each with the call's
    /// [`number`](crate::CallBuilder::number), unless the call has a
    /// [sink of its own](crate::CallBuilder::on_notification). Must not block. Means nothing to the hub's own handlers, whose
    /// calls leave them to [`Hub::notifications`](crate::Hub::notifications).
    #[must_use]
    pub fn on_notification(
        mut self,
        sink: impl Fn(Notification, Option<u64>) + Send + Sync + 'static,
    ) -> Self {
        self.on_notification = Some(Arc::new(sink));
        self
    }

    /// The capabilities object that servers see, instead of the one that follows from the handlers. In a handshake that
    /// of the hub's own handlers; where there is none (2026-07-28), with each call that of its own handlers, if these
    /// declare something.
    #[must_use]
    pub fn declare(self, capabilities: impl Into<RawJson>) -> Self {
        Self { declared: Some(capabilities.into()), ..self }
    }

    fn on<F, R>(mut self, method: &'static str, handler: F) -> Self
    where
        F: Fn(ServerRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<RawJson, RpcError>> + Send + 'static,
    {
        self.by_method.insert(method, Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Gives it back if nobody listens.
    pub(crate) fn notify(
        &self,
        notification: Notification,
        call: Option<u64>,
    ) -> Result<(), Notification> {
        match &self.on_notification {
            Some(sink) => {
                sink(notification, call);
                Ok(())
            }
            None => Err(notification),
        }
    }

    pub(crate) async fn handle(&self, request: ServerRequest) -> Result<RawJson, RpcError> {
        match self.by_method.get(request.method.as_str()).or(self.any.as_ref()) {
            Some(handler) => handler(request).await,
            None => Err(RpcError::with(code::METHOD_NOT_FOUND, "this client does not offer that")),
        }
    }

    /// Whether servers were told that there are roots.
    pub(crate) fn has_roots(&self) -> bool {
        match &self.declared {
            Some(declared) => {
                declared.parse::<Value>().is_ok_and(|declared| declared.get("roots").is_some())
            }
            None => self.by_method.contains_key(method::ROOTS_LIST),
        }
    }

    pub(crate) fn declared(&self) -> Option<&RawJson> {
        self.declared.as_ref()
    }

    pub(crate) fn capabilities(&self) -> Value {
        if let Some(declared) = &self.declared {
            return declared.parse().unwrap_or_default();
        }
        let mut declared = serde_json::Map::new();
        if self.by_method.contains_key(method::SAMPLING) {
            declared.insert("sampling".into(), json!({}));
        }
        if self.by_method.contains_key(method::ELICITATION) {
            declared.insert("elicitation".into(), json!({}));
        }
        if self.has_roots() {
            declared.insert("roots".into(), json!({ "listChanged": true }));
        }
        Value::Object(declared)
    }

    pub(crate) fn declared_client_info(&self) -> Value {
        let ours = || json!({ "name": "evergate", "version": env!("CARGO_PKG_VERSION") });
        self.client_info.clone().unwrap_or_else(ours)
    }
}

impl Default for Handlers {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_method.keys()).finish()
    }
}
