//! Everything a server sends that is not the response to its own POST: answers by id, requests, notifications.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::attribution::Asked;
use super::call_watch::CallWatch;
use super::deliveries::{Deliveries, Reply};
use super::in_flight::{InFlight, Waiting};
use super::stale_lists::{ListKind, StaleLists};
use crate::handlers::{Handlers, ServerRequest};
use crate::lifecycle::Generation;
use crate::observe::Notification;
use crate::protocol::{self, Message, RawJson, RpcError, code, method};
use crate::retry::Outcome;
use crate::tasks::Tasks;
use crate::transport::{Answer, Link, SendFailure, Sign, TransportError};

/// One per connection.
#[derive(Debug)]
pub(crate) struct Inbox {
    context: InboxContext,
    generation: Generation,
    in_flight: InFlight,
    /// What we asked to hear of changes with, by our id, each until the server has taken it up.
    listens: Mutex<HashMap<u64, Option<oneshot::Sender<Honoured>>>>,
    /// The server's requests that are being handled, by its id for them.
    handling: Mutex<HashMap<RawJson, CancellationToken>>,
    /// The revision has no requests of servers: what looks like one gets no answer.
    asks_nothing: AtomicBool,
    /// How many of them at once; a server that asks for more is out of order.
    capacity: Arc<Semaphore>,
    pings: Arc<Semaphore>,
    /// How many more are told so at once.
    refusals: Arc<Semaphore>,
    stale_lists: Arc<StaleLists>,
    /// The connection is over: nobody needs an answer to what its server asked.
    over: CancellationToken,
}

/// What the inboxes of all generations of a slot share.
#[derive(Debug, Clone)]
pub(crate) struct InboxContext {
    pub(crate) server: Arc<str>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) notifications: broadcast::Sender<Notification>,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) tasks: Tasks,
}

/// What a server sent that nobody could use.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    count: AtomicU64,
    newest: Mutex<Option<String>>,
}

/// A place in the in-flight table; given up when dropped.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    inbox: &'a Inbox,
    id: u64,
    has_others: bool,
    /// It has its answer, and no place any more.
    is_over: bool,
    /// Absent where the answer comes another way.
    reply: Option<oneshot::Receiver<Result<Answer, SendFailure>>>,
}

/// The server's word that it has taken up a request to hear of changes. While it is kept, the server may end that request
/// unasked.
#[derive(Debug)]
pub(crate) struct Acknowledgement {
    inbox: Arc<Inbox>,
    id: u64,
    said: oneshot::Receiver<Honoured>,
}

/// How much of what was asked for will be heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Honoured {
    Something,
    Nothing,
}

#[derive(Deserialize)]
struct Acknowledged {
    #[serde(default)]
    notifications: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressToken<'a> {
    #[serde(borrow)]
    progress_token: &'a serde_json::value::RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled<'a> {
    #[serde(borrow)]
    request_id: &'a serde_json::value::RawValue,
}

const MAX_HANDLING: usize = 64;
/// Reports on one answer that may wait to be sent.
const MAX_PROGRESS: usize = 8;

// === impl Inbox ===

impl Inbox {
    pub(crate) fn new(context: InboxContext, generation: Generation) -> Self {
        Self {
            context,
            generation,
            in_flight: InFlight::default(),
            listens: Mutex::default(),
            handling: Mutex::default(),
            asks_nothing: AtomicBool::new(false),
            capacity: Arc::new(Semaphore::new(MAX_HANDLING)),
            pings: Arc::new(Semaphore::new(MAX_HANDLING)),
            refusals: Arc::new(Semaphore::new(MAX_HANDLING)),
            stale_lists: Arc::default(),
            over: CancellationToken::new(),
        }
    }

    /// Ends every wait for an answer, and whatever is being done for the server.
    pub(crate) fn close(&self) {
        self.in_flight.cut_off();
        self.over.cancel();
    }

    /// The hub's own.
    pub(crate) fn handlers(&self) -> &Arc<Handlers> {
        &self.context.handlers
    }

    pub(crate) fn stale_lists(&self) -> &Arc<StaleLists> {
        &self.stale_lists
    }

    /// Expects the answer to a request by its id.
    pub(crate) fn expect(&self, watch: &Arc<CallWatch>) -> Pending<'_> {
        let (sender, reply) = oneshot::channel();
        let waiting = Waiting { watch: watch.clone(), reply: Some(sender) };
        let has_others = self.in_flight.add_unless_broken(waiting);
        Pending { inbox: self, id: watch.id(), has_others, is_over: false, reply: Some(reply) }
    }

    /// From here on the server may not ask for anything by itself: since 2026-07-28 it does so by its results.
    pub(crate) fn expect_no_requests(&self) {
        self.asks_nothing.store(true, Ordering::Relaxed);
    }

    /// Expects the server to take up a request to hear of changes.
    pub(crate) fn expect_acknowledgement(self: &Arc<Self>, id: u64) -> Acknowledgement {
        let (sender, said) = oneshot::channel();
        self.listens().insert(id, Some(sender));
        Acknowledgement { inbox: self.clone(), id, said }
    }

    /// Follows a request whose answer comes another way: for its progress, for what the server asks because of it, and
    /// for the end of the connection.
    pub(crate) fn follow(&self, watch: &Arc<CallWatch>) -> Pending<'_> {
        self.in_flight.add(Waiting { watch: watch.clone(), reply: None });
        Pending { inbox: self, id: watch.id(), has_others: false, is_over: false, reply: None }
    }

    /// No answer will come any more, and why; what waits is ended by [`Self::fail_all`].
    pub(crate) fn set_broken(&self, error: &TransportError) {
        self.in_flight.set_broken(error);
    }

    /// Why no answer will come any more, if that is so.
    pub(crate) fn broken(&self) -> Option<TransportError> {
        self.in_flight.broken()
    }

    /// No answer will come any more: ends every wait, each with what can be said of its request.
    pub(crate) fn fail_all(&self, error: &TransportError) {
        // In this order: whoever comes in between is among those.
        self.in_flight.set_broken(error);
        for Waiting { watch, reply } in self.in_flight.take_all() {
            if let Some(reply) = reply {
                // A caller that gave up does not mind.
                let _ = reply.send(Err(SendFailure::broken(watch.give_up(), error.clone())));
            }
        }
    }

    /// Ends the wait for one answer that came and could not be used. That says nothing against the server's health.
    pub(crate) fn fail(&self, id: u64, error: TransportError) {
        let waiting = self.in_flight.remove(id);
        if let Some(reply) = waiting.and_then(|waiting| waiting.reply) {
            // A caller that gave up does not mind.
            let _ = reply.send(Err(SendFailure::new(Outcome::Unknown, error, Sign::None)));
        }
    }

    /// Takes one message; `cause` is the request on whose own stream it came. Never blocks.
    pub(crate) fn receive(
        self: &Arc<Self>,
        message: Message,
        link: &Link,
        cause: Option<&Arc<CallWatch>>,
    ) {
        match message {
            Message::Response { id, answer } => {
                if let Some((_, reply)) = self.expecting(id.as_ref()) {
                    // A caller that gave up a moment ago does not mind.
                    let _ = reply.send(Ok(answer));
                }
            }
            Message::Request { id, method, params } => {
                self.request(id, method.into_owned(), params, link, cause);
            }
            Message::Notification { method, params } => self.notification(&method, params, cause),
        }
    }

    /// Takes one of several that came at once. If it is an answer, it is put to the others, until [`Self::deliver`].
    pub(crate) fn receive_among(
        self: &Arc<Self>,
        message: Message,
        link: &Link,
        answers: &mut Deliveries,
    ) {
        match message {
            Message::Response { id, answer } => {
                if let Some((table, reply)) = self.expecting(id.as_ref()) {
                    answers.add(table, reply, answer);
                }
            }
            other => self.receive(other, link, None),
        }
    }

    /// Hands answers over to those who wait for them, and says how many came from which runtime.
    pub(crate) fn deliver(&self, answers: &mut Deliveries, mut say: impl FnMut(&Handle, usize)) {
        for (table, batch) in answers.batches() {
            let place = self.in_flight.place(table);
            if let Some(place) = &place {
                say(place, batch.len());
            }
            batch.hand_over(place.as_ref(), &self.context.tasks);
        }
    }

    pub(crate) fn count_garbage(&self, error: &dyn std::error::Error) {
        self.context.garbage.add(error.to_string());
    }

    /// Who expects an answer, and the table it waited in until now.
    fn expecting(&self, id: Option<&RawJson>) -> Option<(usize, Reply)> {
        let id = id?.as_str().trim_matches('"').parse::<u64>().ok()?;
        // Late answers to cancelled requests are normal, so an answer nobody waits for is not counted as garbage.
        let reply = self.in_flight.remove(id)?.reply?;
        Some((InFlight::table_of(id), reply))
    }

    fn request(
        self: &Arc<Self>,
        id: RawJson,
        method: String,
        params: Option<RawJson>,
        link: &Link,
        cause: Option<&Arc<CallWatch>>,
    ) {
        if self.asks_nothing.load(Ordering::Relaxed) {
            self.context.garbage.add(format!("a request ({method}), where there are none"));
            return;
        }
        // Pings have places of their own: they are answered at once, however busy the embedder is.
        let places = if method == method::PING { &self.pings } else { &self.capacity };
        let Ok(permit) = places.clone().try_acquire_owned() else {
            self.refuse(id, link, cause.cloned());
            return;
        };
        // Now rather than in the task: by then the call may have ended, and another may be the only one.
        let asked = (method != method::PING).then(|| {
            let calls = self.in_flight.watches(Waiting::may_be_asked_about);
            Asked::because_of(cause, calls.iter(), &self.context.handlers)
        });
        let (inbox, link, cause) = (self.clone(), link.clone(), cause.cloned());
        let withdrawn = CancellationToken::new();
        self.handling().insert(id.clone(), withdrawn.clone());
        self.context.tasks.spawn(async move {
            let responding = async {
                let (progress, mut told) = mpsc::channel(MAX_PROGRESS);
                let response = inbox.response(&id, method, params, asked, progress);
                tokio::pin!(response);
                loop {
                    tokio::select! {
                        biased;
                        Some(params) = told.recv() => {
                            let params = Some(params.as_bytes());
                            let message = protocol::notification(method::PROGRESS, params);
                            post(&link, message, cause.as_deref()).await;
                        }
                        response = &mut response => {
                            return post(&link, response, cause.as_deref()).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = withdrawn.cancelled() => {}
                () = inbox.over.cancelled() => {}
                () = responding => {}
            }
            inbox.handling().remove(&id);
            drop(permit);
        });
    }

    /// Tells the server that it asks too much at once. One that does not even take that is not told any more.
    fn refuse(self: &Arc<Self>, id: RawJson, link: &Link, cause: Option<Arc<CallWatch>>) {
        let Ok(permit) = self.refusals.clone().try_acquire_owned() else {
            self.context.garbage.add(format!("more than {MAX_HANDLING} requests at once"));
            return;
        };
        let (inbox, link) = (self.clone(), link.clone());
        self.context.tasks.spawn(async move {
            let error = RpcError::with(code::INTERNAL_ERROR, "too many requests at once");
            tokio::select! {
                () = inbox.over.cancelled() => {}
                () = post(&link, protocol::error_response(&id, &error), cause.as_deref()) => {}
            }
            drop(permit);
        });
    }

    async fn response(
        &self,
        id: &RawJson,
        method: String,
        params: Option<RawJson>,
        asked: Option<Asked>,
        progress: mpsc::Sender<RawJson>,
    ) -> Bytes {
        let answer = match asked {
            Some(asked) => self.ask(method, params, asked, progress).await,
            None => Ok(RawJson::empty_object()),
        };
        match answer {
            Ok(result) => protocol::result_response(id, &result),
            Err(error) => protocol::error_response(id, &error),
        }
    }

    /// Has the request handled, unless every call it may be about ends before.
    async fn ask(
        &self,
        method: String,
        params: Option<RawJson>,
        asked: Asked,
        progress: mpsc::Sender<RawJson>,
    ) -> Answer {
        let request = ServerRequest {
            server: self.context.server.clone(),
            generation: self.generation,
            method,
            params,
            attribution: asked.attribution,
            call: asked.number,
            progress,
        };
        tokio::select! {
            answer = asked.handlers.handle(request) => answer,
            () = asked.is_moot() => {
                Err(RpcError::with(code::CALL_ENDED, "the call that this was asked for has ended"))
            }
        }
    }

    fn notification(&self, name: &str, params: Option<RawJson>, cause: Option<&Arc<CallWatch>>) {
        match name {
            method::PROGRESS => self.progress(params),
            method::CANCELLED => self.cancelled(params.as_ref()),
            method::ACKNOWLEDGED => self.acknowledged(params.as_ref(), cause),
            "notifications/tools/list_changed" => self.stale_lists.mark(ListKind::Tools),
            "notifications/prompts/list_changed" => self.stale_lists.mark(ListKind::Prompts),
            "notifications/resources/list_changed" => self.stale_lists.mark(ListKind::Resources),
            _ => {
                let notification = Notification {
                    server: self.context.server.clone(),
                    generation: self.generation,
                    method: name.to_owned(),
                    params: params.map(protocol::without_subscription_id),
                };
                let track = cause.and_then(|watch| watch.track());
                let left = match track {
                    Some(track) => track.notify(notification),
                    None => Err(notification),
                };
                if let Err(notification) = left {
                    // Nobody listening is fine.
                    let _ = self.context.notifications.send(notification);
                }
            }
        }
    }

    fn progress(&self, params: Option<RawJson>) {
        let Some(params) = params else { return };
        let Ok(token) = serde_json::from_slice::<ProgressToken<'_>>(params.as_bytes()) else {
            return;
        };
        let token = token.progress_token.get().trim_matches('"').parse::<u64>();
        let watch = token.ok().and_then(|token| self.in_flight.watch(token));
        if let Some(track) = watch.as_ref().and_then(|watch| watch.track()) {
            track.progress(params);
        }
    }

    /// Between the server and us: nobody else asked for it.
    fn acknowledged(&self, params: Option<&RawJson>, cause: Option<&Arc<CallWatch>>) {
        let id = params.and_then(protocol::subscription_id);
        let Some(id) = id.or_else(|| cause.map(|watch| watch.id())) else { return };
        let Some(said) = self.listens().get_mut(&id).and_then(Option::take) else { return };
        let fields = params.and_then(|params| params.parse::<Acknowledged>().ok());
        let nothing = fields.is_some_and(|fields| {
            let brings = |value: &serde_json::Value| match value {
                serde_json::Value::Array(some) => !some.is_empty(),
                value => *value == true,
            };
            !fields.notifications.values().any(brings)
        });
        // Whoever waited for it may have given up.
        let _ = said.send(if nothing { Honoured::Nothing } else { Honoured::Something });
    }

    /// The server no longer wants an answer to a request of its own, or ends what we listen to.
    fn cancelled(&self, params: Option<&RawJson>) {
        let Some(params) = params else { return };
        let Ok(fields) = serde_json::from_slice::<Cancelled<'_>>(params.as_bytes()) else { return };
        let Ok(id) = RawJson::from_text(fields.request_id.get().to_owned()) else { return };
        if let Some(withdrawn) = self.handling().remove(&id) {
            withdrawn.cancel();
            return;
        }
        let ours = id.as_str().trim_matches('"').parse::<u64>();
        if let Ok(id) = ours
            && self.listens().contains_key(&id)
        {
            self.fail(id, TransportError::StreamEnded);
        }
    }

    fn listens(&self) -> MutexGuard<'_, HashMap<u64, Option<oneshot::Sender<Honoured>>>> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handling(&self) -> MutexGuard<'_, HashMap<RawJson, CancellationToken>> {
        self.handling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn post(link: &Link, response: Bytes, cause: Option<&CallWatch>) {
    if let Err(error) = link.post(response, cause).await {
        tracing::debug!(%error, "a response did not reach the server");
    }
}

// === impl Waiting ===

impl Waiting {
    /// Where answers come on streams of their own, so does what is asked because of them, unless somebody says otherwise.
    fn may_be_asked_about(&self) -> bool {
        self.reply.is_some() || self.watch.track().is_some()
    }
}

// === impl Pending ===

impl Pending<'_> {
    /// Others waited for answers when it began to.
    pub(crate) fn has_others(&self) -> bool {
        self.has_others
    }

    /// The answer. Cancel safe; to be awaited until it resolves once.
    pub(crate) async fn answer(&mut self) -> Result<Answer, SendFailure> {
        let answered = match &mut self.reply {
            Some(reply) => reply.await.ok(),
            None => None,
        };
        self.is_over = answered.is_some();
        // Only if the inbox itself is gone, in which case nobody can say whether it was sent.
        answered.unwrap_or_else(|| Err(SendFailure::broken(true, TransportError::Closed)))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.inbox.in_flight.remove(self.id);
        }
    }
}

// === impl Acknowledgement ===

impl Acknowledgement {
    /// Resolves once, when the server has said it; never, if it does not.
    pub(crate) async fn said(&mut self) -> Honoured {
        match (&mut self.said).await {
            Ok(honoured) => honoured,
            Err(_) => std::future::pending().await,
        }
    }

    /// What it has said already.
    pub(crate) fn said_already(&mut self) -> Option<Honoured> {
        self.said.try_recv().ok()
    }
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        self.inbox.listens().remove(&self.id);
    }
}

// === impl Garbage ===

impl Garbage {
    pub(crate) fn add(&self, what: String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn newest(&self) -> Option<String> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
