//! What happens when only a second handshake can tell whether a session was lost.

use super::*;

fn doubting() -> Bench {
    Bench::connected(policy()).after([doubted(1)])
}

fn testing() -> Bench {
    doubting().after([dial_succeeded(2)])
}

#[test]
fn a_doubt_dials_beside_the_connection_in_use() {
    let mut bench = Bench::connected(policy());
    assert_eq!(bench.on(doubted(1)), "dial g2");
    assert_eq!(bench.on(doubted(1)), "", "one handshake for all who doubt");
    assert_eq!(bench.current(), Some(1));
    assert_eq!(bench.on(dial_succeeded(2)), "offer g2");
    assert_eq!(bench.current(), Some(1), "it serves until the verdict");
    assert_eq!(bench.on(doubted(1)), "");
}

#[test]
fn an_exclusive_server_cannot_be_doubted() {
    assert_eq!(Bench::connected(exclusive()).on(doubted(1)), "");
}

#[test]
fn verdict_lost_installs_the_candidate_and_drains_the_old_connection() {
    let mut bench = testing();
    assert_eq!(bench.on(verdict(2, true)), "drain g1, install g2");
    assert_eq!(bench.current(), Some(2));
    assert_eq!(bench.on(verdict(2, false)), "", "the first verdict counts");
}

#[test]
fn verdict_not_lost_closes_the_candidate_only() {
    let mut bench = testing();
    assert_eq!(bench.on(verdict(2, false)), "close g2");
    assert_eq!((bench.current(), bench.lifecycle.is_in_doubt()), (Some(1), false));
    assert_eq!(bench.on(doubted(1)), "dial g3", "it may be doubted again");
}

#[test]
fn a_certain_loss_in_doubt_adopts_the_handshake_under_way() {
    for loss in [Loss::Session, Loss::Transport, Loss::Exited { clean: false }] {
        let mut bench = doubting();
        assert_eq!(bench.on(lost(1, loss)), "drain g1", "{loss:?}");
        assert_eq!((bench.kind(), bench.due_in()), (StateKind::Reconnecting, None));
        assert_eq!(bench.on(dial_succeeded(2)), "install g2");

        let mut bench = testing();
        assert_eq!(bench.on(lost(1, loss)), "drain g1, install g2", "{loss:?}");
        assert_eq!(bench.current(), Some(2));
    }
}

#[test]
fn refused_credentials_in_doubt_give_up_both() {
    assert_eq!(doubting().on(lost(1, Loss::Auth)), "drain g1, abort g2, drop catalog");
    assert_eq!(testing().on(lost(1, Loss::Auth)), "drain g1, close g2, drop catalog");
}

#[test]
fn an_unreachable_second_handshake_loses_the_first() {
    let mut bench = doubting();
    assert_eq!(bench.on(dial_failed(2, UNREACHABLE)), "drain g1");
    assert_eq!((bench.kind(), bench.due_in()), (StateKind::Reconnecting, Some(1)));
}

#[test]
fn a_refused_second_handshake_leaves_the_first_in_use() {
    let refusals =
        [DialFailure::Refused, DialFailure::Permanent(Reason::AuthRequired), DialFailure::Aborted];
    for failure in refusals {
        let mut bench = doubting();
        assert_eq!(bench.on(dial_failed(2, failure)), "", "{failure:?}");
        assert_eq!((bench.current(), bench.lifecycle.is_in_doubt()), (Some(1), false));
    }
}

#[test]
fn restart_in_doubt_drops_both() {
    let mut bench = doubting();
    assert_eq!(bench.on(Event::Restart), "drain g1, abort g2");
    assert_eq!(bench.on(dial_succeeded(2)), "close g2, dial g3");
    assert_eq!(testing().on(Event::Restart), "drain g1, close g2, dial g3");
}
