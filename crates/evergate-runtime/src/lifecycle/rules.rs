//! The rules: what each event does to a slot. Each heading names the states an event leads from and to.

use std::time::Instant;

use super::{
    Budget, Connected, Dial, DialFailure, Doubt, Effect, Event, Failures, Generation, Lifecycle,
    Manner, OnExhausted, Reason, Restart, State,
};

// === impl Lifecycle ===

impl Lifecycle {
    pub(super) fn apply(&mut self, event: Event, now: Instant, effects: &mut Vec<Effect>) {
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

    /// An attempt may come early when somebody waits for it, within limits: a busy agent must not turn a dead server
    /// into a hammered one. The attempt that was planned stays planned, so that calls do not use the attempts up.
    fn demand(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let earliest = self.on_demand().unwrap_or(now);
        let until = match &mut self.state {
            State::Reconnecting { until: Some(until), .. } => {
                if earliest < *until && self.planned.is_none() {
                    self.planned = Some(*until);
                }
                until
            }
            State::Disconnected { until: Some(until), .. } => until,
            _ => return,
        };
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
                    DialFailure::Exited => self.retreat(Reason::ProcessExited, now, effects),
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
        self.lost_at = Some(now);
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
        if let Some(planned) = self.planned.take().filter(|planned| *planned > now) {
            // That was an extra one.
            self.state = State::Reconnecting { until: Some(planned), reason };
            return;
        }
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
        self.planned = None;
        self.abort_dial(effects);
        effects.push(Effect::DropCatalog);
        self.state = State::PermanentlyFailed { reason };
    }

    fn install(&mut self, generation: Generation, now: Instant, effects: &mut Vec<Effect>) {
        self.planned = None;
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
        self.chance = self.random.f64();
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

    /// When an attempt may start that somebody waits for: after about the shortest delay while quick attempts are
    /// left; once they are spent the less often the longer the server has been gone, so that a call soon finds one
    /// that was away for seconds, and no agent hammers one that is away for hours.
    pub(super) fn on_demand(&self) -> Option<Instant> {
        let (shortest, longest) = (self.policy.backoff.initial(), self.policy.backoff.max());
        let pause = match (&self.state, self.last_dial_at, self.lost_at) {
            (State::Reconnecting { .. }, ..) => shortest,
            (_, Some(dialed), Some(gone)) => {
                (dialed.saturating_duration_since(gone) / 10).clamp(shortest, longest.max(shortest))
            }
            // It was never there.
            _ => (4 * shortest).min(longest),
        };
        // One that comes and goes by the clock must not be met each time while it is away.
        let pause = self.policy.backoff.dither(pause, self.chance);
        // A server that was lost a moment ago may still be dying: whoever dials at once may be let in, and cut off again.
        self.last_dial_at.max(self.lost_at).map(|last| last + pause)
    }

    fn start_over(&mut self) {
        self.planned = None;
        self.attempts = 0;
        self.probes = 0;
        self.renewed = false;
        self.failures = Failures::default();
    }
}
