//! The lifecycle, tested as the value it is: `table` and `graph` print all of it, `rules` names what must hold in so
//! many words, `properties` looks for what nobody thought of.

mod describe;
mod graph;
mod properties;
mod representative;
mod rules;
mod table;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A lifecycle on the bench: time moves only when a test moves it.
#[derive(Debug, Clone)]
struct Bench {
    lifecycle: Lifecycle,
    /// Descriptions show times as distances from here.
    start: Instant,
    now: Instant,
}

/// The defaults, without jitter.
fn policy() -> Policy {
    Policy {
        backoff: Backoff::new(SECOND, 32 * SECOND, 2.0, 0.0).unwrap(),
        cooldown: Backoff::new(60 * SECOND, 300 * SECOND, 2.0, 0.0).unwrap(),
        max_attempts: Some(5),
        on_exhausted: OnExhausted::KeepProbing,
        restart: Restart::Always,
        stable_after: 10 * SECOND,
        failure_threshold: 3,
        trial: Duration::from_secs(60),
        exclusive: false,
    }
}

fn exclusive() -> Policy {
    Policy { exclusive: true, ..policy() }
}

/// The nth generation of a slot.
fn g(nth: u64) -> Generation {
    (1..nth).fold(Generation::FIRST, |generation, _| generation.next())
}

fn dial_succeeded(nth: u64) -> Event {
    Event::DialSucceeded { generation: g(nth) }
}

fn dial_failed(nth: u64, failure: DialFailure) -> Event {
    Event::DialFailed { generation: g(nth), failure }
}

fn lost(nth: u64, loss: Loss) -> Event {
    Event::Lost { generation: g(nth), loss }
}

fn doubted(nth: u64) -> Event {
    Event::Doubted { generation: g(nth) }
}

fn verdict(nth: u64, lost: bool) -> Event {
    Event::Verdict { candidate: g(nth), lost }
}

fn closed(nth: u64) -> Event {
    Event::Closed { generation: g(nth) }
}

fn health(nth: u64, budget: Budget, ok: bool) -> Event {
    Event::Health { generation: g(nth), budget, ok }
}

// === impl Bench ===

impl Bench {
    fn new(policy: Policy) -> Self {
        let start = tokio::time::Instant::now().into_std();
        Self { lifecycle: Lifecycle::new(policy, 0), start, now: start }
    }

    /// Enabled and connected as generation 1.
    fn connected(policy: Policy) -> Self {
        Self::new(policy).after([Event::Enable, dial_succeeded(1)])
    }

    fn after(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        for event in events {
            self.step(event);
        }
        self
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let (next, effects) = self.lifecycle.clone().step(event, self.now);
        self.lifecycle = next;
        effects
    }

    /// One step, its effects in words.
    fn on(&mut self, event: Event) -> String {
        describe::effects(&self.step(event))
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
    }

    /// Seconds until the next deadline.
    fn due_in(&self) -> Option<u64> {
        self.lifecycle.deadline().map(|at| at.saturating_duration_since(self.now).as_secs())
    }

    /// Sleeps until the deadline and ticks, as the driver does.
    fn tick(&mut self) -> String {
        self.now = self.lifecycle.deadline().expect("a deadline to sleep until").max(self.now);
        self.on(Event::Tick)
    }

    fn kind(&self) -> StateKind {
        self.lifecycle.state().kind()
    }

    fn current(&self) -> Option<u64> {
        self.lifecycle.current().map(Generation::get)
    }

    fn state(&self) -> String {
        describe::lifecycle(&self.lifecycle, self.start)
    }
}
