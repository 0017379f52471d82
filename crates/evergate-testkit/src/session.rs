//! One handshaken peer, on whatever transport.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::server::modern::MODERN;
use crate::server::{Listen, lock};

pub(crate) mod outgoing;
pub(crate) mod streams;

pub(crate) use outgoing::{OUTBOX_LIMIT, Outgoing, Sink};
pub(crate) use streams::StreamId;
use streams::Streams;

/// One session. On line transports and on the 2024-11-05 SSE transport it has an outbox and lives
/// as long as its stream; on streamable HTTP it has any number of streams.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// The transport instance that made it, so that killing one server forgets only its own.
    pub(crate) home: u64,
    outbox: Option<mpsc::Sender<Outgoing>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    protocol: String,
    subscriptions: BTreeSet<String>,
    streams: Streams,
    in_flight: HashMap<String, CancellationToken>,
    expired: bool,
    /// Asked for changes, in the revision in which they come only then.
    listens: Vec<Listen>,
    /// What the client said that it can be asked for.
    client_capabilities: Value,
}

/// A request that is being worked on; cancellable while this lives.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) cancelled: CancellationToken,
    session: Arc<Session>,
    id: String,
}

// === impl Session ===

impl Session {
    pub(crate) fn new(id: String, home: u64, outbox: Option<mpsc::Sender<Outgoing>>) -> Self {
        Self { id, home, outbox, state: Mutex::default() }
    }

    pub(crate) fn protocol(&self) -> String {
        lock(&self.state).protocol.clone()
    }

    pub(crate) fn set_protocol(&self, protocol: &str) {
        let mut state = lock(&self.state);
        protocol.clone_into(&mut state.protocol);
        // Where nothing can be resumed, events need no ids.
        state.streams.set_event_ids(protocol != MODERN);
    }

    pub(crate) fn client_capabilities(&self) -> Value {
        lock(&self.state).client_capabilities.clone()
    }

    pub(crate) fn set_client_capabilities(&self, capabilities: Value) {
        lock(&self.state).client_capabilities = capabilities;
    }

    // --- what a client listens to without a handshake ---

    pub(crate) fn listen(&self, listen: Listen) {
        lock(&self.state).listens.push(listen);
    }

    /// Ends one. Its stream ends with it where it has one of its own.
    pub(crate) fn unlisten(&self, id: &str) {
        let mut state = lock(&self.state);
        state.listens.retain(|listen| listen.id != id);
        if state.listens.is_empty() {
            state.streams.end_listening();
        }
    }

    pub(crate) fn listens(&self) -> Vec<Listen> {
        lock(&self.state).listens.clone()
    }

    /// It was only there for its stream, and that is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.protocol() == MODERN && !self.is_listening()
    }

    // --- subscriptions ---

    pub(crate) fn subscribe(&self, uri: &str) {
        lock(&self.state).subscriptions.insert(uri.into());
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        lock(&self.state).subscriptions.remove(uri);
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.state).subscriptions.contains(uri)
    }

    pub(crate) fn subscriptions(&self) -> Vec<String> {
        let state = lock(&self.state);
        let listened = state.listens.iter().flat_map(Listen::resources);
        listened.map(str::to_owned).chain(state.subscriptions.iter().cloned()).collect()
    }

    // --- requests in flight ---

    pub(crate) fn begin(self: &Arc<Self>, id: &str) -> InFlight {
        let cancelled = CancellationToken::new();
        lock(&self.state).in_flight.insert(id.into(), cancelled.clone());
        InFlight { cancelled, session: self.clone(), id: id.into() }
    }

    pub(crate) fn cancel(&self, id: &str) {
        if let Some(token) = lock(&self.state).in_flight.get(id) {
            token.cancel();
        }
    }

    // --- unasked messages ---

    /// Where unasked messages go; `None` if the client listens nowhere.
    pub(crate) fn listening(self: &Arc<Self>) -> Option<Sink> {
        if let Some(outbox) = &self.outbox {
            return Some(Sink::Outbox(outbox.clone()));
        }
        let stream = lock(&self.state).streams.listening()?;
        Some(Sink::Stream(self.clone(), stream))
    }

    /// Whether somebody reads [`Session::listening`] right now.
    pub(crate) fn is_listening(&self) -> bool {
        if let Some(outbox) = &self.outbox {
            return !outbox.is_closed();
        }
        let state = lock(&self.state);
        state.streams.listening().is_some_and(|stream| state.streams.is_live(stream))
    }

    /// Breaks the connection that the client listens on. On transports with one stream that is all
    /// there is.
    pub(crate) fn cut_listening(&self) {
        match &self.outbox {
            Some(outbox) => drop(outbox.try_send(Outgoing::Cut)),
            None => lock(&self.state).streams.cut_listening(),
        }
    }

    /// Ends what the client listens on, as a server does that forgot the session. Answers that
    /// are under way still arrive.
    pub(crate) fn expire(&self) {
        let mut state = lock(&self.state);
        state.expired = true;
        state.streams.end_listening();
        state.subscriptions.clear();
    }

    pub(crate) fn is_expired(&self) -> bool {
        lock(&self.state).expired
    }

    // --- streams of streamable HTTP ---

    pub(crate) fn open_stream(&self, listening: bool) -> (StreamId, mpsc::Receiver<Outgoing>) {
        lock(&self.state).streams.open(listening)
    }

    pub(crate) fn resume_stream(&self, last_event_id: &str) -> Option<mpsc::Receiver<Outgoing>> {
        lock(&self.state).streams.resume(last_event_id)
    }

    pub(crate) fn send_on(&self, stream: StreamId, json: String, is_answer: bool) {
        lock(&self.state).streams.send(stream, json, is_answer);
    }

    pub(crate) fn act(&self, stream: StreamId, action: Outgoing) {
        lock(&self.state).streams.act(stream, action);
    }

    pub(crate) fn prime(&self, stream: StreamId, retry_ms: Option<u64>) {
        lock(&self.state).streams.prime(stream, retry_ms);
    }

    pub(crate) fn detach(&self, stream: StreamId) {
        lock(&self.state).streams.detach(stream);
    }

    pub(crate) fn forbid_resume(&self, stream: StreamId) {
        lock(&self.state).streams.forbid_resume(stream);
    }

    /// Waits until nobody reads a stream any more. It does not end while somebody waits here.
    pub(crate) async fn unread(&self, stream: StreamId) {
        let live = lock(&self.state).streams.live(stream);
        if let Some(live) = live {
            live.closed().await;
        }
    }

    pub(crate) fn end_stream(&self, stream: StreamId) {
        lock(&self.state).streams.end(stream);
    }
}

// === impl InFlight ===

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.session.state).in_flight.remove(&self.id);
    }
}
