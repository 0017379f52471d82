//! What was seen: every call, every look at the tool list, every piece of news, with times.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::faults::client::Told;

/// The tools that the callers use, and what repeating them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Returns its text. Without annotations: must not be repeated.
    Echo,
    /// Takes a while. Without annotations: must not be repeated.
    Slow,
    /// Annotated `idempotentHint`.
    Again,
}

/// One call, from the client's side and from the server's.
#[derive(Debug, Clone)]
pub struct Call {
    /// What the server counted it under.
    pub id: String,
    /// What was called.
    pub tool: Tool,
    /// When it was made.
    pub started: Instant,
    /// When it ended, however it did.
    pub ended: Instant,
    /// How it ended.
    pub end: End,
    /// Whether nobody could have answered it: its server was dead for good.
    pub doomed: bool,
    /// How often it was executed. Known when the cell is over.
    pub executions: u64,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With its own result.
    Answered,
    /// With a result that belongs to another call, or to none.
    WrongResult(String),
    /// With an error.
    Failed(Told),
    /// With nothing until the client's own deadline.
    Silence,
}

/// One look at the tool list.
#[derive(Debug, Clone)]
pub struct Look {
    /// When the list was asked for.
    pub started: Instant,
    /// When it came, or did not.
    pub ended: Instant,
    /// The names, or what went wrong.
    pub tools: Result<Vec<String>, String>,
}

/// A stretch of time in which the fault strikes whatever is under way.
#[derive(Debug, Clone, Copy)]
pub struct Strike {
    /// When it began.
    pub from: Instant,
    /// When it was over.
    pub to: Instant,
}

/// The record of one cell.
#[derive(Debug, Default)]
pub struct Witness {
    seen: Mutex<Seen>,
}

/// What a [`Witness`] saw.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Every call that ended.
    pub calls: Vec<Call>,
    /// Every look at the list.
    pub looks: Vec<Look>,
    /// When `notifications/tools/list_changed` came.
    pub news: Vec<Instant>,
    /// How often the client found its connection gone.
    pub reinitialized: u32,
    /// When what a client without a handshake listens on had ended.
    pub unheard: Vec<Instant>,
    /// When the fault struck.
    pub strikes: Vec<Strike>,
    /// Times in which there was no product to ask.
    pub gateway_away: Vec<Strike>,
}

// === impl Tool ===

impl Tool {
    /// Every tool the callers use.
    pub const ALL: &[Self] = &[Self::Echo, Self::Slow, Self::Again];

    /// As the server calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Slow => "slow",
            Self::Again => "again",
        }
    }

    /// Whether a second execution does no harm.
    pub fn is_repeatable(self) -> bool {
        self == Self::Again
    }
}

/// How long the news of a death may take to reach a product: what it sends meanwhile is under way to a dead server.
pub const TRAVEL: Duration = Duration::from_millis(100);

// === impl Strike ===

impl Strike {
    /// Whether what lasted from `started` to `ended` was under way in this stretch, or left before anybody could know
    /// of it.
    pub fn hit(&self, started: Instant, ended: Instant) -> bool {
        started <= self.to + TRAVEL && ended >= self.from
    }

    /// Whether all of it was in this stretch.
    pub fn covers(&self, started: Instant, ended: Instant) -> bool {
        started >= self.from && ended <= self.to
    }
}

// === impl Seen ===

impl Seen {
    /// When the first good call after the end of the fault ended. Calls that were under way when it struck do not count:
    /// their answers may have been on the way already.
    pub fn recovered_after(&self, fault_ended: Instant) -> Option<Instant> {
        let struck = self.strikes.iter().map(|strike| strike.from).max();
        let good = self.calls.iter().filter(|call| {
            call.end == End::Answered
                && call.ended >= fault_ended
                && struck.is_none_or(|struck| call.started >= struck)
        });
        good.map(|call| call.ended).min()
    }
}

// === impl Witness ===

impl Witness {
    /// Writes something down.
    pub fn note<T>(&self, what: impl FnOnce(&mut Seen) -> T) -> T {
        what(&mut self.lock())
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// See [`Seen::recovered_after`].
    pub fn recovered_after(&self, fault_ended: Instant) -> Option<Instant> {
        self.lock().recovered_after(fault_ended)
    }

    /// Whether there was news after `since`.
    pub fn news_after(&self, since: Instant) -> bool {
        self.lock().news.iter().any(|at| *at >= since)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
