//! What happened: recent calls, the last hour of every server, and a numbered feed of events.
//!
//! One place where everything that is told to operators comes together, whoever shows it. All of it is bounded, and none of
//! it outlives the process.

mod brief;
mod feed;
mod history;
mod recent;
mod recorder;
mod recording;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use evergate_runtime::{
    CallError, CallFailure, Generation, Happening, Outcome, RawJson, StateKind,
};

pub(crate) use brief::{LONGEST_NAME, brief, brief_shared, kept};
pub(crate) use feed::{Feed, Follower};
pub(crate) use recent::{Recent, Wanted};
pub(crate) use recorder::record;
pub(crate) use recording::{Beginning, Recording};

use crate::admin::model::{CallCounts, CallOutcome, Moment, ServerState};
use crate::audit::Audit;
use crate::found_here::FoundHere;
use crate::front::keys::Caller;
use crate::hash::HashMap;
use crate::metrics::{GatewayMetrics, ServerMetrics};
use crate::telemetry::{Telemetry, TraceId};
use history::History;

/// One per process.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) recent: Recent,
    pub(crate) feed: Feed,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) audit: Audit,
    pub(crate) telemetry: Telemetry,
    pasts: RwLock<Pasts>,
    /// For every call.
    pasts_here: FoundHere<Arc<str>, Past>,
}

type Pasts = HashMap<Arc<str>, Arc<Past>>;

/// Is told of one server.
type Told = Box<dyn Fn(Happening) + Send + Sync>;

/// What is remembered of one server.
#[derive(Debug, Default)]
struct Past {
    metrics: Arc<ServerMetrics>,
    history: Mutex<History>,
}

/// One call to a server, after its end.
#[derive(Debug, Clone)]
pub(crate) struct CallRecord {
    pub(crate) at: SystemTime,
    /// What the client calls itself.
    pub(crate) client: Arc<str>,
    /// Whose key it came with.
    pub(crate) caller: Caller,
    pub(crate) server: Arc<str>,
    pub(crate) method: Cow<'static, str>,
    /// As its server calls it.
    pub(crate) tool: Option<Arc<str>>,
    pub(crate) outcome: CallOutcome,
    /// Why it has no result.
    pub(crate) error: Option<String>,
    pub(crate) duration: Duration,
    pub(crate) waited: Duration,
    pub(crate) upstream: Duration,
    pub(crate) generation: Option<Generation>,
    pub(crate) resent: bool,
    pub(crate) request_bytes: usize,
    pub(crate) result_bytes: usize,
    /// Its params, if they are to be kept.
    pub(crate) params: Option<RawJson>,
    /// Tells sessions apart, and is good for nothing else.
    pub(crate) session: Option<[u8; 4]>,
    /// Of a prompt or a resource, if anybody wants to know.
    pub(crate) name: Option<String>,
    /// Of the error that the server answered with.
    pub(crate) error_code: Option<i64>,
    /// The trace it belongs to.
    pub(crate) trace: Option<TraceId>,
}

// === impl Observed ===

impl Observed {
    pub(crate) fn new() -> Self {
        Self {
            recent: Recent::default(),
            feed: Feed::default(),
            metrics: GatewayMetrics::default(),
            audit: Audit::default(),
            telemetry: Telemetry::default(),
            pasts: RwLock::default(),
            pasts_here: FoundHere::default(),
        }
    }

    /// A call is over. On the way of every call, so it must not do much.
    pub(crate) fn call_ended(&self, record: CallRecord, keep: usize) {
        let server = &record.server;
        let look = || self.known(server).map(|past| (server.clone(), past));
        if let Some(past) = self.pasts_here.find(&**server, look) {
            past.metrics.call_ended(&record);
        }
        self.audit.call_ended(&record);
        self.recent.add(record, keep);
    }

    /// What became of calls to a server.
    pub(crate) fn counts(&self, server: &str) -> CallCounts {
        self.metrics_of(server).counts()
    }

    /// What was counted of a server.
    pub(crate) fn metrics_of(&self, server: &str) -> Arc<ServerMetrics> {
        self.known(server).map(|past| past.metrics.clone()).unwrap_or_default()
    }

    /// Counts what the runtime tells of servers: of shared ones, and of those that clients have for themselves.
    pub(crate) fn witness(self: &Arc<Self>) -> impl Fn(&str) -> Told + Send + Sync + 'static {
        let observed = self.clone();
        move |server| {
            // What is told later belongs to this past, whoever has the name by then.
            let (observed, past) = (observed.clone(), observed.past(server));
            Box::new(move |what| {
                observed.metrics.happened(what);
                past.metrics.happened(what);
            })
        }
    }

    /// Where a server was in the last hour.
    pub(crate) fn history(&self, server: &str) -> Vec<Moment> {
        let past = self.known(server);
        past.map(|past| past.history().recent(SystemTime::now())).unwrap_or_default()
    }

    /// A server that is configured no longer has no past.
    pub(crate) fn forget(&self, server: &str) {
        self.pasts.write().unwrap_or_else(PoisonError::into_inner).remove(server);
        self.pasts_here.forget(server);
    }

    fn known(&self, server: &str) -> Option<Arc<Past>> {
        self.pasts.read().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }

    /// The only way to get one: whoever is late finds none.
    fn past(&self, server: &str) -> Arc<Past> {
        let mut pasts = self.pasts.write().unwrap_or_else(PoisonError::into_inner);
        pasts.entry(server.into()).or_default().clone()
    }
}

// === impl Past ===

impl Past {
    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl CallOutcome ===

impl CallOutcome {
    /// All of them, as they are numbered.
    pub(crate) const ALL: [Self; 5] =
        [Self::Answered, Self::NotSent, Self::Rejected, Self::Unknown, Self::Cancelled];

    /// The name used in JSON and in metric labels.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NotSent => "not_sent",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
            Self::Cancelled => "cancelled",
        }
    }

    /// What became of a call that brought no result.
    pub(crate) fn of(error: &CallError) -> Self {
        match (&error.source, error.outcome) {
            (CallFailure::Cancelled, _) => Self::Cancelled,
            (_, Outcome::Answered) => Self::Answered,
            (_, Outcome::NotSent) => Self::NotSent,
            (_, Outcome::Rejected) => Self::Rejected,
            (_, Outcome::Unknown) => Self::Unknown,
        }
    }
}

// === impl ServerState ===

impl From<StateKind> for ServerState {
    fn from(state: StateKind) -> Self {
        match state {
            StateKind::Disabled => Self::Disabled,
            StateKind::Connecting => Self::Connecting,
            StateKind::Connected => Self::Connected,
            StateKind::Reconnecting => Self::Reconnecting,
            StateKind::Disconnected => Self::Disconnected,
            StateKind::Disabling => Self::Disabling,
            // The runtime may come to know more states; one that is parked is the safe thing to show.
            _ => Self::PermanentlyFailed,
        }
    }
}

pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    // A clock set before 1970 shows 1970.
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
