//! The server's mind: what it offers, what it did, what goes wrong next.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{oneshot, watch};

use crate::catalog::Catalog;
use crate::fault::{ArmedFault, Fault, FaultRule, Incoming, Rule, SessionLoss};
use crate::http::HttpOptions;
use crate::session::{Outgoing, Session};
use crate::tasks::Tasks;

mod counters;
mod dispatch;
pub(crate) mod modern;
mod offer;
mod subscription;
mod to_client;

pub use counters::Counters;
pub(crate) use dispatch::Exchange;
pub use modern::Eras;
pub(crate) use subscription::Listen;
pub use subscription::ListenEnd;
pub use to_client::ListKind;

/// The newest revision that a new server negotiates.
const NEWEST_PROTOCOL: &str = "2025-11-25";

/// Messages that [`Server::received`] remembers, and the longest params it does: a test that sends
/// more is about load, not about what was sent.
const MAX_RECEIVED: usize = 256;
const MAX_RECEIVED_BYTES: usize = 64 * 1024;

/// A scripted MCP server without a transport.
///
/// It is a cheap clone: every transport and every clone shares the same catalog, counters and
/// faults, and they survive the death of any transport. See the [crate] documentation for the
/// tools it offers.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Changes with every counter, so that nobody has to poll.
    changed: watch::Sender<u64>,
    /// Changes when held calls may go on.
    released: watch::Sender<u64>,
    serial: AtomicU64,
    /// Work for connections that no [`HttpServer`](crate::HttpServer) owns.
    loose: Tasks,
}

pub(crate) struct State {
    pub(crate) catalog: Catalog,
    pub(crate) tally: Counters,
    pub(crate) http: HttpOptions,
    newest_protocol: String,
    eras: Eras,
    pins: bool,
    stray_session_ids: bool,
    /// Resources that nobody may listen for, and the code to say so with.
    refused_resources: (Vec<String>, i64),
    capabilities: Option<Value>,
    instructions: Option<String>,
    rules: Vec<Rule>,
    sessions: Vec<Arc<Session>>,
    /// Sessions that were expired, with how their requests are answered.
    expired: HashMap<String, SessionLoss>,
    /// How requests with an id that was never given out, or was forgotten, are answered.
    unknown_session: SessionLoss,
    /// Requests to a client that wait for its response.
    asked: HashMap<u64, oneshot::Sender<Value>>,
    bumps: u64,
    on_call: Option<CallHook>,
    /// The newest messages: method and params, as the client wrote them.
    received: VecDeque<(String, String)>,
}

type CallHook = Arc<dyn Fn(&str, Option<&str>) + Send + Sync>;

/// Locks without caring whether another test thread panicked meanwhile.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Server ===

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A server with all built-in tools, prompts and resources, up to revision 2025-11-25.
    pub fn new() -> Self {
        let state = State {
            catalog: Catalog::default(),
            tally: Counters::default(),
            http: HttpOptions::default(),
            newest_protocol: NEWEST_PROTOCOL.into(),
            eras: Eras::default(),
            pins: false,
            stray_session_ids: false,
            refused_resources: (Vec::new(), 0),
            capabilities: None,
            instructions: None,
            rules: Vec::new(),
            sessions: Vec::new(),
            expired: HashMap::new(),
            unknown_session: SessionLoss::NotFound404,
            asked: HashMap::new(),
            bumps: 0,
            on_call: None,
            received: VecDeque::new(),
        };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                changed: watch::Sender::new(0),
                released: watch::Sender::new(0),
                serial: AtomicU64::new(0),
                loose: Tasks::default(),
            }),
        }
    }

    // --- faults ---

    /// Makes something go wrong. By default the next one request of any method except
    /// `initialize` is hit; the returned [`FaultRule`] narrows it, and takes effect when dropped.
    pub fn inject(&self, fault: Fault) -> FaultRule {
        FaultRule::new(self.clone(), fault)
    }

    /// Takes back every fault that has not acted yet.
    pub fn clear_faults(&self) {
        self.state().rules.clear();
    }

    pub(crate) fn install(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// The fault that hits `incoming`, if any.
    pub(crate) fn strike(&self, incoming: Incoming<'_>) -> Option<ArmedFault> {
        let armed = {
            let mut state = self.state();
            let armed = state.rules.iter_mut().find_map(|rule| rule.strike(incoming));
            state.rules.retain(|rule| !rule.is_spent());
            armed?
        };
        self.count(|tally| tally.faults += 1);
        Some(armed)
    }

    // --- sessions ---

    /// Forgets every session that exists now. Requests with their ids are answered in this shape
    /// from now on, their listening streams end, and new handshakes work. Calls that are under
    /// way finish.
    ///
    /// On line transports the connection stays and its requests are answered with the JSON-RPC
    /// error nearest to the shape, until the client sends `initialize` again.
    #[expect(clippy::needless_pass_by_value, reason = "so that tests can name the shape in place")]
    pub fn expire_sessions(&self, shape: SessionLoss) {
        self.update(|state| {
            for session in std::mem::take(&mut state.sessions) {
                session.expire();
                state.expired.insert(session.id.clone(), shape.clone());
            }
        });
    }

    /// Forgets every session without a trace, as a crash does: requests with their ids are
    /// answered as [`Server::set_unknown_session`] says.
    pub fn forget_sessions(&self) {
        self.forget(|_| true);
    }

    /// How requests with an unknown session id are answered: after a restart, or when the id was
    /// made up. [`SessionLoss::NotFound404`] unless set.
    pub fn set_unknown_session(&self, shape: SessionLoss) {
        self.state().unknown_session = shape;
    }

    pub(crate) fn forget(&self, which: impl Fn(&Session) -> bool) {
        self.update(|state| {
            state.sessions.retain(|session| {
                let goes = which(session);
                if goes {
                    session.expire();
                }
                !goes
            });
        });
    }

    pub(crate) fn open_session(
        &self,
        home: u64,
        outbox: Option<tokio::sync::mpsc::Sender<Outgoing>>,
    ) -> Arc<Session> {
        // Not a secret, only hard to guess: visible ASCII as the specification asks.
        let id = format!("{:016x}", RandomState::new().hash_one(self.serial()));
        let session = Arc::new(Session::new(id, home, outbox));
        self.update(|state| state.sessions.push(session.clone()));
        session
    }

    pub(crate) fn find_session(&self, id: &str) -> Result<Arc<Session>, SessionLoss> {
        let state = self.state();
        if let Some(session) = state.sessions.iter().find(|session| session.id == id) {
            return Ok(session.clone());
        }
        Err(state.expired.get(id).unwrap_or(&state.unknown_session).clone())
    }

    // --- counters ---

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let state = self.state();
        let mut counters = state.tally.clone();
        counters.sessions_open = state.sessions.len() as u64;
        counters.subscriptions = state
            .sessions
            .iter()
            .filter(|session| !session.is_over())
            .flat_map(|session| session.subscriptions())
            .collect();
        counters
    }

    /// How often the tool call with this `call_id` argument was executed.
    pub fn executions(&self, call_id: &str) -> u64 {
        self.state().tally.executions.get(call_id).copied().unwrap_or_default()
    }

    /// Waits until the counters are as `what` wants them. It looks at every change and never
    /// polls, so that it works on paused time. It has no deadline of its own.
    pub async fn wait_for(&self, mut what: impl FnMut(&Counters) -> bool) {
        let mut changed = self.inner.changed.subscribe();
        while !what(&self.counters()) {
            // Cannot fail: `self` keeps the sender.
            drop(changed.changed().await);
        }
    }

    /// Calls `hook` at the start of every executed tool call with the tool's name and its
    /// `call_id`, before anything can go wrong.
    pub fn on_call(&self, hook: impl Fn(&str, Option<&str>) + Send + Sync + 'static) {
        self.state().on_call = Some(Arc::new(hook));
    }

    /// Lets every call of the tool `hold` that waits now go on.
    pub fn release_held(&self) {
        self.inner.released.send_modify(|round| *round += 1);
    }

    pub(crate) async fn held(&self) {
        let mut released = self.inner.released.subscribe();
        drop(released.changed().await);
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.update(|state| change(&mut state.tally));
    }

    /// The params of the newest requests and notifications of this method, the oldest first, byte
    /// for byte as the client wrote them: to see what a gateway made of them. Empty text where
    /// there were none. It goes back 256 messages of up to 64 KiB.
    pub fn received(&self, method: &str) -> Vec<String> {
        let state = self.state();
        let theirs = state.received.iter().filter(|(name, _)| name == method);
        theirs.map(|(_, params)| params.clone()).collect()
    }

    pub(crate) fn count_received(&self, method: &str, params: &str) {
        self.update(|state| {
            *state.tally.requests.entry(method.into()).or_default() += 1;
            if params.len() <= MAX_RECEIVED_BYTES {
                if state.received.len() == MAX_RECEIVED {
                    state.received.pop_front();
                }
                state.received.push_back((method.into(), params.into()));
            }
        });
    }

    pub(crate) fn bump(&self) -> u64 {
        let mut state = self.state();
        state.bumps += 1;
        state.bumps
    }

    // --- plumbing ---

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    /// Changes the state and wakes those who wait for a change.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.state());
        self.inner.changed.send_modify(|version| *version += 1);
        value
    }

    /// A number that this server never gave out before.
    pub(crate) fn serial(&self) -> u64 {
        self.inner.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Wakes on every change of the state.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    pub(crate) fn loose_tasks(&self) -> &Tasks {
        &self.inner.loose
    }
}
