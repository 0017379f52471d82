//! What is counted of one server.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evergate_runtime::{AttemptEnd, Happening, Reason, Sharded};

use super::cells::{Counter, Histogram, OWN_TIME, RECOVERY_TIME, SERVER_TIME, WAITING_TIME};
use super::state_clock::StateClock;
use crate::admin::model::{CallCounts, CallOutcome};
use crate::observed::CallRecord;

/// One per server, for as long as it is configured.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    calls: Sharded<Calls>,
    pub(super) stale_serves: Counter,
    pub(super) handshakes: [Counter; AttemptEnd::ALL.len()],
    pub(super) losses: ByReason,
    pub(super) reconnects: ByReason,
    pub(super) recovery: Histogram,
    pub(super) process_restarts: Counter,
    states: Mutex<StateClock>,
}

/// What is counted of its calls.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) outcomes: [Counter; CallOutcome::ALL.len()],
    pub(super) resent: Counter,
    pub(super) wait: Histogram,
    pub(super) upstream: Histogram,
    pub(super) own: Histogram,
    pub(super) request_bytes: Counter,
    pub(super) result_bytes: Counter,
}

/// One counter for each reason.
#[derive(Debug, Default)]
pub(super) struct ByReason([Counter; Reason::ALL.len()]);

/// Why connections are lost. Always shown, so that the first time shows as an increase; other reasons when they occur.
const USUAL: [Reason; 7] = [
    Reason::Requested,
    Reason::SessionLost,
    Reason::TransportLost,
    Reason::ProcessExited,
    Reason::ProcessExitedCleanly,
    Reason::Unresponsive,
    Reason::AuthRequired,
];

// === impl ServerMetrics ===

impl Default for ServerMetrics {
    fn default() -> Self {
        Self {
            calls: Sharded::default(),
            stale_serves: Counter::default(),
            handshakes: Default::default(),
            losses: ByReason::default(),
            reconnects: ByReason::default(),
            recovery: Histogram::new(RECOVERY_TIME),
            process_restarts: Counter::default(),
            states: Mutex::default(),
        }
    }
}

impl ServerMetrics {
    /// On the way of every call.
    pub(crate) fn call_ended(&self, call: &CallRecord) {
        self.calls.own().ended(call);
    }

    /// Of all threads together.
    pub(super) fn calls(&self) -> Calls {
        let all = Calls::default();
        self.calls.all().for_each(|calls| all.add(calls));
        all
    }

    /// Something became of the server.
    pub(crate) fn happened(&self, what: Happening) {
        match what {
            Happening::Began(state) => self.states().enter(state),
            Happening::Moved { from, to } => {
                let mut states = self.states();
                states.leave(from);
                states.enter(to);
            }
            Happening::Ended(state) => self.states().leave(state),
            Happening::Attempted(end) => {
                let known = AttemptEnd::ALL.iter().position(|known| *known == end);
                if let Some(handshakes) = known.and_then(|at| self.handshakes.get(at)) {
                    handshakes.add(1);
                }
            }
            Happening::Lost(reason) => self.losses.add(reason),
            Happening::Connected { process, since_loss: Some((reason, took)) } => {
                self.process_restarts.add(u64::from(process));
                self.reconnects.add(reason);
                self.recovery.observe(took);
            }
            // A first connection, and what a newer runtime tells besides.
            _ => {}
        }
    }

    /// A list with its last good entries was given out while it was out of reach.
    pub(crate) fn served_stale(&self) {
        self.stale_serves.add(1);
    }

    /// What became of calls, for the admin API.
    pub(crate) fn counts(&self) -> CallCounts {
        let calls = self.calls();
        let of = |outcome: CallOutcome| calls.outcomes[outcome as usize].get();
        CallCounts {
            answered: of(CallOutcome::Answered),
            not_sent: of(CallOutcome::NotSent),
            rejected: of(CallOutcome::Rejected),
            unknown: of(CallOutcome::Unknown),
            cancelled: of(CallOutcome::Cancelled),
            resent: calls.resent.get(),
        }
    }

    pub(super) fn states(&self) -> MutexGuard<'_, StateClock> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Calls ===

impl Default for Calls {
    fn default() -> Self {
        Self {
            outcomes: Default::default(),
            resent: Counter::default(),
            wait: Histogram::new(WAITING_TIME),
            upstream: Histogram::new(SERVER_TIME),
            own: Histogram::new(OWN_TIME),
            request_bytes: Counter::default(),
            result_bytes: Counter::default(),
        }
    }
}

impl Calls {
    fn ended(&self, call: &CallRecord) {
        self.outcomes[call.outcome as usize].add(1);
        let own = call.duration.saturating_sub(call.waited).saturating_sub(call.upstream);
        self.own.observe(own);
        if !call.upstream.is_zero() {
            self.upstream.observe(call.upstream);
        }
        if !call.waited.is_zero() {
            self.wait.observe(call.waited);
        }
        if call.resent {
            self.resent.add(1);
        }
        self.request_bytes.add(call.request_bytes as u64);
        self.result_bytes.add(call.result_bytes as u64);
    }

    fn add(&self, other: &Self) {
        let Self { outcomes, resent, wait, upstream, own, request_bytes, result_bytes } = self;
        for (outcome, other) in outcomes.iter().zip(&other.outcomes) {
            outcome.add(other.get());
        }
        resent.add(other.resent.get());
        wait.add(&other.wait);
        upstream.add(&other.upstream);
        own.add(&other.own);
        request_bytes.add(other.request_bytes.get());
        result_bytes.add(other.result_bytes.get());
    }
}

// === impl ByReason ===

impl ByReason {
    fn add(&self, reason: Reason) {
        let known = Reason::ALL.iter().position(|known| *known == reason);
        if let Some(counter) = known.and_then(|at| self.0.get(at)) {
            counter.add(1);
        }
    }

    pub(super) fn read(&self) -> impl Iterator<Item = (Reason, u64)> {
        let all = Reason::ALL.into_iter().zip(&self.0).map(|(reason, count)| (reason, count.get()));
        all.filter(|(reason, count)| *count > 0 || USUAL.contains(reason))
    }
}
