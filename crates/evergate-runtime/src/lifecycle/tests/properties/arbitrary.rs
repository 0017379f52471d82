//! Policies, waits and events to draw from.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

pub(super) fn any_policy() -> impl Strategy<Value = Policy> {
    (
        any::<bool>(),
        select(vec![Restart::Never, Restart::OnFailure, Restart::Always]),
        select(vec![OnExhausted::KeepProbing, OnExhausted::Fail]),
        proptest::option::of(0..4_u32),
        1..4_u32,
        select(vec![0.0, 1.0]),
    )
        .prop_map(
            |(exclusive, restart, on_exhausted, max_attempts, failure_threshold, jitter)| Policy {
                backoff: Backoff::new(SECOND, 32 * SECOND, 2.0, jitter).unwrap(),
                cooldown: Backoff::new(60 * SECOND, 300 * SECOND, 2.0, jitter).unwrap(),
                max_attempts,
                on_exhausted,
                restart,
                failure_threshold,
                trial: Duration::from_secs(60),
                exclusive,
                ..policy()
            },
        )
}

/// No time at all, any time, or exactly until the deadline.
pub(super) fn any_wait(bench: &Bench) -> impl Strategy<Value = Duration> + use<> {
    let until_due = bench
        .lifecycle
        .deadline()
        .map_or(Duration::ZERO, |at| at.saturating_duration_since(bench.now));
    prop_oneof![
        3 => Just(Duration::ZERO),
        2 => Just(until_due),
        1 => (0..400_000_u64).prop_map(Duration::from_millis),
    ]
}

/// Mostly what could really happen now, so that runs get somewhere, and often enough something out of place: an old
/// generation, one that never was, the end of what is not under way.
pub(super) fn any_event(lifecycle: &Lifecycle) -> impl Strategy<Value = Event> + use<> {
    let newest = lifecycle.newest.map_or(0, Generation::get);
    let any_generation = (1..newest + 2).prop_map(g).boxed();
    let mostly = |live: Option<Generation>| match live {
        Some(live) => prop_oneof![4 => Just(live), 1 => any_generation.clone()].boxed(),
        None => any_generation.clone(),
    };
    let dial = mostly(lifecycle.dial.map(|dial| dial.generation));
    let current = mostly(lifecycle.current());
    let candidate = mostly(lifecycle.candidate());
    let closing = mostly(lifecycle.closing.first().copied());

    let dial_failed = (dial.clone(), any_failure())
        .prop_map(|(generation, failure)| Event::DialFailed { generation, failure });
    let lost = (current.clone(), any_loss())
        .prop_map(|(generation, loss)| Event::Lost { generation, loss });
    let health =
        (current.clone(), any::<bool>(), any::<bool>()).prop_map(|(generation, discovery, ok)| {
            let budget = if discovery { Budget::Discovery } else { Budget::Rpc };
            Event::Health { generation, budget, ok }
        });
    prop_oneof![
        3 => Just(Event::Enable),
        1 => Just(Event::Disable),
        1 => Just(Event::Restart),
        1 => Just(Event::Demand),
        4 => Just(Event::Tick),
        6 => dial.prop_map(|generation| Event::DialSucceeded { generation }),
        3 => dial_failed,
        2 => lost,
        3 => current.prop_map(|generation| Event::Doubted { generation }),
        3 => (candidate, any::<bool>())
            .prop_map(|(candidate, lost)| Event::Verdict { candidate, lost }),
        3 => closing.prop_map(|generation| Event::Closed { generation }),
        3 => health,
    ]
}

fn any_failure() -> impl Strategy<Value = DialFailure> {
    prop_oneof![
        4 => Just(DialFailure::Unreachable),
        1 => Just(DialFailure::Exited),
        2 => Just(DialFailure::Refused),
        1 => Just(DialFailure::Permanent(Reason::AuthRequired)),
        1 => Just(DialFailure::Aborted),
    ]
}

fn any_loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        3 => Just(Loss::Session),
        3 => Just(Loss::Transport),
        1 => any::<bool>().prop_map(|clean| Loss::Exited { clean }),
        1 => Just(Loss::Auth),
    ]
}
