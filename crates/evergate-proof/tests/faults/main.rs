//! Every cell of the fault matrix with Evergate, in the short form and with every mix of revisions: nothing lost, nothing executed twice, nothing left
//! unclear, and a client that never has to say hello again.
//!
//! Needs `./scripts/install-peers`, and the gateway itself: `cargo build -p evergate` first, or test the whole workspace.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

use std::path::PathBuf;
use std::sync::LazyLock;

use evergate_proof::faults::cell::Cell;
use evergate_proof::faults::mix::Mix;
use evergate_proof::faults::pace::Pace;
use evergate_proof::faults::results::{Outcome, Way};
use evergate_proof::faults::scenario::Scenario;
use evergate_proof::faults::verdict::Grade;
use evergate_proof::product::{Places, Product};
use tokio::sync::Semaphore;

mod interrupt;

/// Cells mostly wait, but each has a Node process that takes a while to start.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(6));

pub(crate) fn places() -> Places {
    let peers = std::env::var_os("EVERGATE_PEERS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers")),
        PathBuf::from,
    );
    let test = std::env::current_exe().unwrap();
    let mut around = test.ancestors().skip(1).take(3).map(|folder| folder.join("evergate"));
    let evergate = around.find(|path| path.is_file());
    Places { evergate: evergate.expect("evergate is not built: cargo build -p evergate"), peers }
}

/// Plays a cell with Evergate. It must be perfect, unless there is a reason why it cannot be played.
async fn assert_perfect(scenario: Scenario, way: Way, mix: Mix) {
    let _turn = TURNS.acquire().await.unwrap();
    let cell = Cell { product: Product::Evergate, scenario, way, mix };
    let outcome = cell.play(Pace::SHORT, &places()).await;
    if let Some(why) = ruled_out(scenario, way, mix) {
        assert_eq!(outcome, Outcome::NotApplicable(why.to_owned()));
        return;
    }
    let mix = mix.name();
    let Outcome::Ran(tally) = &outcome else { panic!("{mix}: {outcome:?}") };
    assert_eq!((tally.lost, tally.twice, tally.ambiguous), (0, 0, 0), "{mix}: {tally:#?}");
    assert_eq!((tally.reinitialized, tally.orphans, tally.blinks), (0, 0, 0), "{mix}: {tally:#?}");
    assert_eq!(tally.grade, Grade::Perfect, "{mix}: {tally:#?}");
    assert!(tally.calls > 0, "{mix}: {tally:#?}");
}

fn ruled_out(scenario: Scenario, way: Way, mix: Mix) -> Option<&'static str> {
    scenario.rules_out(mix).or(mix.rules_out(way.transport()))
}

/// With every mix of revisions, side by side: cells mostly wait.
async fn assert_perfect_with_every_mix(scenario: Scenario, way: Way) {
    let cells = Mix::ALL.iter().map(|mix| assert_perfect(scenario, way, *mix));
    futures_util::future::join_all(cells).await;
}

/// One test per scenario and transport.
macro_rules! cells {
    ($($test:ident: $scenario:ident, $way:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs scripts/install-peers; ./scripts/test runs it"]
            async fn $test() {
                assert_perfect_with_every_mix(Scenario::$scenario, Way::$way).await;
            }
        )*

        const TESTED: &[(Scenario, Way)] = &[$((Scenario::$scenario, Way::$way)),*];
    };
}

cells! {
    restart_between_calls_http: Restart, Http;
    restart_between_calls_sse: Restart, Sse;
    restart_under_16_callers_http: RestartBusy, Http;
    restart_under_16_callers_sse: RestartBusy, Sse;
    restart_under_16_callers_stdio: RestartBusy, Stdio;
    session_expired_as_404: Expired404, Http;
    session_expired_as_400: Expired400, Http;
    session_expired_as_200_with_an_error: Expired200, Http;
    session_expired_as_401: Expired401, Http;
    outage_http: Outage, Http;
    outage_sse: Outage, Sse;
    outage_stdio: Outage, Stdio;
    down_for_good_http: DownForGood, Http;
    down_for_good_sse: DownForGood, Sse;
    down_for_good_stdio: DownForGood, Stdio;
    child_killed_while_idle: ChildKilledIdle, Stdio;
    child_killed_in_a_call: ChildKilledBusy, Stdio;
    child_hangs: ChildHangs, Stdio;
    server_never_answers_http: NeverAnswers, Http;
    server_never_answers_sse: NeverAnswers, Sse;
    cut_in_an_answer_not_repeatable_http: CutNonIdempotent, Http;
    cut_in_an_answer_not_repeatable_sse: CutNonIdempotent, Sse;
    cut_in_an_answer_repeatable_http: CutIdempotent, Http;
    cut_in_an_answer_repeatable_sse: CutIdempotent, Sse;
    cut_in_an_answer_repeatable_stdio: CutIdempotent, Stdio;
    slow_start_http: SlowStart, Http;
    slow_start_sse: SlowStart, Sse;
    slow_start_stdio: SlowStart, Stdio;
    flapping_http: Flapping, Http;
    flapping_sse: Flapping, Sse;
    flapping_stdio: Flapping, Stdio;
    one_dead_of_five_http: OneDeadOfFive, Http;
    one_dead_of_five_sse: OneDeadOfFive, Sse;
    one_dead_of_five_stdio: OneDeadOfFive, Stdio;
    tools_changed_across_a_restart_http: ToolsChanged, Http;
    tools_changed_across_a_restart_sse: ToolsChanged, Sse;
    tools_changed_across_a_restart_stdio: ToolsChanged, Stdio;
    gateway_restarted_http: GatewayRestart, Http;
    gateway_restarted_sse: GatewayRestart, Sse;
    gateway_restarted_stdio: GatewayRestart, Stdio;
    listening_stream_cut_http: ListeningCut, Http;
    listening_stream_cut_sse: ListeningCut, Sse;
}

#[test]
fn every_scenario_and_transport_has_a_test() {
    for scenario in Scenario::ALL {
        for transport in scenario.transports() {
            let cell = (*scenario, Way::from(*transport));
            assert!(TESTED.contains(&cell), "{cell:?} has none");
        }
    }
}

/// A reason must not grow over cells that have a meaning.
#[test]
fn only_sessions_and_the_transport_of_2024_have_no_meaning_without_a_handshake() {
    for mix in Mix::ALL {
        let ruled_out = |cell: &&(Scenario, Way)| ruled_out(cell.0, cell.1, *mix).is_some();
        let expected = match mix {
            Mix::LegacyLegacy | Mix::ModernLegacy => 0,
            // Four ways to forget a session, and thirteen scenarios on that transport.
            Mix::LegacyModern | Mix::ModernModern => 17,
        };
        assert_eq!(TESTED.iter().filter(ruled_out).count(), expected, "{mix:?}");
    }
}
