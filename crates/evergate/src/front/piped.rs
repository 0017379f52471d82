//! A client at the other end of one ordered stream, for everything in both directions: standard input and output, or
//! HTTP+SSE. The session is as long as the stream.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use evergate_runtime::RawJson;
use evergate_runtime::wire::Message;
use http::HeaderMap;
use tokio::sync::mpsc;

use super::keys::Caller;
use super::respond;
use super::session_id::SessionFacts;
use crate::gateway::client::{Client, Introduction, Scope};
use crate::gateway::error_body::{INVALID_PARAMS, INVALID_REQUEST, Refusal, plain};
use crate::gateway::outlet::Outlet;
use crate::gateway::{Answer, Gateway, RequestContext, handshake};

/// Messages that may wait for a client to read them.
pub(super) const WAITING: usize = 1024;

#[derive(Debug)]
pub(super) struct Piped {
    gateway: Arc<Gateway>,
    caller: Caller,
    scope: Scope,
    pipe: mpsc::Sender<Bytes>,
    /// What to assume of a client that never introduced itself; `None` if it must.
    assumed: Option<&'static str>,
    client: Mutex<Option<Arc<Client>>>,
}

// === impl Piped ===

impl Piped {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        caller: Caller,
        scope: Scope,
        pipe: mpsc::Sender<Bytes>,
        assumed: Option<&'static str>,
    ) -> Self {
        Self { gateway, caller, scope, pipe, assumed, client: Mutex::default() }
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Takes one message. Answers go into the pipe.
    pub(super) async fn take(self: &Arc<Self>, message: Message, headers: Option<HeaderMap>) {
        match message {
            Message::Request { id, method, params } if method == "initialize" => {
                self.initialize(id, params.as_ref()).await;
            }
            Message::Request { id, method, params } => {
                self.request(id, method, params, headers).await;
            }
            Message::Notification { method, params } => {
                if let Some(client) = self.client() {
                    self.gateway.notified(&client, &method, params.as_ref());
                }
            }
            Message::Response { id, answer } => {
                if let Some(client) = self.client() {
                    Gateway::answered(&client, id.as_ref(), answer);
                }
            }
        }
    }

    /// Something that is no message.
    pub(super) async fn refuse(&self, code: i64, message: &str) {
        self.send(respond::unattributed(code, message)).await;
    }

    pub(super) fn calls_under_way(&self) -> usize {
        self.client().map_or(0, |client| client.calls_under_way())
    }

    /// The stream is over, and the session with it.
    pub(super) fn end(&self) {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(client) = client {
            self.gateway.detach(&client);
        }
    }

    async fn initialize(self: &Arc<Self>, id: RawJson, params: Option<&RawJson>) {
        let Some(introduction) = handshake::introduction(params) else {
            let message = "initialize needs protocolVersion, capabilities and clientInfo";
            let answer = Answer::Error(plain(INVALID_PARAMS, message));
            return self.send(respond::line(&id, &answer)).await;
        };
        let client = self.introduce(introduction);
        let myself = self.clone();
        // It may wait for a server that is still starting.
        self.gateway.tasks.spawn(async move {
            let answer = Answer::Result(myself.gateway.welcome(&client).await);
            myself.send(respond::line(&id, &answer)).await;
        });
    }

    async fn request(
        self: &Arc<Self>,
        id: RawJson,
        method: String,
        params: Option<RawJson>,
        headers: Option<HeaderMap>,
    ) {
        if self.gateway.draining.is_cancelled() {
            let answer =
                Answer::Error(plain(Refusal::Draining.code(), Refusal::Draining.message()));
            return self.send(respond::line(&id, &answer)).await;
        }
        let known = self.client();
        let assumed = || Some(self.introduce(Introduction::none(self.assumed?)));
        let Some(client) = known.or_else(assumed) else {
            let answer = if method == "ping" {
                Answer::Result(RawJson::empty_object())
            } else {
                Answer::Error(plain(INVALID_REQUEST, "send an initialize request first"))
            };
            return self.send(respond::line(&id, &answer)).await;
        };
        let (myself, headers) = (self.clone(), headers.map(Arc::new));
        self.gateway.tasks.spawn(async move {
            let context = RequestContext { stream: Outlet::Pipe(myself.pipe.clone()), headers };
            let answer = myself.gateway.request(&client, &id, &method, params, &context).await;
            // A client that took a request back wants to hear no more of it.
            if !matches!(answer, Answer::Cancelled) {
                myself.send(respond::line(&id, &answer)).await;
            }
        });
    }

    /// A client that introduces itself again starts anew.
    fn introduce(&self, introduction: Introduction) -> Arc<Client> {
        let client = Arc::new(Client::new(
            SessionFacts::new_uid(),
            self.caller.clone(),
            self.scope.clone(),
            introduction,
            Outlet::Pipe(self.pipe.clone()),
        ));
        self.gateway.attach(&client, false);
        let before = {
            let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            current.replace(client.clone())
        };
        if let Some(before) = before {
            self.gateway.detach(&before);
        }
        client
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn send(&self, message: Bytes) {
        // A client that is gone does not mind.
        let _ = self.pipe.send(message).await;
    }
}
