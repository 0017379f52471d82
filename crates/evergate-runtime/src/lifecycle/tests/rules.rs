//! The rules by name. Effects are compared in the words of `describe`.

mod doubt;
mod switching;

use std::collections::HashSet;

use super::*;

const UNREACHABLE: DialFailure = DialFailure::Unreachable;

/// Ticks and fails until the next delay is known; seconds.
fn next_delay(bench: &mut Bench) -> (StateKind, u64) {
    let generation = bench.lifecycle.dial.unwrap().generation;
    bench.step(Event::DialFailed { generation, failure: UNREACHABLE });
    let delay = (bench.kind(), bench.due_in().unwrap());
    bench.tick();
    delay
}

#[test]
fn transport_loss_backs_off_then_probes_slowly_for_ever() {
    use StateKind::{Disconnected, Reconnecting};
    let mut bench = Bench::new(policy()).after([Event::Enable]);
    let delays: Vec<_> = (0..10).map(|_| next_delay(&mut bench)).collect();
    let quick = [1, 2, 4, 8, 16].map(|seconds| (Reconnecting, seconds));
    let slow = [60, 120, 240, 300, 300].map(|seconds| (Disconnected, seconds));
    assert_eq!(delays, [quick, slow].concat());
}

#[test]
fn without_a_limit_attempts_stay_quick() {
    let mut bench = Bench::new(Policy { max_attempts: None, ..policy() }).after([Event::Enable]);
    let last = (0..50).map(|_| next_delay(&mut bench)).last();
    assert_eq!(last, Some((StateKind::Reconnecting, 32)));
}

#[test]
fn on_exhausted_fail_parks() {
    let mut bench = Bench::new(Policy { on_exhausted: OnExhausted::Fail, ..policy() });
    bench.step(Event::Enable);
    for _ in 0..5 {
        next_delay(&mut bench);
    }
    assert_eq!(bench.on(dial_failed(6, UNREACHABLE)), "drop catalog");
    assert_eq!(bench.state(), "permanently_failed (attempts_exhausted); attempts 5");
}

#[test]
fn session_loss_renews_at_once_but_only_once_before_it_is_proven() {
    let mut bench = Bench::connected(policy());
    assert_eq!(bench.on(lost(1, Loss::Session)), "drain g1, dial g2");
    bench.step(dial_succeeded(2));
    assert_eq!(bench.on(lost(2, Loss::Session)), "drain g2");
    assert_eq!((bench.kind(), bench.due_in()), (StateKind::Reconnecting, Some(1)));
    assert_eq!(bench.tick(), "dial g3");

    bench.step(dial_succeeded(3));
    bench.tick();
    assert_eq!(bench.on(lost(3, Loss::Session)), "drain g3, dial g4", "proven in between");
}

#[test]
fn backoff_starts_over_only_once_the_connection_has_held() {
    let mut bench = Bench::connected(Policy { max_attempts: Some(1), ..policy() });
    bench.step(lost(1, Loss::Session));
    for _ in 0..3 {
        next_delay(&mut bench);
    }
    bench.step(dial_succeeded(5));
    let counters =
        |bench: &Bench| (bench.lifecycle.attempts, bench.lifecycle.probes, bench.lifecycle.renewed);
    bench.wait(9 * SECOND);
    bench.step(Event::Tick);
    assert_eq!(counters(&bench), (1, 2, true), "too early");
    bench.tick();
    assert_eq!(counters(&bench), (0, 0, false));
    assert_eq!(bench.due_in(), None);
}

#[test]
fn a_flapping_server_keeps_backing_off() {
    let mut bench = Bench::connected(policy());
    let mut delays = Vec::new();
    for nth in 1..=7 {
        bench.step(lost(nth, Loss::Transport));
        delays.push(bench.due_in().unwrap());
        bench.tick();
        bench.step(dial_succeeded(nth + 1));
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 60, 120]);
}

#[test]
fn permanent_failures_park_and_only_enable_or_restart_revives() {
    let reasons = [Reason::AuthRequired, Reason::CommandNotFound, Reason::UnsupportedProtocol];
    for reason in reasons {
        let failed = dial_failed(1, DialFailure::Permanent(reason));
        let mut bench = Bench::new(policy()).after([Event::Enable]);
        assert_eq!(bench.on(failed), "drop catalog");
        assert_eq!(bench.lifecycle.reason(), reason);
        assert_eq!(bench.due_in(), None);
        bench.wait(1000 * SECOND);
        for event in [Event::Demand, Event::Tick, dial_succeeded(1), failed] {
            assert_eq!(bench.on(event), "", "{event:?}");
            assert_eq!(bench.kind(), StateKind::PermanentlyFailed, "{event:?}");
        }
        for event in [Event::Enable, Event::Restart] {
            assert_eq!(bench.clone().on(event), "dial g2", "{event:?}");
        }
        assert_eq!(bench.clone().after([Event::Disable]).kind(), StateKind::Disabled);
    }
    let mut bench = Bench::connected(policy());
    assert_eq!(bench.on(lost(1, Loss::Auth)), "drain g1, drop catalog");
    assert_eq!(bench.lifecycle.reason(), Reason::AuthRequired);
}

#[test]
fn the_restart_policy_decides_about_everything_but_sessions() {
    use Restart::{Always, Never, OnFailure};
    let exited = |clean| Loss::Exited { clean };
    let cases = [
        (Never, exited(true), false),
        (Never, exited(false), false),
        (Never, Loss::Transport, false),
        (Never, Loss::Session, true),
        (OnFailure, exited(true), false),
        (OnFailure, exited(false), true),
        (OnFailure, Loss::Transport, true),
        (OnFailure, Loss::Session, true),
        (Always, exited(true), true),
        (Always, exited(false), true),
        (Always, Loss::Transport, true),
        (Always, Loss::Session, true),
    ];
    for (restart, loss, restarts) in cases {
        for exclusive in [true, false] {
            let policy = Policy { restart, exclusive, ..policy() };
            let bench = Bench::connected(policy).after([lost(1, loss)]);
            let parked = State::PermanentlyFailed { reason: Reason::NotRestarted };
            let expected = if restarts { StateKind::Reconnecting } else { parked.kind() };
            assert_eq!(bench.kind(), expected, "{restart:?}, {loss:?}");
            assert_eq!(*bench.lifecycle.state() == parked, !restarts, "{restart:?}, {loss:?}");
        }
    }
}

#[test]
fn the_longer_a_server_is_gone_the_less_often_calls_have_it_looked_for() {
    let policy = Policy { max_attempts: Some(0), ..policy() };
    let mut bench = Bench::connected(policy).after([lost(1, Loss::Transport)]);
    let lost_at = bench.now;
    // Gone for so long, and looked for again after so long, in seconds.
    let cases = [(5, 1), (10, 1), (40, 4), (200, 20), (100_000, 32)];
    for (generation, (gone, pause)) in (2..).zip(cases) {
        bench.wait((lost_at + gone * SECOND).duration_since(bench.now));
        bench.step(Event::Demand);
        bench.step(dial_failed(generation, UNREACHABLE));
        assert_eq!(bench.kind(), StateKind::Disconnected);
        let earliest = bench.lifecycle.earliest_attempt_at().unwrap();
        assert_eq!(earliest.duration_since(bench.now), pause * SECOND, "gone for {gone} s");
    }
}

#[test]
fn demand_pulls_a_slow_probe_forward_but_does_not_hammer() {
    let mut bench = Bench::new(Policy { max_attempts: Some(0), ..policy() }).after([Event::Enable]);
    bench.wait(SECOND);
    bench.step(dial_failed(1, UNREACHABLE));
    assert_eq!((bench.kind(), bench.due_in()), (StateKind::Disconnected, Some(60)));
    let earliest = bench.lifecycle.earliest_attempt_at();
    assert_eq!(earliest, Some(bench.start + 4 * SECOND), "4 s after the dial began");

    assert_eq!(bench.on(Event::Demand), "");
    assert_eq!(bench.lifecycle.next_attempt_at(), earliest);
    assert_eq!(bench.on(Event::Demand), "", "asking twice changes nothing");
    assert_eq!(bench.tick(), "dial g2");

    bench.step(dial_failed(2, UNREACHABLE));
    assert_eq!(bench.due_in(), Some(120));
    bench.wait(40 * SECOND);
    assert_eq!(bench.on(Event::Demand), "dial g3", "waited long enough already");
    assert_eq!(bench.on(Event::Demand), "", "under way");
}

#[test]
fn demand_pulls_a_quick_attempt_forward_and_what_was_planned_stays_planned() {
    let mut bench = Bench::connected(policy()).after([lost(1, Loss::Transport)]);
    bench.tick();
    bench.step(dial_failed(2, UNREACHABLE));
    bench.tick();
    bench.step(dial_failed(3, UNREACHABLE));
    let (planned, attempts) = (bench.lifecycle.next_attempt_at(), bench.lifecycle.attempts());
    assert_eq!((bench.due_in(), attempts), (Some(4), 3));
    assert_eq!(bench.on(Event::Demand), "");
    assert_eq!(bench.due_in(), Some(1), "not more often than the shortest delay");
    assert_eq!(bench.tick(), "dial g4");
    bench.step(dial_failed(4, UNREACHABLE));
    assert_eq!(bench.lifecycle.next_attempt_at(), planned);
    assert_eq!(bench.lifecycle.attempts(), attempts, "it was an extra one");
}

#[test]
fn attempts_that_calls_ask_for_are_not_evenly_spaced() {
    let backoff = Backoff::new(SECOND, 16 * SECOND, 2.0, 1.0).unwrap();
    let policy = Policy { backoff, max_attempts: Some(0), ..policy() };
    let mut bench = Bench::connected(policy).after([lost(1, Loss::Transport)]);
    let mut pauses = HashSet::new();
    for generation in 2..12 {
        bench.step(Event::Demand);
        let before = bench.now;
        bench.tick();
        pauses.insert(bench.now - before);
        bench.step(dial_failed(generation, UNREACHABLE));
    }
    assert!(pauses.iter().all(|pause| (SECOND / 2..=SECOND).contains(pause)), "{pauses:?}");
    assert!(pauses.len() > 8, "{pauses:?}");
}

#[test]
fn three_failures_in_a_row_in_one_budget_condemn_a_connection() {
    for (budget, other) in [(Budget::Rpc, Budget::Discovery), (Budget::Discovery, Budget::Rpc)] {
        let (bad, good) = (health(1, budget, false), health(1, budget, true));
        let (other_bad, other_good) = (health(1, other, false), health(1, other, true));
        let cases = [
            (vec![bad, bad], false),
            (vec![bad, bad, bad], true),
            (vec![bad, bad, good, bad, bad], false),
            (vec![bad, bad, other_good, bad], true),
            (vec![bad, bad, other_bad, other_bad], false),
        ];
        for (events, condemned) in cases {
            let bench = Bench::connected(policy()).after(events.clone());
            assert_eq!(bench.current().is_none(), condemned, "{events:?}");
            if condemned {
                assert_eq!(bench.lifecycle.reason(), Reason::Unresponsive);
            }
        }
    }
}

#[test]
fn a_new_connection_starts_with_clean_budgets() {
    let failed = [health(1, Budget::Rpc, false), health(1, Budget::Discovery, false)];
    let mut bench = Bench::connected(policy()).after(failed);
    bench.step(lost(1, Loss::Session));
    bench.step(dial_succeeded(2));
    assert_eq!(bench.lifecycle.failures(), Failures::default());
    bench.step(health(1, Budget::Rpc, false));
    assert_eq!(bench.lifecycle.failures(), Failures::default(), "a late failure of the old one");
}
