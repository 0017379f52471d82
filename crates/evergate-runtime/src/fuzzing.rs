//! Ways in for the fuzz targets in `fuzz/`, which cannot reach what is private. Not part of the API.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::lifecycle::{
    Budget, DialFailure, Doubt, Effect, Event, Generation, Lifecycle, Loss, Manner, OnExhausted,
    Policy, Reason, Restart, State,
};
use crate::protocol::{Message, RawJson, parse, with_progress_token};
use crate::retry::Backoff;

/// Reads `data` as a body of JSON-RPC messages.
pub fn message(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    let Ok(messages) = parse(&body) else { return };
    for message in messages {
        match message {
            Message::Request { id, method: _, params } => {
                check_json(&id);
                check_params(params.as_ref());
            }
            Message::Notification { method: _, params } => check_params(params.as_ref()),
            Message::Response { id, answer } => {
                id.iter().for_each(check_json);
                check_json(answer.as_ref().unwrap_or_else(|error| &error.raw));
            }
        }
    }
}

fn check_json(json: &RawJson) {
    assert!(RawJson::from_text(json.to_bytes()).is_ok_and(|again| again == *json));
}

fn check_params(params: Option<&RawJson>) {
    params.into_iter().for_each(check_json);
    if let Ok(text) = with_progress_token(params.map(RawJson::as_bytes), 7) {
        assert!(RawJson::from_text(text).is_ok());
    }
}

/// Reads `data` as a policy and a sequence of events, and panics if the lifecycle breaks a promise on the way.
pub fn lifecycle(data: &[u8]) {
    let [shape, attempts, rest @ ..] = data else { return };
    let policy = policy(*shape, *attempts);
    let mut world = World::new(policy);
    for pair in rest.chunks_exact(2) {
        world.now += Duration::from_millis(u64::from(pair[1]) * 50);
        let event = world.event(pair[0], pair[1]);
        world.step(event);
    }
    world.switch_off();
}

fn policy(shape: u8, attempts: u8) -> Policy {
    let second = Duration::from_secs(1);
    let backoff =
        |max| Backoff::new(second, max * second, 2.0, 1.0).expect("valid by construction");
    Policy {
        backoff: backoff(8),
        cooldown: backoff(60),
        max_attempts: (attempts < 250).then(|| u32::from(attempts % 6)),
        on_exhausted: if shape & 1 == 0 { OnExhausted::KeepProbing } else { OnExhausted::Fail },
        restart: match (shape >> 1) % 3 {
            0 => Restart::Always,
            1 => Restart::OnFailure,
            _ => Restart::Never,
        },
        stable_after: 10 * second,

        trial: Duration::from_secs(60),
        failure_threshold: u32::from(shape >> 5) + 1,
        exclusive: shape & 8 != 0,
    }
}

/// What a driver that carries out every effect would hold.
struct World {
    policy: Policy,
    lifecycle: Lifecycle,
    now: Instant,
    newest: Option<Generation>,
    dialing: Option<Generation>,
    /// Handshaken and not closed; those in `closing` are on their way out.
    open: BTreeSet<Generation>,
    closing: BTreeSet<Generation>,
    current: Option<Generation>,
}

// === impl World ===

impl World {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            lifecycle: Lifecycle::new(policy, 1),
            now: tokio::time::Instant::now().into_std(),
            newest: None,
            dialing: None,
            open: BTreeSet::new(),
            closing: BTreeSet::new(),
            current: None,
        }
    }

    /// An event of any generation: one that matters, one that is long gone, one that never was.
    fn event(&self, kind: u8, detail: u8) -> Event {
        let generation = match kind >> 5 {
            0..=2 => self.dialing.or(self.current),
            3 => self.current,
            4 => self.closing.first().copied(),
            5 => self.open.last().copied(),
            6 => self.newest.map(Generation::next),
            _ => None,
        }
        .unwrap_or(Generation::FIRST);
        match kind & 31 {
            0 => Event::Enable,
            1 => Event::Disable,
            2 => Event::Restart,
            3 => Event::Demand,
            4..=6 => Event::Tick,
            7..=12 => Event::DialSucceeded { generation },
            13..=15 => {
                let failure = match detail % 5 {
                    0 => DialFailure::Unreachable,
                    4 => DialFailure::Exited,
                    1 => DialFailure::Refused,
                    2 => DialFailure::Aborted,
                    _ => DialFailure::Permanent(Reason::AuthRequired),
                };
                Event::DialFailed { generation, failure }
            }
            16..=19 => {
                let loss = match detail % 5 {
                    0 => Loss::Session,
                    1 => Loss::Transport,
                    2 => Loss::Exited { clean: true },
                    3 => Loss::Exited { clean: false },
                    _ => Loss::Auth,
                };
                Event::Lost { generation, loss }
            }
            20..=22 => Event::Doubted { generation },
            23..=25 => Event::Verdict { candidate: generation, lost: detail & 1 == 0 },
            26..=28 => Event::Closed { generation },
            _ => {
                let budget = if detail & 1 == 0 { Budget::Discovery } else { Budget::Rpc };
                Event::Health { generation, budget, ok: detail & 6 == 0 }
            }
        }
    }

    fn step(&mut self, event: Event) {
        let stale = self.lifecycle.is_stale(&event);
        let before = self.lifecycle.state().clone();
        let (next, effects) = self.lifecycle.clone().step(event, self.now);
        self.lifecycle = next;
        if stale {
            assert!(effects.is_empty() && before == *self.lifecycle.state(), "a stale event acted");
            return;
        }
        match event {
            Event::DialSucceeded { generation } => {
                assert_eq!(self.dialing.take(), Some(generation));
                self.open.insert(generation);
            }
            Event::DialFailed { generation, .. } => {
                assert_eq!(self.dialing.take(), Some(generation));
            }
            Event::Closed { generation } => {
                assert!(self.closing.remove(&generation) && self.open.remove(&generation));
            }
            _ => {}
        }
        // An install ends the reign of whatever was current; its close is among the same effects.
        for effect in &effects {
            self.carry_out(*effect);
        }
        self.check();
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { generation } => {
                assert_eq!(self.dialing, None, "two dials in flight");
                assert!(self.newest < Some(generation), "generations must grow");
                let alone = self.open.is_empty() || !self.policy.exclusive;
                assert!(alone, "an exclusive slot dials while a connection is open");
                self.newest = Some(generation);
                self.dialing = Some(generation);
            }
            Effect::AbortDial { generation } => {
                assert_eq!(self.dialing, Some(generation), "nothing to call off");
            }
            Effect::Offer { generation } | Effect::Install { generation } => {
                assert!(self.open.contains(&generation), "not open");
                assert!(!self.closing.contains(&generation), "already being closed");
            }
            Effect::Close { generation, manner } => {
                assert!(self.open.contains(&generation), "nothing to close");
                let first = self.closing.insert(generation);
                assert!(first || manner == Manner::Now, "closed twice, and not to hurry it");
            }
            Effect::DropCatalog => {}
        }
    }

    fn check(&mut self) {
        self.current = self.lifecycle.current();
        let mut wanted: BTreeSet<Generation> = self.current.into_iter().collect();
        let (mut needs_dial, mut can_wait) = (false, false);
        match self.lifecycle.state() {
            State::Connected(connected) => match connected.doubt {
                Some(Doubt::Testing { candidate, .. }) => assert!(wanted.insert(candidate)),
                Some(Doubt::Dialing) => needs_dial = true,
                None => {}
            },
            State::Connecting
            | State::Reconnecting { until: None, .. }
            | State::Disconnected { until: None, .. } => {
                needs_dial = true;
                can_wait = self.policy.exclusive && !self.closing.is_empty();
            }
            State::Reconnecting { .. } | State::Disconnected { .. } => {
                assert!(self.lifecycle.deadline().is_some(), "waits for nothing");
            }
            State::Disabling { .. } => {
                assert!(self.dialing.is_some() || !self.closing.is_empty(), "stuck in disabling");
            }
            State::Disabled => assert!(self.lifecycle.is_at_rest(), "off with something open"),
            State::PermanentlyFailed { .. } => {}
        }
        assert!(!needs_dial || self.dialing.is_some() || can_wait, "no way out of this state");
        let kept: BTreeSet<Generation> = self.open.difference(&self.closing).copied().collect();
        assert_eq!(kept, wanted, "what is open and not being closed must be in use");
        let most = self.policy.max_attempts.unwrap_or(u32::MAX);
        assert!(self.lifecycle.attempts() <= most, "more attempts than allowed");
    }

    /// Whatever happened: disabled, everything that was opened is closed.
    fn switch_off(&mut self) {
        self.step(Event::Disable);
        if let Some(generation) = self.dialing {
            self.step(Event::DialFailed { generation, failure: DialFailure::Aborted });
        }
        while let Some(&generation) = self.closing.first() {
            self.step(Event::Closed { generation });
        }
        assert!(self.lifecycle.is_at_rest() && self.open.is_empty() && self.dialing.is_none());
    }
}
