//! One example of every situation that decides differently, and everything that can happen in it.

use super::*;

/// Something that happens to a slot; several events only where it takes them to make one thing happen.
#[derive(Debug)]
pub(super) struct Stimulus {
    pub(super) label: String,
    pub(super) name: &'static str,
    /// About a generation that was closed long ago.
    pub(super) stale: bool,
    pub(super) events: Vec<Event>,
    pub(super) at: Instant,
}

/// Every slot has had a life before, as generation 1, so that there are stale events to hear from.
fn reborn(policy: Policy) -> Bench {
    Bench::connected(policy).after([Event::Disable, closed(1)])
}

pub(super) fn states() -> Vec<(&'static str, Bench)> {
    let unreachable = |nth| dial_failed(nth, DialFailure::Unreachable);
    let connecting = reborn(policy()).after([Event::Enable]);
    let unproven = connecting.clone().after([dial_succeeded(2)]);
    let mut proven = unproven.clone();
    proven.tick();
    let doubting = proven.clone().after([doubted(2)]);
    let testing = doubting.clone().after([dial_succeeded(3)]);
    let draining = testing.clone().after([verdict(3, true)]);

    let waiting = proven.clone().after([lost(2, Loss::Transport), closed(2)]);
    let mut dialing = waiting.clone();
    dialing.tick();
    let mut last_attempt = dialing.clone();
    for nth in 3..7 {
        last_attempt.step(unreachable(nth));
        last_attempt.tick();
    }
    let child = reborn(exclusive()).after([Event::Enable, dial_succeeded(2), Event::Tick]);
    let blocked = child.clone().after([lost(2, Loss::Session)]);

    let cooling = last_attempt.clone().after([unreachable(7)]);
    let mut probing = cooling.clone();
    probing.tick();

    let closing = proven.clone().after([Event::Disable]);
    let aborting = connecting.clone().after([Event::Disable]);
    let aborting_then_enable = aborting.clone().after([Event::Enable]);
    let then_enable = closing.clone().after([Event::Enable]);
    let parked =
        connecting.clone().after([dial_failed(2, DialFailure::Permanent(Reason::CommandNotFound))]);

    let refused = child.clone().after([lost(2, Loss::Auth)]);
    let reviving = refused.clone().after([Event::Enable]);

    let mut states = vec![
        ("disabled", reborn(policy())),
        ("connecting", connecting.clone()),
        ("connecting, the dial being called off", connecting.after([Event::Restart])),
        ("connecting, exclusive: waiting for a close", reviving),
        ("connected, not proven yet", unproven),
        ("connected and proven", proven),
        ("connected, in doubt: dialing", doubting),
        ("connected, in doubt: testing the candidate", testing),
        ("connected, the one before still draining", draining),
        ("reconnecting: waiting", waiting),
        ("reconnecting: dialing", dialing),
        ("reconnecting: dialing, the last quick attempt", last_attempt),
        ("reconnecting, exclusive: waiting for a close", blocked),
        ("disconnected: waiting", cooling),
        ("disconnected: dialing", probing),
        ("disabling: closing", closing),
        ("disabling: calling off a dial", aborting),
        ("disabling: closing, to be enabled again", then_enable),
        ("disabling: calling off a dial, to be enabled again", aborting_then_enable),
        ("permanently failed", parked),
        ("permanently failed, the connection still being closed", refused),
    ];
    for (_, bench) in &mut states {
        bench.start = bench.now;
    }
    states
}

/// Everything that can happen, each spoken for the generation it would really come from.
pub(super) fn stimuli(bench: &Bench) -> Vec<Stimulus> {
    let (lifecycle, now) = (&bench.lifecycle, bench.now);
    let newest = lifecycle.newest.unwrap();
    let live = Speakers {
        current: lifecycle.current().unwrap_or(newest),
        dial: lifecycle.dial.map_or(newest, |dial| dial.generation),
        candidate: lifecycle.candidate().unwrap_or(newest),
        closing: lifecycle.closing.first().copied().unwrap_or(newest),
    };
    let old = Generation::FIRST;
    let stale = Speakers { current: old, dial: old, candidate: old, closing: old };

    let commands = [Event::Enable, Event::Disable, Event::Restart, Event::Demand];
    let mut all: Vec<Stimulus> = commands.map(|event| Stimulus::new(event, now)).into();
    all.push(Stimulus::new(Event::Demand, now + 40 * SECOND).labelled("demand 40s later"));
    all.push(Stimulus::new(Event::Tick, now));
    if let Some(at) = lifecycle.deadline() {
        all.push(Stimulus::new(Event::Tick, at).labelled("tick at the deadline"));
    }
    all.extend(live.events().into_iter().map(|event| Stimulus::new(event, now)));
    for budget in [Budget::Discovery, Budget::Rpc] {
        let failed = Event::Health { generation: live.current, budget, ok: false };
        let label = format!("third {}", describe::event(&failed));
        let third = Stimulus::new(failed, now).labelled(&label);
        all.push(Stimulus { events: vec![failed; 3], ..third });
    }
    all.extend(stale.events().into_iter().map(|event| {
        let label = format!("stale {}", describe::event(&event));
        Stimulus { stale: true, ..Stimulus::new(event, now).labelled(&label) }
    }));
    all
}

/// Whom the events of connections come from.
struct Speakers {
    current: Generation,
    dial: Generation,
    candidate: Generation,
    closing: Generation,
}

// === impl Speakers ===

impl Speakers {
    fn events(&self) -> Vec<Event> {
        let generation = self.dial;
        let mut events = vec![Event::DialSucceeded { generation }];
        let failures = [
            DialFailure::Unreachable,
            DialFailure::Exited,
            DialFailure::Refused,
            DialFailure::Permanent(Reason::CommandNotFound),
            DialFailure::Aborted,
        ];
        events.extend(failures.map(|failure| Event::DialFailed { generation, failure }));
        let generation = self.current;
        let losses = [
            Loss::Session,
            Loss::Transport,
            Loss::Exited { clean: false },
            Loss::Exited { clean: true },
            Loss::Auth,
        ];
        events.extend(losses.map(|loss| Event::Lost { generation, loss }));
        events.push(Event::Doubted { generation });
        let candidate = self.candidate;
        events.extend([true, false].map(|lost| Event::Verdict { candidate, lost }));
        events.push(Event::Closed { generation: self.closing });
        for budget in [Budget::Discovery, Budget::Rpc] {
            events.extend([true, false].map(|ok| Event::Health { generation, budget, ok }));
        }
        events
    }
}

// === impl Stimulus ===

impl Stimulus {
    fn new(event: Event, at: Instant) -> Self {
        let label = describe::event(&event);
        Self { label, name: event.name(), stale: false, events: vec![event], at }
    }

    fn labelled(self, label: &str) -> Self {
        Self { label: label.to_owned(), ..self }
    }

    /// Events of one name, or all that are stale.
    pub(super) fn family(&self) -> &'static str {
        if self.stale { "everything about g1" } else { self.name }
    }

    /// What becomes of the slot, and everything it wants done.
    pub(super) fn apply(&self, bench: &Bench) -> (Bench, Vec<Effect>) {
        let mut bench = Bench { now: self.at, ..bench.clone() };
        let effects = self.events.iter().flat_map(|event| bench.step(*event)).collect();
        (bench, effects)
    }
}
