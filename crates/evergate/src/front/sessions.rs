//! Sessions over HTTP. The id a client holds is sealed and carries all that must be known of it: whoever has the key
//! can take the session up, this process or the next one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::keys::Caller;
use super::session_id::{SessionFacts, SessionKeys};
use crate::gateway::Gateway;
use crate::gateway::client::{Client, Introduction, Scope, Uid};
use crate::gateway::error_body::Refusal;
use crate::gateway::event_log::EventLog;
use crate::gateway::handshake::scope_of;
use crate::gateway::outlet::Outlet;
use crate::state::{StoredSession, StoredSessions, uid_hex};

/// However busy, a session ends some day: nobody remembers for ever which ids were given back.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// A session that was made for a client which did not ask for one, and did not come back with it.
const UNPROVEN: Duration = Duration::from_secs(60);
/// Ended sessions that are remembered.
const MAX_ENDED: usize = 100_000;
/// Answers kept for a client whose connection broke, and for how long. What is under way is kept in any case.
const MAX_STREAMS: usize = 64;
const KEEP_STREAM: Duration = Duration::from_secs(60);
const KEEP_BYTES: usize = 1024 * 1024;

/// All of them.
#[derive(Debug)]
pub(crate) struct Sessions {
    keys: SessionKeys,
    /// Tells this run of the process from others, in event ids.
    pub(super) run: u64,
    next_stream: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    live: HashMap<Uid, Arc<Session>>,
    /// Given back or expired; until when that must be remembered, in seconds since 1970.
    ended: BTreeMap<String, u64>,
    /// What clients of an earlier run had told us, until they come back.
    saved: BTreeMap<String, StoredSession>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    streams: Mutex<VecDeque<CallStream>>,
    unproven: AtomicBool,
}

#[derive(Debug)]
struct CallStream {
    number: u64,
    log: Arc<EventLog>,
    /// When it was first seen to be over: a long call's answer is kept as long as a short one's.
    over_since: Option<Instant>,
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(keys: SessionKeys, saved: StoredSessions) -> Self {
        let now = unix_now();
        let ended = saved.ended.into_iter().filter(|(_, until)| *until > now).collect();
        let state = State { live: HashMap::new(), ended, saved: saved.sessions };
        let uid = SessionFacts::new_uid();
        let mut run = [0; 8];
        run.copy_from_slice(&uid[..8]);
        Self {
            keys,
            run: u64::from_le_bytes(run),
            next_stream: AtomicU64::new(
                u64::from(u32::from_le_bytes([uid[8], uid[9], uid[10], uid[11]])) << 24,
            ),
            state: Mutex::new(state),
        }
    }

    /// A new session, and the id under which its client will come back.
    pub(super) fn create(
        &self,
        gateway: &Arc<Gateway>,
        caller: Caller,
        server: Option<&str>,
        introduction: Introduction,
        unproven: bool,
    ) -> Result<(Arc<Session>, String), Refusal> {
        let facts = SessionFacts {
            uid: SessionFacts::new_uid(),
            created: unix_now(),
            caller: caller.name().map(str::to_owned),
            scope: server.map(str::to_owned),
            version: introduction.version.clone(),
            capabilities: introduction.capabilities.clone(),
            client_info: introduction.client_info.clone(),
        };
        let id = self.keys.seal(&facts).map_err(|_| Refusal::NotJsonRpc)?;
        let session = Session::new(facts.uid, caller, scope_of(server), introduction, unproven);
        self.install(gateway, &session)?;
        gateway.attach(&session.client, false);
        Ok((session, id))
    }

    /// The session an id stands for, taken up from an earlier run if need be. An id that was given to another caller,
    /// or for another endpoint, is as unknown as one that was made up.
    pub(super) fn find(
        &self,
        gateway: &Arc<Gateway>,
        id: &str,
        caller: &Caller,
        server: Option<&str>,
    ) -> Result<Arc<Session>, Refusal> {
        let facts = self.keys.open(id).ok_or(Refusal::UnknownSession)?;
        let theirs = facts.caller.as_deref() == caller.name() && facts.scope.as_deref() == server;
        let too_old = facts.created + LONGEST.as_secs() < unix_now();
        if !theirs || too_old {
            return Err(Refusal::UnknownSession);
        }
        let settings = gateway.config();
        let settings = &settings.gateway;
        // Found or made in one step: requests of the same client come at the same time.
        let (session, saved) = {
            let mut state = self.state();
            if let Some(session) = state.live.get(&facts.uid) {
                session.client.touch();
                session.unproven.store(false, Ordering::Relaxed);
                return Ok(session.clone());
            }
            let uid = uid_hex(&facts.uid);
            let expired = state.saved.get(&uid).is_some_and(|saved| {
                saved.last_seen.saturating_add(settings.session_idle.as_secs()) < unix_now()
            });
            if expired || state.ended.contains_key(&uid) {
                return Err(Refusal::UnknownSession);
            }
            if state.live.len() >= settings.max_sessions {
                return Err(Refusal::TooManySessions);
            }
            let introduction = Introduction {
                version: facts.version,
                capabilities: facts.capabilities,
                client_info: facts.client_info,
            };
            let session =
                Session::new(facts.uid, caller.clone(), scope_of(server), introduction, false);
            state.live.insert(facts.uid, session.clone());
            (session, state.saved.remove(&uid))
        };
        gateway.attach(&session.client, true);
        if let Some(saved) = saved {
            gateway.take_up(&session.client, saved.level.as_deref(), saved.subscriptions);
        }
        tracing::info!("a session from before was taken up");
        Ok(session)
    }

    /// The client gave its session back.
    pub(super) fn end(&self, gateway: &Arc<Gateway>, session: &Arc<Session>) {
        self.state().live.remove(&session.client.uid);
        self.remember_end(&session.client.uid);
        gateway.detach(&session.client);
    }

    /// Ends sessions nobody has used for long.
    pub(crate) fn sweep(&self, gateway: &Arc<Gateway>) {
        let settings = gateway.config();
        let settings = &settings.gateway;
        let now = unix_now();
        let sessions: Vec<Arc<Session>> = {
            let mut state = self.state();
            state.ended.retain(|_, until| *until > now);
            let idle = settings.session_idle.as_secs();
            state.saved.retain(|_, saved| saved.last_seen.saturating_add(idle) > now);
            state.live.values().cloned().collect()
        };
        for session in sessions {
            session.prune();
            let Some(since) = session.client.idle_since() else { continue };
            let unproven = session.unproven.load(Ordering::Relaxed);
            let idle = settings.session_idle;
            let limit = if unproven { UNPROVEN.min(idle) } else { idle };
            if since.elapsed() >= limit {
                self.end(gateway, &session);
            }
        }
    }

    /// What the next run of the process has to know.
    pub(crate) fn to_save(&self, gateway: &Gateway) -> StoredSessions {
        let state = self.state();
        let mut sessions = state.saved.clone();
        for (uid, session) in &state.live {
            let idle = session.client.idle_since().map_or(0, |since| since.elapsed().as_secs());
            let level = session.client.level().map(|level| level.name().to_owned());
            // To the minute: nothing is written just because somebody is there.
            let last_seen = unix_now().saturating_sub(idle).next_multiple_of(60);
            let subscriptions = gateway.subscriptions_of(uid);
            sessions.insert(uid_hex(uid), StoredSession { last_seen, level, subscriptions });
        }
        StoredSessions { sessions, ended: state.ended.clone() }
    }

    /// A number for a new stream, different from those of every other session and run.
    pub(super) fn new_stream(&self) -> u64 {
        self.next_stream.fetch_add(1, Ordering::Relaxed)
    }

    fn install(&self, gateway: &Gateway, session: &Arc<Session>) -> Result<(), Refusal> {
        let limit = gateway.config().gateway.max_sessions;
        let mut state = self.state();
        if state.live.len() >= limit || state.live.contains_key(&session.client.uid) {
            return Err(Refusal::TooManySessions);
        }
        state.live.insert(session.client.uid, session.clone());
        Ok(())
    }

    fn remember_end(&self, uid: &Uid) {
        let mut state = self.state();
        if state.ended.len() >= MAX_ENDED {
            let soonest =
                state.ended.iter().min_by_key(|(_, until)| **until).map(|(uid, _)| uid.clone());
            if let Some(uid) = soonest {
                state.ended.remove(&uid);
            }
        }
        state.ended.insert(uid_hex(uid), unix_now() + LONGEST.as_secs());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Session ===

impl Session {
    fn new(
        uid: Uid,
        caller: Caller,
        scope: Scope,
        introduction: Introduction,
        unproven: bool,
    ) -> Arc<Self> {
        let outbox = Outlet::Log(Arc::new(EventLog::of_news()));
        Arc::new(Self {
            client: Arc::new(Client::new(uid, caller, scope, introduction, outbox)),
            streams: Mutex::default(),
            unproven: AtomicBool::new(unproven),
        })
    }

    /// Keeps the stream of a call for a client that comes back for it.
    pub(super) fn keep(&self, number: u64, log: &Arc<EventLog>) {
        self.prune();
        self.streams().push_back(CallStream { number, log: log.clone(), over_since: None });
    }

    pub(super) fn stream(&self, number: u64) -> Option<Arc<EventLog>> {
        let streams = self.streams();
        streams.iter().find(|stream| stream.number == number).map(|stream| stream.log.clone())
    }

    /// Drops streams that are over, the large ones soon and the others after a while.
    fn prune(&self) {
        let (mut kept, mut bytes) = (0, 0);
        let mut streams = self.streams();
        // The newest first: they are the likeliest to be asked for.
        let mut all: Vec<CallStream> = streams.drain(..).rev().collect();
        all.retain_mut(|stream| {
            if !stream.log.is_closed() {
                return true;
            }
            let over_since = *stream.over_since.get_or_insert_with(Instant::now);
            kept += 1;
            bytes += stream.log.bytes();
            kept <= MAX_STREAMS && bytes <= KEEP_BYTES && over_since.elapsed() < KEEP_STREAM
        });
        streams.extend(all.into_iter().rev());
    }

    fn streams(&self) -> MutexGuard<'_, VecDeque<CallStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn unix_now() -> u64 {
    // A clock set before 1970 shows 1970.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
