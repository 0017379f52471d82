//! A client at the other end of one ordered stream, for everything in both directions: standard input and output, or
//! HTTP+SSE. The session is as long as the stream, for those revisions that have one; requests that bring everything along
//! ([`without_session`]) may come on the same stream.

mod without_session;

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use evergate_runtime::wire::Message;
use evergate_runtime::{Own, RawJson};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::keys::Caller;
use super::request::Headers;
use super::respond;
use super::session_id::SessionFacts;
use crate::gateway::client::{Client, Introduction, Scope};
use crate::gateway::error_body::{INVALID_PARAMS, INVALID_REQUEST, NOT_SENT, Refusal, plain};
use crate::gateway::outlet::Outlet;
use crate::gateway::stateless::envelope;
use crate::gateway::{Answer, ClientRequest, Gateway, RequestContext, goes_to_server, handshake};

/// Messages that may wait for a client to read them.
pub(super) const WAITING: usize = 1024;

#[derive(Debug)]
pub(super) struct Piped {
    gateway: Arc<Gateway>,
    /// As of the newest message: what its key may do can change.
    caller: Mutex<Caller>,
    scope: Scope,
    pipe: mpsc::Sender<Bytes>,
    /// What to assume of a client that never introduced itself; `None` if it must.
    assumed: Option<&'static str>,
    state: Mutex<State>,
    /// Requests that are not answered yet.
    unanswered: AtomicUsize,
    /// Requests that are not answered until somebody ends them.
    listens: TaskTracker,
    /// They are to be ended.
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    client: Option<Own<Client>>,
    /// On whose behalf requests without a session are made.
    principal: Option<Own<Client>>,
    /// The stream is over: messages that were on their way find nobody.
    over: bool,
}

/// Counts a request for as long as it lives.
struct Unanswered(Arc<Piped>);

// === impl Piped ===

impl Piped {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        caller: Caller,
        scope: Scope,
        pipe: mpsc::Sender<Bytes>,
        assumed: Option<&'static str>,
    ) -> Self {
        Self {
            gateway,
            caller: Mutex::new(caller),
            scope,
            pipe,
            assumed,
            state: Mutex::default(),
            unanswered: AtomicUsize::new(0),
            listens: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Whether this stream is the caller's; if so, it may from now on what the caller may now.
    pub(super) fn is_of(&self, caller: &Caller) -> bool {
        let mut own = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        if own.name() != caller.name() {
            return false;
        }
        *own = caller.clone();
        drop(own);
        let (client, principal) = (self.client(), self.state().principal.clone());
        for client in client.into_iter().chain(principal) {
            client.set_caller(caller);
        }
        true
    }

    /// Whether there is room for another request. A client that does not read its answers gets no more of them.
    pub(super) fn has_room(&self) -> bool {
        self.unanswered() < WAITING
    }

    /// Takes one message. Answers go into the pipe.
    pub(super) async fn take(self: &Arc<Self>, message: Message, headers: Option<Headers>) {
        match message {
            Message::Request { id, method, params } if envelope::is_claimed(params.as_ref()) => {
                self.request_without_session(id, method, params, headers).await;
            }
            Message::Request { id, method, params } if method == "initialize" => {
                self.initialize(id, params.as_ref()).await;
            }
            Message::Request { id, method, params } => {
                self.request(id, method, params, headers).await;
            }
            Message::Notification { method, params } => {
                let (client, principal) = (self.client(), self.state().principal.clone());
                for client in client.into_iter().chain(principal) {
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

    /// How many requests are not answered yet.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Acquire)
    }

    /// The stream is over, and the session with it.
    pub(super) fn end(&self) {
        let (client, principal) = {
            let mut state = self.state();
            state.over = true;
            (state.client.take(), state.principal.take())
        };
        for client in client.into_iter().chain(principal) {
            self.gateway.detach(&client);
        }
    }

    async fn initialize(self: &Arc<Self>, id: RawJson, params: Option<&RawJson>) {
        let Some(introduction) = handshake::introduction(params) else {
            let message = "initialize needs protocolVersion, capabilities and clientInfo";
            let answer = Answer::Error(plain(INVALID_PARAMS, message));
            return self.send(respond::line(&id, &answer)).await;
        };
        let (outbox, mut news) = mpsc::channel(WAITING);
        let Some(client) = self.introduce(introduction, Outlet::Pipe(outbox)) else { return };
        let (myself, unanswered) = (self.clone(), Unanswered::new(self));
        // It may wait for a server that is still starting.
        self.gateway.tasks.spawn(async move {
            let answer = Answer::Result(myself.gateway.welcome(&client).await);
            // Whatever has become of the lists by now is no news to a client that has not seen them.
            client.announce(myself.gateway.view(&client).digests());
            let early =
                std::iter::from_fn(|| news.try_recv().ok()).filter(|news| !is_of_lists(news));
            let early: Vec<Bytes> = early.collect();
            myself.send(respond::line(&id, &answer)).await;
            drop(unanswered);
            let ended = client.ended.token().clone();
            drop(client);
            ended.run_until_cancelled(myself.pass_on(early, news)).await;
        });
    }

    /// What the gateway has to say unasked. A client is not to hear of it before its `initialize` is answered.
    async fn pass_on(&self, early: Vec<Bytes>, mut news: mpsc::Receiver<Bytes>) {
        for message in early {
            self.send(message).await;
        }
        while let Some(message) = news.recv().await {
            self.send(message).await;
        }
    }

    async fn request(
        self: &Arc<Self>,
        id: RawJson,
        method: Cow<'static, str>,
        params: Option<RawJson>,
        headers: Option<Headers>,
    ) {
        if let Some(error) = self.refuses(&method, params.as_ref()) {
            return self.send(respond::line(&id, &Answer::Error(error))).await;
        }
        let Some(client) = self.client_or_assumed() else {
            let answer = if method == "ping" {
                Answer::Result(RawJson::empty_object())
            } else {
                Answer::Error(plain(INVALID_REQUEST, "send an initialize request first"))
            };
            return self.send(respond::line(&id, &answer)).await;
        };
        let (myself, unanswered) = (self.clone(), Unanswered::new(self));
        let headers = headers.and_then(|headers| self.gateway.to_pass_on(&headers));
        let answering = Box::pin(async move {
            let context = RequestContext {
                stream: Outlet::Pipe(myself.pipe.clone()),
                headers,
                takes_pieces: false,
                rounds: None,
            };
            let mut asked = ClientRequest { method, params, noted: None };
            let answer = myself.gateway.request(&client, &id, &mut asked, &context).await;
            // A client that took a request back wants to hear no more of it.
            if !matches!(answer, Answer::Cancelled) {
                myself.send(respond::line(&id, &answer)).await;
            }
            drop(unanswered);
        });
        self.begin_at_once(answering).await;
    }

    /// Begins an answer before the next message is looked at: that may be the cancellation of this one.
    async fn begin_at_once(&self, mut answering: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let begun = poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await;
        if begun.is_pending() {
            self.gateway.tasks.spawn(answering);
        }
    }

    /// Why no request of this kind is taken now.
    fn refuses(&self, method: &str, params: Option<&RawJson>) -> Option<RawJson> {
        if self.gateway.draining.has_begun() {
            return Some(Refusal::Draining.error());
        }
        let size = params.map_or(0, |params| params.as_bytes().len());
        if goes_to_server(method) && self.gateway.buffers.are_full_but_for(size) {
            return Some(Refusal::OutOfMemory.error());
        }
        (!self.has_room()).then(|| plain(NOT_SENT, "too many requests are not answered yet"))
    }

    /// A client that introduces itself again starts anew. `None` if the stream is over.
    fn introduce(&self, introduction: Introduction, outbox: Outlet) -> Option<Own<Client>> {
        let (before, client) = {
            let mut state = self.state();
            let client = self.attach(&state, introduction, outbox)?;
            (state.client.replace(client.clone()), client)
        };
        if let Some(before) = before {
            self.gateway.detach(&before);
        }
        Some(client)
    }

    /// The client; one that never introduced itself is assumed where that is allowed.
    fn client_or_assumed(&self) -> Option<Own<Client>> {
        let mut state = self.state();
        if state.client.is_none() {
            let outbox = Outlet::Pipe(self.pipe.clone());
            state.client = self.attach(&state, Introduction::none(self.assumed?), outbox);
        }
        state.client.clone()
    }

    fn attach(
        &self,
        state: &State,
        introduction: Introduction,
        outbox: Outlet,
    ) -> Option<Own<Client>> {
        if state.over {
            return None;
        }
        let client = Arc::new(Client::new(
            SessionFacts::new_uid(),
            self.caller(),
            self.scope.clone(),
            introduction,
            outbox,
        ));
        self.gateway.attach(&client, false);
        Some(Own::new(client))
    }

    fn caller(&self) -> Caller {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn client(&self) -> Option<Own<Client>> {
        self.state().client.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, message: Bytes) {
        // A client that is gone does not mind.
        let _ = self.pipe.send(self.gateway.buffers.counted(message)).await;
    }
}

/// Whether a message of the gateway's own says that a list has changed.
fn is_of_lists(message: &[u8]) -> bool {
    message.ends_with(b"/list_changed\"}")
}

// === impl Unanswered ===

impl Unanswered {
    fn new(piped: &Arc<Piped>) -> Self {
        piped.unanswered.fetch_add(1, Ordering::AcqRel);
        Self(piped.clone())
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}
