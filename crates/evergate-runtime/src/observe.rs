//! What the outside can watch: the status of each server, every transition, and what servers announce.

mod witness;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tokio::time::Instant;

use crate::lifecycle::{Generation, Reason, StateKind};
use crate::protocol::{ProtocolVersion, RawJson};

pub use witness::{AttemptEnd, Happening};
pub(crate) use witness::{Told, Witness};

/// One server, as of now.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Its name.
    pub server: Arc<str>,
    /// Where it is in its life.
    pub state: StateKind,
    /// Why it is there.
    pub reason: Reason,
    /// Since when.
    #[serde(rename = "since_unix_ms", serialize_with = "as_unix_ms")]
    pub since: SystemTime,
    /// The connection that serves calls, or the last one that did.
    pub generation: Option<Generation>,
    /// Since when that connection is there; `None` while there is none.
    #[serde(rename = "connected_since_unix_ms", serialize_with = "as_optional_unix_ms")]
    pub connected_since: Option<SystemTime>,
    /// Connected, but recent calls or listings failed.
    pub degraded: bool,
    /// Reconnect attempts since it last proved itself.
    pub attempts: u32,
    /// When the next attempt is due.
    #[serde(rename = "next_retry_ms", serialize_with = "as_ms_from_now")]
    pub next_retry_at: Option<Instant>,
    /// The newest failure, with its causes. Kept after recovery, so that it can still be asked for.
    pub last_error: Option<String>,
    /// When that was.
    #[serde(rename = "last_error_unix_ms", serialize_with = "as_optional_unix_ms")]
    pub last_error_at: Option<SystemTime>,
    /// Connections made beyond the first.
    pub reconnects: u64,
    /// Listings that failed in a row.
    pub discovery_failures: u32,
    /// Calls that failed in a row.
    pub rpc_failures: u32,
    /// How many of either make the connection be given up.
    pub failure_threshold: u32,
    /// How it is spoken to.
    pub transport: Option<&'static str>,
    /// The revision it speaks.
    pub protocol: Option<ProtocolVersion>,
    /// The child's process id.
    pub pid: Option<u32>,
    /// The last lines the child wrote to its standard error.
    pub stderr_tail: Vec<String>,
    /// How many lines it ever wrote there, as far as anybody read them.
    pub stderr_lines: u64,
    /// Messages that were not JSON-RPC, or too large.
    pub garbage: u64,
    /// What the newest of them was.
    pub last_garbage: Option<String>,
    /// Reports of connections that were no longer the current one, dropped.
    pub stale_events: u64,
    /// Calls that wait for a connection, or for others to end.
    pub held: usize,
    /// Of those, calls that wait only because `max_in_flight` are with the server.
    pub queued: usize,
    /// Calls that may wait at once.
    pub max_held: usize,
    /// Calls that are with the server.
    pub in_flight: usize,
    /// Calls that may be with the server at once.
    pub max_in_flight: usize,
    /// The server limits our rate, and calls to it are refused for a while.
    pub rate_limited: Option<RateLimited>,
    /// When a call could have a probe made, at the earliest.
    #[serde(skip)]
    pub(crate) earliest_attempt_at: Option<Instant>,
    #[serde(skip)]
    pub(crate) last_failure: Option<crate::error::SharedError>,
    /// A second handshake is to decide whether the session is still known.
    #[serde(skip)]
    pub(crate) in_doubt: bool,
    /// It is being switched off, and on again after that.
    #[serde(skip)]
    pub(crate) returning: bool,
}

// === impl Status ===

impl Status {
    /// Whether calls to it are refused now, because it limits their rate. Once the pause is over, the next one finds out.
    pub fn refuses_calls(&self) -> bool {
        self.rate_limited.as_ref().is_some_and(|limited| limited.until > Instant::now())
    }
}

/// Why calls to a server are refused for a while, and how long.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RateLimited {
    /// From then on one call at a time may find out whether the server takes calls again.
    #[serde(rename = "probe_in_ms", serialize_with = "as_ms_until")]
    pub until: Instant,
    /// What the server did, in words of ours.
    pub because: String,
}

/// Something happened to a server.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum HubEvent {
    /// It changed its state, or its generation.
    Transition(Transition),
    /// What it offers changed, or is no longer offered.
    CatalogChanged {
        /// Whose.
        server: Arc<str>,
        /// The hub's catalog version from now on.
        version: u64,
    },
    /// It limits our rate, and calls to it are refused for a while; or it takes calls again.
    RateLimit {
        /// Which.
        server: Arc<str>,
        /// `None` when it is over.
        paused: Option<RateLimited>,
    },
    /// An attempt to connect came to its end, one way or the other. What becomes of it the next transition says.
    Dialed(Dialed),
}

/// One attempt to connect, handshake included.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Dialed {
    /// To whom.
    pub server: Arc<str>,
    /// The generation it was made for.
    pub generation: Generation,
    /// When it began, after whatever it had to wait for.
    #[serde(rename = "began_unix_ms", serialize_with = "as_unix_ms")]
    pub began: SystemTime,
    /// How long it took.
    #[serde(rename = "took_ms", serialize_with = "as_ms")]
    pub took: Duration,
    /// How it ended.
    pub end: AttemptEnd,
    /// Why trying again will not help, if it will not.
    pub reason: Option<Reason>,
    /// How the server is spoken to, if it came about.
    pub transport: Option<&'static str>,
    /// The revision it speaks, if it came about.
    pub protocol: Option<ProtocolVersion>,
    /// What kept it from coming about, with its causes.
    pub error: Option<String>,
}

/// One step of a server's life.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Transition {
    /// Whose.
    pub server: Arc<str>,
    /// From.
    pub from: StateKind,
    /// To.
    pub to: StateKind,
    /// What caused it.
    pub event: &'static str,
    /// Why it is there now.
    pub reason: Reason,
    /// The generation concerned, if any was ever connected.
    pub generation: Option<Generation>,
    /// When.
    #[serde(rename = "at_unix_ms", serialize_with = "as_unix_ms")]
    pub at: SystemTime,
}

/// A notification of a server that is not about a call: log messages, resource updates and whatever else it sends.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Notification {
    /// Who sent it.
    pub server: Arc<str>,
    /// On which connection.
    pub generation: Generation,
    /// Its method, such as `notifications/message`.
    pub method: String,
    /// Its params as sent.
    pub params: Option<RawJson>,
}

fn as_unix_ms<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    unix_ms(*time).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn as_optional_unix_ms<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(unix_ms).serialize(serializer)
}

/// A clock set before 1970 shows 1970.
fn unix_ms(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()
}

fn as_ms<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_millis().serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn as_ms_from_now<S: Serializer>(at: &Option<Instant>, serializer: S) -> Result<S::Ok, S::Error> {
    let left = at.map(|at| at.saturating_duration_since(Instant::now()));
    left.as_ref().map(Duration::as_millis).serialize(serializer)
}

fn as_ms_until<S: Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    at.saturating_duration_since(Instant::now()).as_millis().serialize(serializer)
}
