//! The life of one slot as a pure value: `step(self, event, now) -> (self, effects)`.
//!
//! No tokio, no clock, no IO. The driver turns what happens into [`Event`]s and carries out the [`Effect`]s; every
//! decision about connecting, waiting, giving up and closing is made here and nowhere else. That is what makes it
//! possible to print the whole machine as a table, and to throw arbitrary event orders at it.

mod event;
mod reason;
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
        match self.state {
            State::Disconnected { .. } => Some(self.on_demand().map_or(next, |at| at.min(next))),
            _ => Some(next),
        }
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

    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(&self.state, State::Connected(connected) if connected.doubt.is_some())
    }

    fn candidate(&self) -> Option<Generation> {
        match &self.state {
            State::Connected(Connected {
                doubt: Some(Doubt::Testing { candidate, .. }), ..
            }) => Some(*candidate),
            _ => None,
        }
    }

    fn apply(&mut self, event: Event, now: Instant, effects: &mut Vec<Effect>) {
        match event {
            Event::Enable => self.enable(now, effects),
            Event::Disable => self.disable(effects),
            Event::Restart => self.restart(now, effects),
            Event::Demand => self.demand(now, effects),
            Event::Tick => self.tick(now, effects),
            Event::DialSucceeded { generation } => self.dial_succeeded(generation, now, effects),
            Event::DialFailed { failure, .. } => self.dial_failed(failure, now, effects),
            Event::Lost { loss, .. } => self.lose(loss.into(), now, effects),
            Event::Doubted { .. } => self.doubt(now, effects),
            Event::Verdict { candidate, lost } => self.verdict(candidate, lost, now, effects),
            Event::Closed { generation } => {
                self.closing.remove(&generation);
                self.settle(now, effects);
            }
            Event::Health { budget, ok, .. } => self.health(budget, ok, now, effects),
        }
    }

    // ## Disabled | PermanentlyFailed => Connecting;  Disabling => Disabling, then Connecting
    fn enable(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match &mut self.state {
            State::Disabled | State::PermanentlyFailed { .. } => {
                self.start_over();
                self.state = State::Connecting;
                self.try_dial(now, effects);
            }
            State::Disabling { then_enable } => *then_enable = true,
            State::Connecting
            | State::Connected(_)
            | State::Reconnecting { .. }
            | State::Disconnected { .. } => {}
        }
    }

    // ## any => Disabling | Disabled
    fn disable(&mut self, effects: &mut Vec<Effect>) {
        match &mut self.state {
            State::Disabled => return,
            State::Disabling { then_enable } => {
                *then_enable = false;
                return;
            }
            State::Connected(connected) => {
                let (generation, doubt) = (connected.generation, connected.doubt);
                self.close(generation, Manner::Now, effects);
                if let Some(Doubt::Testing { candidate, .. }) = doubt {
                    self.close(candidate, Manner::Now, effects);
                }
            }
            State::Connecting
            | State::Reconnecting { .. }
            | State::Disconnected { .. }
            | State::PermanentlyFailed { .. } => {}
        }
        self.abort_dial(effects);
        // What was left to drain is cut short now.
        for &generation in &self.closing {
            let order = Effect::Close { generation, manner: Manner::Now };
            if !effects.contains(&order) {
                effects.push(order);
            }
        }
        effects.push(Effect::DropCatalog);
        self.start_over();
        self.state = State::Disabling { then_enable: false };
        self.finish_disabling();
    }

    // ## Connected | Disconnected | Reconnecting => Reconnecting;  PermanentlyFailed => Connecting
    fn restart(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let next = State::Reconnecting { until: None, reason: Reason::Requested };
        match &self.state {
            State::Disabled | State::Disabling { .. } => return,
            State::Connected(connected) => {
                let (generation, doubt) = (connected.generation, connected.doubt);
                self.close(generation, self.farewell(), effects);
                if let Some(Doubt::Testing { candidate, .. }) = doubt {
                    self.close(candidate, Manner::Now, effects);
                }
                self.state = next;
            }
            State::Reconnecting { .. } | State::Disconnected { .. } => self.state = next,
            State::Connecting | State::PermanentlyFailed { .. } => self.state = State::Connecting,
        }
        self.abort_dial(effects);
        self.start_over();
        self.try_dial(now, effects);
    }

    /// A slow probe may come early when somebody waits for it, but never faster than the longest quick delay: a
    /// busy agent must not turn a dead server into a hammered one.
    fn demand(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let on_demand = self.on_demand();
        let State::Disconnected { until: Some(until), .. } = &mut self.state else { return };
        let earliest = on_demand.unwrap_or(now);
        if earliest < *until {
            *until = earliest.max(now);
            self.tick(now, effects);
        }
    }

    fn tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match &mut self.state {
            State::Connected(connected) => {
                let abandoned = match connected.doubt {
                    Some(Doubt::Testing { candidate, until }) if until <= now => Some(candidate),
                    _ => None,
                };
                if abandoned.is_some() {
                    connected.doubt = None;
                }
                if connected.proven_at.is_some_and(|at| at <= now) {
                    connected.proven_at = None;
                    self.attempts = 0;
                    self.probes = 0;
                    self.renewed = false;
                }
                // Whoever is still trying it may finish.
                if let Some(candidate) = abandoned {
                    self.close(candidate, Manner::Drain, effects);
                }
            }
            State::Reconnecting { until, .. } | State::Disconnected { until, .. }
                if until.is_some_and(|at| at <= now) =>
            {
                *until = None;
                self.try_dial(now, effects);
            }
            _ => {}
        }
    }

    // ## Connecting | Reconnecting | Disconnected => Connected
    fn dial_succeeded(&mut self, generation: Generation, now: Instant, effects: &mut Vec<Effect>) {
        let aborted = self.dial.take().is_some_and(|dial| dial.aborted);
        match &mut self.state {
            State::Connecting | State::Reconnecting { .. } | State::Disconnected { .. }
                if !aborted =>
            {
                self.install(generation, now, effects);
            }
            State::Connected(connected) if !aborted => {
                let until = now + self.policy.trial;
                connected.doubt = Some(Doubt::Testing { candidate: generation, until });
                effects.push(Effect::Offer { generation });
            }
            // It lost the race against a disable, a restart or a permanent failure: closed, never installed.
            _ => {
                self.close(generation, Manner::Now, effects);
                self.settle(now, effects);
            }
        }
    }

    // ## Connecting | Reconnecting | Disconnected => Reconnecting | Disconnected | PermanentlyFailed
    fn dial_failed(&mut self, failure: DialFailure, now: Instant, effects: &mut Vec<Effect>) {
        if self.dial.take().is_some_and(|dial| dial.aborted) {
            self.settle(now, effects);
            return;
        }
        match &mut self.state {
            State::Connecting | State::Reconnecting { .. } | State::Disconnected { .. } => {
                match failure {
                    DialFailure::Permanent(reason) => self.park(reason, effects),
                    DialFailure::Refused => self.retreat(Reason::HandshakeFailed, now, effects),
                    DialFailure::Unreachable | DialFailure::Aborted => {
                        self.retreat(Reason::TransportLost, now, effects);
                    }
                }
            }
            State::Connected(connected) => {
                connected.doubt = None;
                // A server that cannot be reached at all has lost the session too; one that merely refuses a second
                // handshake may still honour the first.
                if failure == DialFailure::Unreachable {
                    self.lose(Reason::TransportLost, now, effects);
                }
            }
            State::Disabled | State::Disabling { .. } | State::PermanentlyFailed { .. } => {
                self.settle(now, effects);
            }
        }
    }

    // ## Connected => Connected (the candidate) | Reconnecting | Disconnected | PermanentlyFailed
    fn lose(&mut self, reason: Reason, now: Instant, effects: &mut Vec<Effect>) {
        let State::Connected(connected) = &self.state else { return };
        let (generation, doubt) = (connected.generation, connected.doubt);
        self.close(generation, self.farewell(), effects);
        self.failures = Failures::default();
        let parked = match reason {
            Reason::AuthRequired => Some(reason),
            Reason::SessionLost => None,
            _ => (!self.may_restart(reason)).then_some(Reason::NotRestarted),
        };
        if let Some(reason) = parked {
            if let Some(Doubt::Testing { candidate, .. }) = doubt {
                self.close(candidate, Manner::Now, effects);
            }
            self.park(reason, effects);
            return;
        }
        match doubt {
            // The handshake that was to decide a doubt has become the reconnect.
            Some(Doubt::Testing { candidate, .. }) => self.install(candidate, now, effects),
            Some(Doubt::Dialing) => self.state = State::Reconnecting { until: None, reason },
            None if reason == Reason::SessionLost && !self.renewed => {
                self.renewed = true;
                self.state = State::Reconnecting { until: None, reason };
                self.try_dial(now, effects);
            }
            None => self.retreat(reason, now, effects),
        }
    }

    fn doubt(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.policy.exclusive || self.dial.is_some() {
            return;
        }
        if let State::Connected(connected) = &mut self.state
            && connected.doubt.is_none()
        {
            connected.doubt = Some(Doubt::Dialing);
            self.try_dial(now, effects);
        }
    }

    fn verdict(
        &mut self,
        candidate: Generation,
        lost: bool,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let State::Connected(connected) = &mut self.state else { return };
        if lost {
            let old = connected.generation;
            self.close(old, Manner::Drain, effects);
            self.install(candidate, now, effects);
        } else {
            connected.doubt = None;
            self.close(candidate, Manner::Now, effects);
        }
    }

    fn health(&mut self, budget: Budget, ok: bool, now: Instant, effects: &mut Vec<Effect>) {
        let failures = match budget {
            Budget::Discovery => &mut self.failures.discovery,
            Budget::Rpc => &mut self.failures.rpc,
        };
        *failures = if ok { 0 } else { failures.saturating_add(1) };
        if *failures >= self.policy.failure_threshold {
            self.lose(Reason::Unresponsive, now, effects);
        }
    }

    /// The next quick attempt, or the end of them.
    fn retreat(&mut self, reason: Reason, now: Instant, effects: &mut Vec<Effect>) {
        let random = self.random.f64();
        if self.policy.max_attempts.is_none_or(|max| self.attempts < max) {
            let delay = self.policy.backoff.delay(self.attempts, random);
            self.attempts = self.attempts.saturating_add(1);
            self.state = State::Reconnecting { until: Some(now + delay), reason };
        } else if self.policy.on_exhausted == OnExhausted::Fail {
            self.park(Reason::AttemptsExhausted, effects);
        } else {
            let delay = self.policy.cooldown.delay(self.probes, random);
            self.probes = self.probes.saturating_add(1);
            self.state = State::Disconnected { until: Some(now + delay), reason };
        }
    }

    fn park(&mut self, reason: Reason, effects: &mut Vec<Effect>) {
        self.abort_dial(effects);
        effects.push(Effect::DropCatalog);
        self.state = State::PermanentlyFailed { reason };
    }

    fn install(&mut self, generation: Generation, now: Instant, effects: &mut Vec<Effect>) {
        self.failures = Failures::default();
        self.state = State::Connected(Connected {
            generation,
            proven_at: Some(now + self.policy.stable_after),
            doubt: None,
            reason: Reason::HandshakeDone,
        });
        effects.push(Effect::Install { generation });
    }

    /// Something that stood in the way of a dial, or of being off, has ended.
    fn settle(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match &self.state {
            State::Disabling { then_enable: true }
                if self.dial.is_none() && self.closing.is_empty() =>
            {
                self.start_over();
                self.state = State::Connecting;
                self.try_dial(now, effects);
            }
            State::Disabling { .. } => self.finish_disabling(),
            State::Connecting
            | State::Reconnecting { until: None, .. }
            | State::Disconnected { until: None, .. } => self.try_dial(now, effects),
            _ => {}
        }
    }

    fn finish_disabling(&mut self) {
        if self.dial.is_none() && self.closing.is_empty() {
            self.state = State::Disabled;
        }
    }

    /// Dials, unless something must end first; then [`Self::settle`] comes back here.
    fn try_dial(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let blocked = self.policy.exclusive && !self.closing.is_empty();
        if self.dial.is_some() || blocked {
            return;
        }
        let generation = self.newest.map_or(Generation::FIRST, Generation::next);
        self.newest = Some(generation);
        self.dial = Some(Dial { generation, aborted: false });
        self.last_dial_at = Some(now);
        effects.push(Effect::Dial { generation });
    }

    fn abort_dial(&mut self, effects: &mut Vec<Effect>) {
        if let Some(dial) = &mut self.dial
            && !dial.aborted
        {
            dial.aborted = true;
            effects.push(Effect::AbortDial { generation: dial.generation });
        }
    }

    fn close(&mut self, generation: Generation, manner: Manner, effects: &mut Vec<Effect>) {
        self.closing.insert(generation);
        effects.push(Effect::Close { generation, manner });
    }

    /// Calls that a remote server has accepted may still end well, whatever happened to ours. A child that must be
    /// gone before the next one starts cannot be waited for.
    fn farewell(&self) -> Manner {
        if self.policy.exclusive { Manner::Now } else { Manner::Drain }
    }

    fn may_restart(&self, reason: Reason) -> bool {
        match self.policy.restart {
            Restart::Always => true,
            Restart::OnFailure => reason != Reason::ProcessExitedCleanly,
            Restart::Never => false,
        }
    }

    fn on_demand(&self) -> Option<Instant> {
        self.last_dial_at.map(|last| last + self.policy.backoff.max())
    }

    fn start_over(&mut self) {
        self.attempts = 0;
        self.probes = 0;
        self.renewed = false;
        self.failures = Failures::default();
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
