//! One client, whatever it speaks over: who it is, what it can do, and what is under way for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use evergate_runtime::{RawJson, RpcError, wire};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::event_log::EventLog;
use super::isolation::PrivateServers;
use super::log_level::Level;
use super::merged::Digests;
use super::outlet::Outlet;
use crate::front::keys::Caller;

/// Names a client for as long as its session lasts, over every connection it makes and every restart of the gateway.
pub(crate) type Uid = [u8; 16];

/// Which servers a client sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// All of them, under names that tell whose is what.
    All,
    /// One, as it is.
    One(Arc<str>),
}

/// What a client said of itself in its handshake.
#[derive(Debug, Clone)]
pub(crate) struct Introduction {
    pub(crate) version: String,
    pub(crate) capabilities: RawJson,
    pub(crate) client_info: RawJson,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) uid: Uid,
    pub(crate) scope: Scope,
    pub(crate) introduction: Introduction,
    /// What is not about a call of this client's.
    pub(crate) outbox: Outlet,
    pub(crate) private: PrivateServers,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
    /// What its key may do can change while it is here.
    caller: RwLock<Caller>,
    capabilities: Value,
    state: Mutex<State>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Requests of the client that are not answered yet, by its ids for them.
    calls: HashMap<RawJson, Underway>,
    /// Requests to the client that it has not answered yet.
    asked: HashMap<u64, Asked>,
    level: Option<Level>,
    announced: Option<Digests>,
    last_used: Instant,
}

#[derive(Debug)]
struct Asked {
    asker: oneshot::Sender<Result<RawJson, RpcError>>,
    outlet: Outlet,
    /// Asked because of the call whose stream that is, and moot when it ends.
    about_call: bool,
}

#[derive(Debug, Clone)]
struct Underway {
    number: u64,
    cancel: CancellationToken,
    stream: Outlet,
}

/// A request of the client's, until it is answered.
#[derive(Debug)]
pub(crate) struct CallGuard {
    client: Arc<Client>,
    id: RawJson,
    pub(crate) cancel: CancellationToken,
}

/// A question to the client; if the asker no longer wants an answer, the client is told.
struct Question<'a> {
    client: &'a Client,
    id: u64,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(
        uid: Uid,
        caller: Caller,
        scope: Scope,
        introduction: Introduction,
        outbox: Outlet,
    ) -> Self {
        let capabilities = introduction.capabilities.parse().unwrap_or_default();
        Self {
            uid,
            scope,
            introduction,
            outbox,
            private: PrivateServers::default(),
            ended: CancellationToken::new(),
            caller: RwLock::new(caller),
            capabilities,
            state: Mutex::new(State {
                calls: HashMap::new(),
                asked: HashMap::new(),
                level: None,
                announced: None,
                last_used: Instant::now(),
            }),
            next_id: AtomicU64::new(1),
        }
    }

    /// Nobody: sees what anonymous clients see, and is never attached.
    pub(super) fn observer() -> Self {
        let nowhere = Outlet::Log(Arc::new(EventLog::of_news()));
        let introduction = Introduction::none("");
        Self::new([0; 16], Caller::anonymous(), Scope::All, introduction, nowhere)
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_caller(&self, caller: Caller) {
        *self.caller.write().unwrap_or_else(PoisonError::into_inner) = caller;
    }

    /// Whether it said that it can answer this kind of request.
    pub(crate) fn answers(&self, method: &str) -> bool {
        let needed = match method {
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            "roots/list" => "roots",
            // Whatever the future brings: the client will say.
            _ => return true,
        };
        self.capabilities.get(needed).is_some_and(Value::is_object)
    }

    pub(crate) fn touch(&self) {
        self.state().last_used = Instant::now();
    }

    /// Since when nothing was heard from it. A client with a call under way is not idle.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        state.calls.is_empty().then_some(state.last_used)
    }

    /// Registers a request; `None` if one with this id is under way already.
    pub(crate) fn begin(self: &Arc<Self>, id: &RawJson, stream: &Outlet) -> Option<CallGuard> {
        let cancel = self.ended.child_token();
        let number = self.next_id();
        let underway = Underway { number, cancel: cancel.clone(), stream: stream.clone() };
        let mut state = self.state();
        if state.calls.contains_key(id) {
            return None;
        }
        state.calls.insert(id.clone(), underway);
        state.last_used = Instant::now();
        drop(state);
        Some(CallGuard { client: self.clone(), id: id.clone(), cancel })
    }

    pub(crate) fn calls_under_way(&self) -> usize {
        self.state().calls.len()
    }

    /// The client no longer wants an answer.
    pub(crate) fn cancel(&self, id: &RawJson) {
        if let Some(call) = self.state().calls.get(id) {
            call.cancel.cancel();
        }
    }

    /// The client answered a question. Answers nobody waits for are late, not wrong.
    pub(crate) fn answered(&self, id: Option<&RawJson>, answer: Result<RawJson, RpcError>) {
        let id = id.and_then(|id| id.as_str().parse().ok());
        let asked = id.and_then(|id: u64| self.state().asked.remove(&id));
        if let Some(asked) = asked {
            // It may have given up a moment ago.
            let _ = asked.asker.send(answer);
        }
    }

    /// Asks the client something, over `outlet` or, without one, over whatever stream it listens to.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Option<&RawJson>,
        outlet: Option<&Outlet>,
    ) -> Result<RawJson, RpcError> {
        if !self.answers(method) {
            let message = format!("the client does not offer {method}");
            return Err(RpcError::with(super::error_body::METHOD_NOT_FOUND, message));
        }
        let about_call = outlet.is_some();
        let stream = self.newest_stream();
        let outlet = outlet.or(stream.as_ref()).unwrap_or(&self.outbox);
        let id = self.next_id();
        let (asker, answer) = oneshot::channel();
        self.state().asked.insert(id, Asked { asker, outlet: outlet.clone(), about_call });
        let _question = Question { client: self, id };
        if !outlet.offer(wire::request(id, method, params.map(RawJson::as_bytes))) {
            self.state().asked.remove(&id);
            let message = "the client does not keep up with its messages";
            return Err(RpcError::with(super::error_body::INTERNAL, message));
        }
        let answer = tokio::select! {
            answer = answer => answer.ok(),
            () = self.ended.cancelled() => None,
        };
        answer.unwrap_or_else(|| {
            let message = "the call that this was asked for, or the client's session, has ended";
            Err(RpcError::with(super::error_body::INTERNAL, message))
        })
    }

    pub(crate) fn level(&self) -> Option<Level> {
        self.state().level
    }

    pub(crate) fn set_level(&self, level: Level) {
        self.state().level = Some(level);
    }

    /// Remembers what the client has been told of; says which of the three lists are news to it.
    pub(crate) fn announce(&self, now: Digests) -> [bool; 3] {
        let mut state = self.state();
        let Some(before) = state.announced.replace(now) else { return [false; 3] };
        [
            before.tools != now.tools,
            before.prompts != now.prompts,
            before.resources != now.resources,
        ]
    }

    /// Ends everything that is under way.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        if let Outlet::Log(log) = &self.outbox {
            log.close();
        }
    }

    /// Takes back what was asked because of a call, over the call's own stream, and is not answered yet. Where all
    /// share one stream, nothing says which call was meant: there the asker takes it back.
    fn take_back(&self, stream: &Outlet) {
        let Outlet::Log(log) = stream else { return };
        let same =
            |outlet: &Outlet| matches!(outlet, Outlet::Log(other) if Arc::ptr_eq(other, log));
        let mut state = self.state();
        let taken = state.asked.extract_if(|_, asked| asked.about_call && same(&asked.outlet));
        let taken: Vec<(u64, Asked)> = taken.collect();
        drop(state);
        for (id, asked) in taken {
            asked.take_back(id);
        }
    }

    /// A stream on which the client surely listens: that of its newest request.
    fn newest_stream(&self) -> Option<Outlet> {
        let state = self.state();
        let newest = state.calls.values().max_by_key(|call| call.number);
        newest.map(|call| call.stream.clone())
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Asked ===

impl Asked {
    fn take_back(self, id: u64) {
        let params = format!("{{\"requestId\":{id}}}");
        self.outlet.offer(wire::notification("notifications/cancelled", Some(params.as_bytes())));
    }
}

// === impl CallGuard ===

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut state = self.client.state();
        let ended = state.calls.remove(&self.id);
        state.last_used = Instant::now();
        drop(state);
        // While its stream is open: afterwards the client could not be told.
        if let Some(call) = ended {
            self.client.take_back(&call.stream);
        }
    }
}

// === impl Question ===

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let unanswered = self.client.state().asked.remove(&self.id);
        if let Some(asked) = unanswered {
            asked.take_back(self.id);
        }
    }
}
