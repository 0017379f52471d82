//! One client, whatever it speaks over: who it is, what it can do, and what is under way for it.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use evergate_runtime::{
    Apart, Ending, Handlers, Own, RawJson, RpcError, ServerRequest, Sharded, moment, wire,
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::buffers::Buffers;
use super::event_log::EventLog;
use super::isolation::PrivateServers;
use super::log_level::Level;
use super::merged::Digests;
use super::outlet::Outlet;
use super::params;
use super::stateless::listening::Listening;
use super::stateless::rounds::Rounds;
use super::stateless::{Owner, VERSION};
use super::withdrawal::Withdrawal;
use crate::front::keys::{ANONYMOUS, Caller};
use crate::hash::HashMap;

/// How long a client may take to answer what no call of its own is behind. Servers have few such questions at a time.
const UNTIED: Duration = Duration::from_secs(60);

/// Milliseconds: nobody who looks when a client was last heard of looks more closely.
const HEARD: u64 = 10;

/// Clients choose their names themselves.
const LONGEST_LABEL: usize = 80;

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

/// How a client is there.
#[derive(Debug)]
pub(crate) enum Kind {
    /// For the length of a session, to be asked and to be told.
    Session,
    /// Behind requests that have nothing to do with each other (2026-07-28): it hears only what answers them.
    Principal {
        /// Whether all of them are of one caller, as far as anybody knows.
        is_known: bool,
        /// Who that is: its notes are good for nobody else.
        owner: Owner,
    },
    /// For one request, to be told.
    Listener(Listening),
}

/// One session, or what stands for it where there are none.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) uid: Uid,
    pub(crate) scope: Scope,
    pub(crate) kind: Kind,
    pub(crate) introduction: Introduction,
    /// What is not about a call of this client's.
    pub(crate) outbox: Outlet,
    pub(crate) private: Arc<PrivateServers>,
    /// What its calls on each thread share.
    pub(super) here: Sharded<Here>,
    /// The end of its session.
    pub(crate) ended: Ending,
    /// What its key may do can change while it is here.
    caller: ArcSwap<Caller>,
    /// Of that caller, or the one before for a moment. Nothing need be looked up for those who may do everything.
    rights: AtomicU64,
    /// Of its newest HTTP request: servers of its own may be given some of them.
    headers: RwLock<Option<Arc<HeaderMap>>>,
    capabilities: Value,
    since: Instant,
    /// When it was last heard of, in milliseconds since it is there, and not more exactly than [`HEARD`].
    last_used: AtomicU64,
    state: Apart<Mutex<State>>,
}

/// Of one client, on one thread.
#[derive(Debug, Default)]
pub(super) struct Here {
    /// Who answers what servers ask because of its calls, from the first of these on.
    pub(super) handlers: OnceLock<Arc<Handlers>>,
    /// What it calls itself, for people.
    label: OnceLock<Arc<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClientInfo {
    name: String,
    version: String,
}

#[derive(Debug)]
struct State {
    /// Requests of the client that are not answered yet, by its ids for them.
    calls: HashMap<RawJson, Underway>,
    /// Requests to the client that it has not answered yet.
    asked: HashMap<u64, Asked>,
    level: Option<Level>,
    announced: Option<Digests>,
    next_id: u64,
}

#[derive(Debug)]
struct Asked {
    asker: oneshot::Sender<Result<RawJson, RpcError>>,
    outlet: Outlet,
    /// Asked because of this call of the client's, and moot when it ends.
    call: Option<u64>,
    /// The asker's own token and who it is, if it wants to hear of progress.
    progress: Option<(RawJson, ServerRequest)>,
}

#[derive(Debug, Clone)]
struct Underway {
    number: u64,
    withdrawal: Arc<Withdrawal>,
    stream: Outlet,
    rounds: Option<Arc<Rounds>>,
}

/// A request of the client's, until it is answered.
#[derive(Debug)]
pub(crate) struct CallGuard {
    client: Own<Client>,
    id: RawJson,
    pub(crate) number: u64,
    pub(crate) withdrawal: Arc<Withdrawal>,
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
            kind: Kind::Session,
            introduction,
            outbox,
            private: Arc::default(),
            here: Sharded::default(),
            ended: Ending::default(),
            rights: AtomicU64::new(caller.rights()),
            caller: ArcSwap::from_pointee(caller),
            headers: RwLock::default(),
            capabilities,
            since: Instant::now(),
            last_used: AtomicU64::new(0),
            state: Apart(Mutex::new(State {
                calls: HashMap::default(),
                asked: HashMap::default(),
                level: None,
                announced: None,
                next_id: 1,
            })),
        }
    }

    /// One that has no session (2026-07-28). What it can do is said with each request; servers of its own must be told of
    /// everything.
    pub(in crate::gateway) fn stateless(
        uid: Uid,
        caller: Caller,
        scope: Scope,
        kind: Kind,
        client_info: Option<RawJson>,
    ) -> Self {
        let introduction = Introduction {
            version: VERSION.to_owned(),
            capabilities: RawJson::from(everything()),
            client_info: client_info.unwrap_or_else(RawJson::empty_object),
        };
        Self { kind, ..Self::new(uid, caller, scope, introduction, Outlet::Nowhere) }
    }

    /// One that listens on behalf of another, whose servers it shares.
    pub(super) fn listener(of: &Self, uid: Uid, listening: Listening, outbox: Outlet) -> Self {
        let kind = Kind::Listener(listening);
        let listener = Self::stateless(uid, of.caller(), of.scope.clone(), kind, None);
        Self { private: of.private.clone(), outbox, ..listener }
    }

    /// Nobody: sees what anonymous clients see, and is never attached.
    pub(super) fn observer() -> Self {
        let nowhere = Outlet::Log(Arc::new(EventLog::of_news(&Buffers::unlimited())));
        let introduction = Introduction::none("");
        Self::new([0; 16], Caller::anonymous(), Scope::All, introduction, nowhere)
    }

    /// Whether this is the caller it belongs to, by name.
    pub(crate) fn is_of(&self, caller: &Caller) -> bool {
        self.rights() == caller.rights() || self.caller.load().name() == caller.name()
    }

    /// What its caller may do, as a number: see [`Caller::rights`].
    pub(crate) fn rights(&self) -> u64 {
        self.rights.load(Ordering::Acquire)
    }

    pub(crate) fn may_use_server(&self, server: &str) -> bool {
        self.rights() == ANONYMOUS || self.caller.load().may_use_server(server)
    }

    pub(crate) fn caller(&self) -> Caller {
        if self.rights() == ANONYMOUS {
            return Caller::anonymous();
        }
        Caller::clone(&self.caller.load())
    }

    pub(crate) fn headers(&self) -> Option<Arc<HeaderMap>> {
        self.headers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// They must not print: see [`Headers::to_map`](crate::front::request::Headers::to_map).
    pub(crate) fn set_headers(&self, headers: &Arc<HeaderMap>) {
        *self.headers.write().unwrap_or_else(PoisonError::into_inner) = Some(headers.clone());
    }

    pub(crate) fn set_caller(&self, caller: &Caller) {
        if self.rights() == caller.rights() {
            return;
        }
        // One after the other, so that the number is that of the caller whoever comes at the same time.
        let _alone = self.state();
        self.caller.store(Arc::new(caller.clone()));
        self.rights.store(caller.rights(), Ordering::Release);
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

    /// What it calls itself, short and fit to be shown.
    pub(crate) fn label(&self) -> Arc<str> {
        let read = || {
            let ClientInfo { name, version } =
                self.introduction.client_info.parse().unwrap_or_default();
            let text = format!("{name} {version}");
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            let text: String = text.trim().chars().take(LONGEST_LABEL).map(plain).collect();
            if text.is_empty() { Arc::from("(unnamed)") } else { Arc::from(text) }
        };
        self.here.own().label.get_or_init(read).clone()
    }

    /// Tells it from others in what is written down. A part of what is sealed into its session id: nobody can use it.
    pub(crate) fn session_label(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.uid;
        [a, b, c, d]
    }

    /// How long it has been there, as far as this process knows.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long ago it was last heard of.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.last_used().elapsed()
    }

    pub(crate) fn touch(&self, now: Instant) {
        let now = u64::try_from((now - self.since).as_millis()).unwrap_or(u64::MAX);
        // Calls on several threads only look at it, most of the time.
        if now.abs_diff(self.last_used.load(Ordering::Relaxed)) >= HEARD {
            self.last_used.store(now, Ordering::Relaxed);
        }
    }

    fn last_used(&self) -> Instant {
        self.since + Duration::from_millis(self.last_used.load(Ordering::Relaxed))
    }

    /// Since when nothing was heard from it. A client with a call under way is not idle.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.state().calls.is_empty().then(|| self.last_used())
    }

    /// Registers a request; `None` if one with this id is under way already.
    pub(crate) fn begin(
        client: &Own<Self>,
        id: &RawJson,
        stream: &Outlet,
        rounds: Option<&Arc<Rounds>>,
    ) -> Option<CallGuard> {
        let withdrawal: Arc<Withdrawal> = Arc::default();
        // All of it before the lock: its connections on other threads want that too.
        let (stream, rounds) = (stream.clone(), rounds.cloned());
        let mut underway = Underway { number: 0, withdrawal: withdrawal.clone(), stream, rounds };
        let own_id = id.clone();
        let mut state = client.state();
        let State { calls, next_id, .. } = &mut *state;
        let number = *next_id;
        match calls.entry(own_id) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => {
                underway.number = number;
                free.insert(underway)
            }
        };
        *next_id += 1;
        drop(state);
        // Its end may have looked at the calls just before.
        if client.ended.has_begun() {
            withdrawal.give();
        }
        Some(CallGuard { client: client.clone(), id: id.clone(), number, withdrawal })
    }

    pub(crate) fn calls_under_way(&self) -> usize {
        self.state().calls.len()
    }

    /// The client no longer wants an answer.
    pub(crate) fn cancel(&self, id: &RawJson) {
        if let Some(call) = self.state().calls.get(id) {
            call.withdrawal.give();
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

    /// Asks the client something, over `outlet` or, without one, over whatever stream it listens to. What is asked
    /// because of a `call` ends with it; what is asked because of none, soon.
    pub(crate) async fn ask(
        &self,
        request: &ServerRequest,
        outlet: Option<&Outlet>,
        call: Option<u64>,
    ) -> Result<RawJson, RpcError> {
        let method = request.method.as_str();
        if !self.answers(method) || !matches!(self.kind, Kind::Session) {
            let message = format!("the client does not offer {method}");
            return Err(RpcError::with(super::error_body::METHOD_NOT_FOUND, message));
        }
        let untied = outlet.is_none();
        let stream = self.newest_stream();
        let id = self.next_id();
        // Servers choose their tokens without knowing of each other; the client gets one of ours.
        let replaced = params::with_progress_token(request.params.as_ref(), id);
        let (params, token) =
            replaced.map_or((request.params.clone(), None), |(p, t)| (Some(p), Some(t)));
        let message = wire::request(id, method, params.as_ref().map(RawJson::as_bytes));
        let progress = token.map(|token| (token, request.clone()));
        let (asker, answer) = oneshot::channel();
        // Its place is taken before it is sent: the answer may be quick.
        let outlet = outlet.or(stream.as_ref()).unwrap_or(&self.outbox);
        self.state().asked.insert(id, Asked { asker, outlet: outlet.clone(), call, progress });
        let _question = Question { client: self, id };
        // The stream of a call may have ended this moment.
        if !outlet.offer(message.clone()) && !self.outbox.offer(message) {
            self.state().asked.remove(&id);
            let message = "the client does not keep up with its messages";
            return Err(RpcError::with(super::error_body::INTERNAL, message));
        }
        let patience = if untied { UNTIED } else { Duration::MAX };
        let answer = tokio::select! {
            answer = answer => answer.ok(),
            () = self.ended.begun() => None,
            () = tokio::time::sleep(patience) => {
                let message = "the client did not answer in time";
                return Err(RpcError::with(super::error_body::INTERNAL, message));
            }
        };
        answer.unwrap_or_else(|| {
            let message = "the call that this was asked for, or the client's session, has ended";
            Err(RpcError::with(super::error_body::INTERNAL, message))
        })
    }

    /// The client says how far it is with an answer.
    pub(crate) fn progressed(&self, params: &RawJson) {
        let Some(id) = params::told_token(params) else { return };
        let asked = self.state().asked.get(&id).and_then(|asked| asked.progress.clone());
        if let Some((token, request)) = asked
            && let Some(params) = params::retold(params, &token)
        {
            request.tell_progress(params);
        }
    }

    /// Tells it something, if it is to hear of that.
    pub(super) fn tell(&self, method: &str, params: Option<&RawJson>) {
        match &self.kind {
            Kind::Session => {
                let params = params.map(RawJson::as_bytes);
                self.outbox.offer(wire::notification(method, params));
            }
            Kind::Listener(listening) => {
                if !listening.tell(&self.outbox, method, params) {
                    // It has missed something, and is told by the end that it must look again.
                    self.ended.begin();
                }
            }
            Kind::Principal { .. } => {}
        }
    }

    /// Whose notes are good with it.
    pub(super) fn owner(&self) -> Option<Owner> {
        match self.kind {
            Kind::Principal { owner, .. } => Some(owner),
            Kind::Session | Kind::Listener(_) => None,
        }
    }

    /// Tells its calls from those of others.
    pub(super) fn number(&self) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.uid[..8]);
        u64::from_le_bytes(number)
    }

    /// The same, if its calls are surely of one caller.
    pub(super) fn known_number(&self) -> Option<u64> {
        let is_known = !matches!(self.kind, Kind::Principal { is_known: false, .. });
        is_known.then(|| self.number())
    }

    /// Its newest call with this server that somebody waits for, if it has no session.
    pub(super) fn waited_for(&self, server: &str) -> Option<Arc<Rounds>> {
        let state = self.state();
        let waited_for = state.calls.values().filter_map(|call| {
            let rounds = call.rounds.as_ref().filter(|rounds| rounds.is_waited_for(server))?;
            Some((call.number, rounds))
        });
        waited_for.max_by_key(|(number, _)| *number).map(|(_, rounds)| rounds.clone())
    }

    pub(crate) fn level(&self) -> Option<Level> {
        let state = self.state();
        let calls = state.calls.values().filter_map(|call| call.rounds.as_ref()?.level());
        calls.chain(state.level).min()
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
        self.ended.begin();
        let calls: Vec<_> =
            self.state().calls.values().map(|call| call.withdrawal.clone()).collect();
        // Without the lock: whoever is woken may want it.
        for call in calls {
            call.give();
        }
        if let Outlet::Log(log) = &self.outbox {
            log.close();
        }
    }

    /// Takes back what was asked because of a call and is not answered yet.
    fn take_back(&self, call: u64) {
        let mut state = self.state();
        let taken = state.asked.extract_if(|_, asked| asked.call == Some(call));
        let taken: Vec<(u64, Asked)> = taken.collect();
        drop(state);
        for (id, asked) in taken {
            asked.take_back(id);
        }
    }

    /// The stream of one of its calls that are under way.
    pub(super) fn stream_of(&self, number: u64) -> Option<Outlet> {
        let state = self.state();
        let call = state.calls.values().find(|call| call.number == number);
        call.map(|call| call.stream.clone())
    }

    /// A stream on which the client surely listens: that of its newest request.
    fn newest_stream(&self) -> Option<Outlet> {
        let state = self.state();
        let newest = state.calls.values().max_by_key(|call| call.number);
        newest.map(|call| call.stream.clone())
    }

    fn next_id(&self) -> u64 {
        let mut state = self.state();
        state.next_id += 1;
        state.next_id - 1
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whatever some client may be able to do.
pub(super) fn everything() -> Value {
    json!({
        "sampling": {},
        "elicitation": { "form": {}, "url": {} },
        "roots": { "listChanged": true },
    })
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
        self.client.touch(moment::now());
        let mut state = self.client.state();
        let ended = state.calls.remove(&self.id);
        let asked = !state.asked.is_empty();
        drop(state);
        drop(ended);
        // While its stream is open: afterwards the client could not be told.
        if asked {
            self.client.take_back(self.number);
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
