//! The life of one slot as a pure value: `step(self, event, now) -> (self, effects)`.
//!
//! No tokio, no clock, no IO. The driver turns what happens into [`Event`]s and carries out the [`Effect`]s; every
//! decision about connecting, waiting, giving up and closing is made here and nowhere else. That is what makes it
//! possible to print the whole machine as a table, and to throw arbitrary event orders at it.

mod event;
mod reason;
mod rules;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(crate) use event::{Budget, DialFailure, Effect, Event, Loss, Manner};
pub use reason::Reason;
pub(crate) use state::{Connected, Doubt, State};
pub use state::{Generation, StateKind};

use crate::retry::Backoff;

/// What to do when a connection ends by itself. A renewed session is not a restart and always happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Leave it: the slot is parked.
    Never,
    /// Start it again, unless it is a child process that ended with exit code 0.
    OnFailure,
    /// Always start it again.
    #[default]
    Always,
}

/// What to do when the quick attempts are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExhausted {
    /// Probe slowly for ever.
    #[default]
    KeepProbing,
    /// Park the slot until somebody restarts or enables it.
    Fail,
}

/// The numbers a lifecycle decides by; checked when the settings are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Policy {
    pub(crate) backoff: Backoff,
    pub(crate) cooldown: Backoff,
    /// Quick attempts in a row; `None` is without limit.
    pub(crate) max_attempts: Option<u32>,
    pub(crate) on_exhausted: OnExhausted,
    pub(crate) restart: Restart,
    /// How long a connection must hold before backoff starts over.
    pub(crate) stable_after: Duration,
    /// How long a candidate is kept for the callers in doubt.
    pub(crate) trial: Duration,
    /// Failures in a row, in one budget, that condemn a connection.
    pub(crate) failure_threshold: u32,
    /// Whether two connections must never exist side by side: a child process may hold a lock file or a port.
    pub(crate) exclusive: bool,
}

/// One slot's life. Cheap to clone; changed only by [`Lifecycle::step`].
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    policy: Policy,
    state: State,
    /// The newest generation ever reserved.
    newest: Option<Generation>,
    /// The one dial in flight, wanted or being called off. A field rather than part of a state, so that a second
    /// dial cannot even be expressed.
    dial: Option<Dial>,
    /// Generations whose close was ordered and has not ended.
    closing: BTreeSet<Generation>,
    /// Delays used up since the slot last proved itself.
    attempts: u32,
    /// Slow probes since then.
    probes: u32,
    /// Whether the one immediate renewal was used since then: a server that forgets every session at once must not
    /// be asked for new ones in a hot loop.
    renewed: bool,
    failures: Failures,
    last_dial_at: Option<Instant>,
    /// Drawn with every dial: how much sooner than usual a call may have the next.
    chance: f64,
    lost_at: Option<Instant>,
    /// When the next attempt was to start before a call pulled it forward.
    planned: Option<Instant>,
    random: fastrand::Rng,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dial {
    generation: Generation,
    aborted: bool,
}

/// Consecutive failures per budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) discovery: u32,
    pub(crate) rpc: u32,
}

// === impl Lifecycle ===

impl Lifecycle {
    /// A slot that is off. `seed` makes its jitter reproducible.
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            state: State::Disabled,
            newest: None,
            dial: None,
            closing: BTreeSet::new(),
            attempts: 0,
            probes: 0,
            renewed: false,
            failures: Failures::default(),
            last_dial_at: None,
            chance: 0.0,
            lost_at: None,
            planned: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The only way this value changes.
    pub(crate) fn step(mut self, event: Event, now: Instant) -> (Self, Vec<Effect>) {
        let mut effects = Vec::new();
        if !self.is_stale(&event) {
            self.apply(event, now, &mut effects);
        }
        (self, effects)
    }

    /// Whether the event speaks for a generation that no longer matters. Checked here and nowhere else.
    pub(crate) fn is_stale(&self, event: &Event) -> bool {
        match *event {
            Event::Lost { generation, .. }
            | Event::Doubted { generation }
            | Event::Health { generation, .. } => self.current() != Some(generation),
            Event::DialSucceeded { generation } | Event::DialFailed { generation, .. } => {
                self.dial.is_none_or(|dial| dial.generation != generation)
            }
            Event::Verdict { candidate, .. } => self.candidate() != Some(candidate),
            Event::Closed { generation } => !self.closing.contains(&generation),
            Event::Enable | Event::Disable | Event::Restart | Event::Demand | Event::Tick => false,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The generation that serves calls.
    pub(crate) fn current(&self) -> Option<Generation> {
        match &self.state {
            State::Connected(connected) => Some(connected.generation),
            _ => None,
        }
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn failures(&self) -> Failures {
        self.failures
    }

    pub(crate) fn reason(&self) -> Reason {
        match &self.state {
            State::Connected(connected) => connected.reason,
            State::Reconnecting { reason, .. }
            | State::Disconnected { reason, .. }
            | State::PermanentlyFailed { reason } => *reason,
            State::Disabled | State::Connecting | State::Disabling { .. } => Reason::Requested,
        }
    }

    /// When the next attempt starts, while the slot waits for it.
    pub(crate) fn next_attempt_at(&self) -> Option<Instant> {
        match &self.state {
            State::Reconnecting { until, .. } | State::Disconnected { until, .. } => *until,
            _ => None,
        }
    }

    /// When it could start if a call asked for it: see [`Event::Demand`].
    pub(crate) fn earliest_attempt_at(&self) -> Option<Instant> {
        let next = self.next_attempt_at()?;
        Some(self.on_demand().map_or(next, |at| at.min(next)))
    }

    /// When the driver should send [`Event::Tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Connected(connected) => {
                let trial_ends = match connected.doubt {
                    Some(Doubt::Testing { until, .. }) => Some(until),
                    _ => None,
                };
                connected.proven_at.into_iter().chain(trial_ends).min()
            }
            _ => self.next_attempt_at(),
        }
    }

    /// Nothing open, nothing under way: safe to forget.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Disabled) && self.dial.is_none() && self.closing.is_empty()
    }

    /// Being switched off, and on again after that.
    pub(crate) fn is_returning(&self) -> bool {
        matches!(self.state, State::Disabling { then_enable: true })
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(&self.state, State::Connected(connected) if connected.doubt.is_some())
    }

    /// The generation on trial beside it.
    pub(crate) fn candidate(&self) -> Option<Generation> {
        match &self.state {
            State::Connected(Connected {
                doubt: Some(Doubt::Testing { candidate, .. }), ..
            }) => Some(*candidate),
            _ => None,
        }
    }
}

impl From<Loss> for Reason {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Session => Self::SessionLost,
            Loss::Transport => Self::TransportLost,
            Loss::Exited { clean: true } => Self::ProcessExitedCleanly,
            Loss::Exited { clean: false } => Self::ProcessExited,
            Loss::Auth => Self::AuthRequired,
        }
    }
}
