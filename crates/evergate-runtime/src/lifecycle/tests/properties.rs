//! Any events, in any order, at any time, under any policy.
//!
//! The reference is a [`Ledger`] that believes nothing but effects: what was dialed, opened, installed and closed, as
//! a driver would know it. The machine may decide as it likes as long as the books balance, nothing leaks, and there
//! is always a way on and a way out.

mod arbitrary;
mod ledger;

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use self::arbitrary::{any_event, any_policy, any_wait};
use self::ledger::Ledger;
use super::graph::{Edge, edges};
use super::*;

/// The graph shows examples; whatever happens here must be in it too, or it would not show all there is.
static EDGES: LazyLock<Vec<Edge>> = LazyLock::new(edges);

prop_state_machine! {
    // Failing seeds are kept in `proptest-regressions/`, which is committed. `PROPTEST_CASES` asks for more.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(512)))]

    #[test]
    fn the_books_always_balance(sequential 1..=60 => AnyOrder);
}

struct AnyOrder;

/// What the test knows: the books, and a twin of the machine that says which generations are worth talking about.
#[derive(Debug, Clone)]
struct World {
    bench: Bench,
    ledger: Ledger,
}

#[derive(Debug, Clone)]
struct Happening {
    after: Duration,
    event: Event,
}

// === impl World ===

impl ReferenceStateMachine for World {
    type State = Self;
    type Transition = Happening;

    fn init_state() -> BoxedStrategy<Self> {
        (any_policy(), any::<u64>())
            .prop_map(|(policy, seed)| {
                let lifecycle = Lifecycle::new(policy, seed);
                let bench = Bench { lifecycle, ..Bench::new(policy) };
                Self { bench, ledger: Ledger::new(policy.exclusive) }
            })
            .boxed()
    }

    fn transitions(world: &Self) -> BoxedStrategy<Happening> {
        (any_wait(&world.bench), any_event(&world.bench.lifecycle))
            .prop_map(|(after, event)| Happening { after, event })
            .boxed()
    }

    fn apply(mut world: Self, happening: &Happening) -> Self {
        world.bench.wait(happening.after);
        let effects = world.bench.step(happening.event);
        world.ledger.enter(happening.event, &effects);
        world
    }
}

// === impl AnyOrder ===

impl StateMachineTest for AnyOrder {
    type SystemUnderTest = Bench;
    type Reference = World;

    fn init_test(world: &World) -> Bench {
        world.bench.clone()
    }

    fn apply(mut bench: Bench, world: &World, happening: Happening) -> Bench {
        let before = bench.clone();
        bench.wait(happening.after);
        let effects = bench.step(happening.event);

        assert_eq!(bench.state(), world.bench.state(), "the same events, another outcome");
        let edge = Edge::between(&before, &bench, happening.event.name());
        assert!(edge.is_none_or(|edge| EDGES.contains(&edge)), "not in the graph: {edge:?}");
        if speaks_for_the_past(&before.lifecycle, happening.event) {
            let mut expected = before.lifecycle.clone();
            if let Event::Closed { generation } = happening.event {
                expected.closing.remove(&generation);
            }
            let expected = describe::lifecycle(&expected, before.start);
            assert_eq!((bench.state(), &*effects), (expected, &[][..]), "the past had an effect");
        }
        if before.kind() == StateKind::Disabled && happening.event != Event::Enable {
            assert_eq!((bench.state(), &*effects), (before.state(), &[][..]), "off is not off");
        }
        if effects.iter().any(|effect| matches!(effect, Effect::Install { .. })) {
            assert_eq!(bench.lifecycle.failures, Failures::default(), "inherited failures");
        }
        bench
    }

    fn check_invariants(bench: &Bench, world: &World) {
        let (lifecycle, ledger) = (&bench.lifecycle, &world.ledger);
        ledger.check(lifecycle);
        let wanted_dial = lifecycle.dial.is_some_and(|dial| !dial.aborted);
        match bench.kind() {
            StateKind::Connected => {
                let Failures { discovery, rpc } = lifecycle.failures();
                let threshold = lifecycle.policy.failure_threshold;
                assert!(discovery.max(rpc) < threshold, "condemned but in use");
            }
            StateKind::Disabled => {
                assert!(lifecycle.is_at_rest() && ledger.is_empty(), "off, but something is open");
            }
            StateKind::Disabling => {
                assert!(!wanted_dial && !ledger.is_draining(), "going off, but takes its time");
            }
            StateKind::PermanentlyFailed => assert!(!wanted_dial, "parked, but dialing"),
            // On their way; `recovers` sees to it that there is one.
            StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected => {}
        }
        recovers(bench.clone());
        switches_off(bench, ledger);
    }
}

/// Whether the event is about a generation before the one in use.
fn speaks_for_the_past(lifecycle: &Lifecycle, event: Event) -> bool {
    let Some(current) = lifecycle.current() else { return false };
    match event {
        Event::DialSucceeded { generation }
        | Event::DialFailed { generation, .. }
        | Event::Lost { generation, .. }
        | Event::Doubted { generation }
        | Event::Closed { generation }
        | Event::Health { generation, .. }
        | Event::Verdict { candidate: generation, .. } => generation < current,
        Event::Enable | Event::Disable | Event::Restart | Event::Demand | Event::Tick => false,
    }
}

/// Once every dial succeeds and every close ends, a slot that is on connects, and one that is going off arrives
/// there. Nobody has to send a command.
fn recovers(mut bench: Bench) {
    let parked = bench.kind() == StateKind::PermanentlyFailed;
    // Enough to end a dial that was called off and everything a long test left draining.
    for _ in 0..100 {
        if parked || matches!(bench.kind(), StateKind::Connected | StateKind::Disabled) {
            return;
        }
        if let Some(event) = next_end(&bench.lifecycle, true) {
            bench.step(event);
        } else {
            assert!(bench.lifecycle.deadline().is_some(), "wedged: {}", bench.state());
            bench.tick();
        }
    }
    panic!("never gets anywhere: {}", bench.state());
}

/// From anywhere, `Disable` leads to `Disabled` as soon as what is open has ended, however the dial ends, with every
/// connection closed on the way.
fn switches_off(bench: &Bench, ledger: &Ledger) {
    for dial_succeeds in [true, false] {
        let (mut bench, mut ledger) = (bench.clone(), ledger.clone());
        ledger.enter(Event::Disable, &bench.step(Event::Disable));
        while let Some(event) = next_end(&bench.lifecycle, dial_succeeds) {
            ledger.enter(event, &bench.step(event));
        }
        assert_eq!(bench.kind(), StateKind::Disabled);
        ledger.check(&bench.lifecycle);
        assert!(ledger.is_empty(), "off, but something is open");
    }
}

/// The end of whatever is under way.
fn next_end(lifecycle: &Lifecycle, dial_succeeds: bool) -> Option<Event> {
    let closing = lifecycle.closing.last().map(|&generation| Event::Closed { generation });
    let dial = lifecycle.dial.map(|Dial { generation, .. }| {
        if dial_succeeds {
            Event::DialSucceeded { generation }
        } else {
            Event::DialFailed { generation, failure: DialFailure::Aborted }
        }
    });
    dial.or(closing)
}
