//! What the commands do: disable wins over everything, enable waits for its end, restart replaces.

use super::*;

#[test]
fn disable_ends_a_backoff_at_once() {
    let mut bench = Bench::connected(policy()).after([lost(1, Loss::Transport), closed(1)]);
    assert_eq!(bench.on(Event::Disable), "drop catalog");
    assert_eq!((bench.kind(), bench.due_in()), (StateKind::Disabled, None));
}

#[test]
fn disable_calls_a_connect_off() {
    let mut bench = Bench::new(policy()).after([Event::Enable]);
    assert_eq!(bench.on(Event::Disable), "abort g1, drop catalog");
    assert_eq!(bench.kind(), StateKind::Disabling);
    assert_eq!(bench.on(Event::Disable), "", "asking twice changes nothing");
    assert_eq!(bench.on(dial_failed(1, DialFailure::Aborted)), "");
    assert_eq!(bench.kind(), StateKind::Disabled);
}

#[test]
fn a_connect_that_finishes_after_a_disable_is_closed_and_never_installed() {
    let mut bench = Bench::new(policy()).after([Event::Enable, Event::Disable]);
    assert_eq!(bench.on(dial_succeeded(1)), "close g1");
    assert_eq!(bench.kind(), StateKind::Disabling);
    assert_eq!(bench.on(closed(1)), "");
    assert_eq!(bench.kind(), StateKind::Disabled);
}

#[test]
fn a_connect_that_lost_the_race_is_closed_even_if_enabled_again() {
    let mut bench = Bench::new(policy()).after([Event::Enable, Event::Disable, Event::Enable]);
    assert_eq!(bench.on(dial_succeeded(1)), "close g1");
    assert_eq!(bench.on(closed(1)), "dial g2");
    assert_eq!(bench.kind(), StateKind::Connecting);
}

#[test]
fn disable_cuts_short_what_was_left_to_drain() {
    let mut bench = Bench::connected(policy()).after([Event::Restart, dial_succeeded(2)]);
    assert_eq!(bench.on(Event::Disable), "close g2, close g1, drop catalog");
    bench.step(closed(1));
    assert_eq!(bench.kind(), StateKind::Disabling);
    bench.step(closed(2));
    assert_eq!(bench.kind(), StateKind::Disabled);
}

#[test]
fn disable_in_doubt_closes_both() {
    let doubting = Bench::connected(policy()).after([doubted(1)]);
    assert_eq!(doubting.clone().on(Event::Disable), "close g1, abort g2, drop catalog");
    let mut testing = doubting.after([dial_succeeded(2)]);
    assert_eq!(testing.on(Event::Disable), "close g1, close g2, drop catalog");
}

#[test]
fn enable_while_disabling_connects_once_all_is_closed() {
    let mut bench = Bench::connected(policy()).after([Event::Disable, Event::Enable]);
    assert_eq!(bench.kind(), StateKind::Disabling);
    assert_eq!(bench.clone().on(closed(1)), "dial g2");

    bench.step(Event::Disable);
    assert_eq!(bench.on(closed(1)), "", "the last command counts");
    assert_eq!(bench.kind(), StateKind::Disabled);
}

#[test]
fn restart_replaces_a_remote_server_at_once_and_drains_the_old_connection() {
    let mut bench = Bench::connected(policy());
    assert_eq!(bench.on(Event::Restart), "drain g1, dial g2");
    assert_eq!(bench.on(dial_succeeded(2)), "install g2");
    assert_eq!(bench.on(closed(1)), "");
    assert_eq!(bench.current(), Some(2));
}

#[test]
fn restart_of_an_exclusive_server_waits_for_the_close() {
    let mut bench = Bench::connected(exclusive());
    assert_eq!(bench.on(Event::Restart), "close g1");
    assert_eq!((bench.kind(), bench.due_in()), (StateKind::Reconnecting, None));
    assert_eq!(bench.on(Event::Tick), "");
    assert_eq!(bench.on(closed(1)), "dial g2");
}

#[test]
fn an_exclusive_backoff_that_ends_before_the_close_waits_for_it() {
    let mut bench = Bench::connected(exclusive()).after([lost(1, Loss::Transport)]);
    assert_eq!(bench.tick(), "");
    assert_eq!(bench.on(closed(1)), "dial g2");
}

#[test]
fn restart_while_connecting_dials_again_when_the_first_dial_has_ended() {
    for ended in [dial_failed(1, UNREACHABLE), dial_failed(1, DialFailure::Aborted)] {
        let mut bench = Bench::new(policy()).after([Event::Enable]);
        assert_eq!(bench.on(Event::Restart), "abort g1");
        assert_eq!(bench.on(Event::Restart), "", "asking twice changes nothing");
        assert_eq!(bench.on(ended), "dial g2");
        assert_eq!(bench.lifecycle.attempts(), 0, "no attempt was spent");
    }
    let mut bench = Bench::new(policy()).after([Event::Enable, Event::Restart]);
    assert_eq!(bench.on(dial_succeeded(1)), "close g1, dial g2");
}

#[test]
fn restart_ends_any_wait_and_starts_the_counting_over() {
    let mut bench = Bench::new(policy()).after([Event::Enable]);
    for _ in 0..6 {
        next_delay(&mut bench);
    }
    bench.step(dial_failed(7, UNREACHABLE));
    assert_eq!(bench.kind(), StateKind::Disconnected);
    assert_eq!(bench.on(Event::Restart), "dial g8");
    assert_eq!(bench.state(), "reconnecting (requested); dialing g8");
}

#[test]
fn restart_leaves_a_slot_off_that_is_off() {
    let mut off = Bench::new(policy());
    assert_eq!((off.on(Event::Restart), off.kind()), (String::new(), StateKind::Disabled));
    let mut going_off = Bench::connected(policy()).after([Event::Disable]);
    assert_eq!(going_off.on(Event::Restart), "");
    going_off.step(closed(1));
    assert_eq!(going_off.kind(), StateKind::Disabled);
}
