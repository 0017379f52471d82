//! Sessions over HTTP. The id a client holds is sealed and carries all that must be known of it: whoever has the key
//! can take the session up, this process or the next one.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use evergate_runtime::{Own, PerThread, moment};
use tokio::time::Instant;

use super::keys::Caller;
use super::session_id::{SessionFacts, SessionKeys};
use crate::found_here::FoundHere;
use crate::gateway::Gateway;
use crate::gateway::buffers::Buffers;
use crate::gateway::client::{Client, Introduction, Scope, Uid};
use crate::gateway::error_body::Refusal;
use crate::gateway::event_log::EventLog;
use crate::gateway::handshake::scope_of;
use crate::gateway::outlet::Outlet;
use crate::hash::HashMap;
use crate::state::{StoredSession, StoredSessions, StoredUid};

/// However busy, a session ends some day: nobody remembers for ever which ids were given back.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// A session whose client did not come back with it: it gave up while it waited, or never asked for one.
const UNPROVEN: Duration = Duration::from_secs(5 * 60);
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
    /// For every request.
    by_id_here: FoundHere<HeldId, Session>,
}

#[derive(Debug, Default)]
struct State {
    live: HashMap<Uid, Arc<Session>>,
    /// The same by the ids their clients hold, so that an id is opened only when it is new to this run.
    by_id: HashMap<HeldId, Arc<Session>>,
    /// Given back or expired; until when that must be remembered, in seconds since 1970.
    ended: BTreeMap<StoredUid, u64>,
    /// What clients of an earlier run had told us, until they come back.
    saved: BTreeMap<StoredUid, StoredSession>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: PerThread<Client>,
    id: HeldId,
    /// When it ends in any case.
    until: Instant,
    streams: Mutex<VecDeque<CallStream>>,
    unproven: AtomicBool,
}

/// An id as its client holds it. Whoever has it has the session, so it is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
struct HeldId(Arc<[u8]>);

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
        let state = State { ended, saved: saved.sessions, ..State::default() };
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
            by_id_here: FoundHere::default(),
        }
    }

    /// A new session, and the id under which its client will come back.
    pub(super) fn create(
        &self,
        gateway: &Arc<Gateway>,
        caller: Caller,
        server: Option<&str>,
        introduction: Introduction,
    ) -> Result<(Own<Session>, String), Refusal> {
        let facts = SessionFacts {
            uid: SessionFacts::new_uid(),
            created: unix_now(),
            caller: caller.name().map(str::to_owned),
            scope: server.map(str::to_owned),
            version: introduction.version.clone(),
            capabilities: introduction.capabilities.clone(),
            client_info: introduction.client_info.clone(),
        };
        let id = self.keys.seal(&facts).map_err(|error| {
            tracing::error!(%error, "cannot seal a session id");
            Refusal::Internal
        })?;
        let client = new_client(facts.uid, caller, server, introduction, &gateway.buffers);
        let session = Session::new(client, id.as_bytes(), LONGEST, true);
        self.install(gateway, &session)?;
        gateway.attach(&session.client, false);
        Ok((Own::new(session), id))
    }

    /// The session an id stands for, taken up from an earlier run if need be. An id that was given to another caller,
    /// or for another endpoint, is as unknown as one that was made up.
    pub(super) fn find(
        &self,
        gateway: &Arc<Gateway>,
        id: &[u8],
        caller: &Caller,
        server: Option<&str>,
    ) -> Result<Own<Session>, Refusal> {
        let look = || {
            let session = self.state().by_id.get(id).cloned()?;
            Some((session.id.clone(), session))
        };
        let known = self.by_id_here.find(id, look);
        if let Some(session) = known {
            let now = moment::now();
            if !session.is_of(caller, server) || now > session.until {
                return Err(Refusal::UnknownSession);
            }
            session.is_used(caller, now);
            return Ok(session);
        }
        let facts = std::str::from_utf8(id).ok().and_then(|id| self.keys.open(id));
        let facts = facts.ok_or(Refusal::UnknownSession)?;
        let theirs = facts.caller.as_deref() == caller.name() && facts.scope.as_deref() == server;
        if !theirs {
            return Err(Refusal::UnknownSession);
        }
        let left = time_left(facts.created).ok_or(Refusal::UnknownSession)?;
        let settings = gateway.config();
        let settings = &settings.gateway;
        // Found or made in one step: requests of the same client come at the same time.
        let (session, saved) = {
            let mut state = self.state();
            if let Some(session) = state.live.get(&facts.uid) {
                session.is_used(caller, Instant::now());
                return Ok(Own::new(session.clone()));
            }
            let uid = StoredUid(facts.uid);
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
            let client =
                new_client(facts.uid, caller.clone(), server, introduction, &gateway.buffers);
            let session = Session::new(client, id, left, false);
            state.add(&session);
            (session, state.saved.remove(&uid))
        };
        gateway.attach(&session.client, true);
        if let Some(saved) = saved {
            gateway.take_up(&session.client, saved.level.as_deref(), saved.subscriptions);
        }
        tracing::info!("a session from before was taken up");
        Ok(Own::new(session))
    }

    /// The client gave its session back.
    pub(super) fn end(&self, gateway: &Arc<Gateway>, session: &Arc<Session>) {
        {
            let mut state = self.state();
            state.live.remove(&session.client.uid);
            state.by_id.remove(&session.id);
            // At once: it must not be taken up again in between.
            state.remember_end(StoredUid(session.client.uid));
        }
        self.by_id_here.forget(&session.id);
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
            let expired = |saved: &StoredSession| saved.last_seen.saturating_add(idle) <= now;
            let gone = state.saved.extract_if(.., |_, saved| expired(saved));
            let gone: Vec<StoredUid> = gone.map(|(uid, _)| uid).collect();
            for uid in gone {
                state.remember_end(uid);
            }
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
        let mut subscriptions = gateway.subscriptions_by_client();
        let (live, mut sessions, ended) = {
            let state = self.state();
            let live: Vec<Arc<Session>> = state.live.values().cloned().collect();
            (live, state.saved.clone(), state.ended.clone())
        };
        for session in live {
            let client = &session.client;
            let idle = client.idle_since().map_or(0, |since| since.elapsed().as_secs());
            let level = client.level().map(|level| level.name().to_owned());
            // To the minute: nothing is written just because somebody is there.
            let last_seen = unix_now().saturating_sub(idle).next_multiple_of(60);
            let subscriptions = subscriptions.remove(&client.uid).unwrap_or_default();
            let stored = StoredSession { last_seen, level, subscriptions };
            sessions.insert(StoredUid(client.uid), stored);
        }
        StoredSessions { sessions, ended }
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
        state.add(session);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn add(&mut self, session: &Arc<Session>) {
        self.live.insert(session.client.uid, session.clone());
        self.by_id.insert(session.id.clone(), session.clone());
    }

    fn remember_end(&mut self, uid: StoredUid) {
        if self.ended.len() >= MAX_ENDED {
            forget_the_oldest(&mut self.ended);
        }
        self.ended.insert(uid, unix_now() + LONGEST.as_secs());
    }
}

// === impl HeldId ===

impl Borrow<[u8]> for HeldId {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for HeldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldId")
    }
}

// === impl Session ===

impl Session {
    fn new(client: Arc<Client>, id: &[u8], left: Duration, unproven: bool) -> Arc<Self> {
        Arc::new(Self {
            client: PerThread::new(client),
            id: HeldId(id.into()),
            until: Instant::now() + left,
            streams: Mutex::default(),
            unproven: AtomicBool::new(unproven),
        })
    }

    /// Whether it was given to this caller, for this endpoint.
    fn is_of(&self, caller: &Caller, server: Option<&str>) -> bool {
        let scope = match &self.client.scope {
            Scope::All => None,
            Scope::One(server) => Some(&**server),
        };
        self.client.is_of(caller) && scope == server
    }

    /// What the caller may do now is what counts.
    fn is_used(&self, caller: &Caller, now: Instant) {
        self.client.set_caller(caller);
        self.client.touch(now);
        // Only to look takes it from nobody.
        if self.unproven.load(Ordering::Relaxed) {
            self.unproven.store(false, Ordering::Relaxed);
        }
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

fn new_client(
    uid: Uid,
    caller: Caller,
    server: Option<&str>,
    introduction: Introduction,
    buffers: &PerThread<Buffers>,
) -> Arc<Client> {
    let outbox = Outlet::Log(Arc::new(EventLog::of_news(buffers)));
    Arc::new(Client::new(uid, caller, scope_of(server), introduction, outbox))
}

/// How much longer a session may last that was made then, in seconds since 1970.
fn time_left(created: u64) -> Option<Duration> {
    let left = (created + LONGEST.as_secs()).checked_sub(unix_now());
    // Whatever the clock was: it cannot have more time left than a new one.
    left.map(|left| Duration::from_secs(left).min(LONGEST))
}

/// Makes room for many at once: to look for the oldest one takes as long as to look for a tenth of all.
fn forget_the_oldest<K: Ord>(ended: &mut BTreeMap<K, u64>) {
    // Many may have ended in the same second, so that the time alone does not tell how many go.
    let mut room = (ended.len() / 10).max(1);
    let mut times: Vec<u64> = ended.values().copied().collect();
    let (_, &mut limit, _) = times.select_nth_unstable(room - 1);
    ended.retain(|_, until| {
        let goes = *until <= limit && room > 0;
        room -= usize::from(goes);
        !goes
    });
}

pub(crate) fn unix_now() -> u64 {
    // A clock set before 1970 shows 1970.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_does_not_print() {
        assert!(!format!("{:?}", HeldId(b"secret"[..].into())).contains("secret"));
    }

    #[test]
    fn the_oldest_make_room_and_a_full_table_of_one_second_too() {
        let mut ended: BTreeMap<u64, u64> = (0..100).map(|n| (n, 1000 - n)).collect();
        forget_the_oldest(&mut ended);
        assert_eq!(ended.len(), 90);
        assert_eq!(ended.values().min(), Some(&911));
        let mut ended: BTreeMap<u64, u64> = (0..100).map(|n| (n, 7)).collect();
        forget_the_oldest(&mut ended);
        assert_eq!(ended.len(), 90);
    }
}
