use tokio::time::Instant;

use super::*;
use crate::faults::witness::{Look, Tool};

fn at(ms: u64) -> Instant {
    // One beginning for all times of a test.
    static BEGINNING: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    *BEGINNING + Duration::from_millis(ms)
}

fn call(tool: Tool, from: u64, to: u64, end: End, executions: u64) -> Call {
    let id = format!("call-{from}");
    Call { id, tool, started: at(from), ended: at(to), end, doomed: false, executions }
}

fn failed(text: &str) -> End {
    End::Failed(Told::saying(text))
}

/// The fault strikes at 100 and is over at 200; at 300 a call is answered.
fn tally(mut calls: Vec<Call>) -> Tally {
    calls.push(call(Tool::Echo, 250, 300, End::Answered, 1));
    let strikes = vec![Strike { from: at(100), to: at(110) }];
    count(&Seen { calls, strikes, ..Seen::default() })
}

fn count(seen: &Seen) -> Tally {
    let story = Story { fault_ended: Some(at(200)), news: None, cured_by_new_client: None };
    Tally::count(Scenario::Outage, seen, &story, 0, &["echo".to_owned()])
}

#[test]
fn answers_are_perfect_and_recovery_counts_from_the_end_of_the_fault() {
    let tally = tally(vec![call(Tool::Echo, 0, 50, End::Answered, 1)]);
    assert_eq!((tally.grade, tally.calls, tally.answered), (Grade::Perfect, 2, 2));
    assert_eq!(tally.recovery_seconds, Some(0.1));
}

#[test]
fn an_answer_that_may_have_been_under_way_is_no_recovery() {
    let early = call(Tool::Echo, 90, 205, End::Answered, 1);
    assert_eq!(tally(vec![early]).recovery_seconds, Some(0.1));
}

#[test]
fn errors_tell_that_a_call_did_not_run_or_that_it_may_have_or_nothing() {
    let table = [
        ("fetch failed (ECONNREFUSED)", Clarity::DidNotRun),
        ("MCP error -32000: Session not found", Clarity::DidNotRun),
        ("server1: no connection came {\"outcome\":\"not_sent\"}", Clarity::DidNotRun),
        ("the connection broke {\"outcome\":\"unknown\"}", Clarity::MayHaveRun),
        ("The call may have run before the server was not found", Clarity::MayHaveRun),
        ("fetch failed (UND_ERR_SOCKET)", Clarity::SaysNothing),
        ("MCP error -32000: Connection closed", Clarity::SaysNothing),
        ("Internal error", Clarity::SaysNothing),
        ("MCP error -32001: Request timed out", Clarity::SaysNothing),
    ];
    for (text, clarity) in table {
        assert_eq!(Clarity::of(&Told::saying(text)), clarity, "{text}");
    }
}

#[test]
fn an_unclear_error_is_ambiguous_only_if_the_call_must_not_be_repeated() {
    let unclear = |tool| tally(vec![call(tool, 90, 120, failed("Internal error"), 1)]);
    assert_eq!((unclear(Tool::Echo).grade, unclear(Tool::Echo).ambiguous), (Grade::Ambiguous, 1));
    assert_eq!((unclear(Tool::Again).grade, unclear(Tool::Again).ambiguous), (Grade::Noticed, 0));
}

#[test]
fn an_error_that_says_that_a_call_did_not_run_must_be_true() {
    let said = |executions| tally(vec![call(Tool::Echo, 90, 120, failed("not sent"), executions)]);
    assert_eq!(said(0).ambiguous, 0);
    assert_eq!(said(1).ambiguous, 1);
    assert_eq!(said(1).errors, [("(but it ran) not sent".to_owned(), 1)]);
}

#[test]
fn a_clear_error_spoils_nothing_where_it_was_inevitable() {
    let clear = |tool, from, to| tally(vec![call(tool, from, to, failed("outcome unknown"), 1)]);
    let under_way = clear(Tool::Echo, 90, 120);
    assert_eq!((under_way.grade, under_way.failed, under_way.inevitable), (Grade::Perfect, 1, 1));
    assert_eq!(
        clear(Tool::Echo, 120, 130).grade,
        Grade::Perfect,
        "nobody could know of the strike yet"
    );
    assert_eq!(clear(Tool::Echo, 220, 230).grade, Grade::Noticed, "it came after the strike");
    assert_eq!(clear(Tool::Again, 90, 120).grade, Grade::Noticed, "it could have been repeated");
    let unsent = call(Tool::Echo, 90, 120, failed("not sent"), 0);
    assert_eq!(tally(vec![unsent]).grade, Grade::Noticed, "it could have been sent later");
    let all_along = call(Tool::Echo, 102, 108, failed("not sent"), 0);
    assert_eq!(tally(vec![all_along]).grade, Grade::Perfect, "nobody was there to send it to");
    let doomed = Call { doomed: true, ..call(Tool::Echo, 150, 160, failed("not sent"), 0) };
    assert_eq!(tally(vec![doomed]).grade, Grade::Perfect);
}

#[test]
fn silence_and_foreign_results_are_lost() {
    for end in [End::Silence, End::WrongResult("another's".into())] {
        let tally = tally(vec![call(Tool::Again, 90, 120, end, 1)]);
        assert_eq!((tally.grade, tally.lost), (Grade::Lost, 1));
    }
}

#[test]
fn a_second_execution_is_a_fault_unless_it_is_harmless() {
    let twice = |tool| tally(vec![call(tool, 90, 120, End::Answered, 2)]);
    assert_eq!((twice(Tool::Echo).grade, twice(Tool::Echo).twice), (Grade::Lost, 1));
    let harmless = twice(Tool::Again);
    assert_eq!((harmless.grade, harmless.twice, harmless.repeated), (Grade::Perfect, 0, 1));
}

#[test]
fn without_a_good_call_after_the_fault_it_never_recovered() {
    let seen = Seen { calls: vec![call(Tool::Echo, 210, 220, End::Silence, 0)], ..Seen::default() };
    assert_eq!(count(&seen).grade, Grade::NeverRecovered);
    let story = Story { fault_ended: None, news: None, cured_by_new_client: None };
    let doomed = Call { doomed: true, ..call(Tool::Echo, 210, 220, failed("not sent"), 0) };
    let seen = Seen { calls: vec![doomed], ..Seen::default() };
    let tally = Tally::count(Scenario::DownForGood, &seen, &story, 0, &[]);
    assert_eq!(tally.grade, Grade::Perfect, "there is nothing to recover from");
}

#[test]
fn a_stale_list_is_no_recovery_and_a_silent_change_is_noticed() {
    let graded = |news| {
        let calls = vec![call(Tool::Echo, 250, 300, End::Answered, 1)];
        let story =
            Story { fault_ended: Some(at(200)), news: Some(news), cured_by_new_client: None };
        let seen = Seen { calls, ..Seen::default() };
        Tally::count(Scenario::ToolsChanged, &seen, &story, 0, &[]).grade
    };
    assert_eq!(graded(News::Told), Grade::Perfect);
    assert_eq!(graded(News::WhenAsked), Grade::Noticed);
    assert_eq!(graded(News::Never), Grade::NeverRecovered);
}

#[test]
fn lists_blink_when_they_fail_or_lack_tools_while_the_product_is_there() {
    let look = |from, tools| Look { started: at(from), ended: at(from + 10), tools };
    let seen = Seen {
        calls: vec![call(Tool::Echo, 250, 300, End::Answered, 1)],
        looks: vec![
            look(10, Ok(vec!["echo".to_owned(), "more".to_owned()])),
            look(20, Ok(vec!["more".to_owned()])),
            look(40, Err("no".to_owned())),
            look(60, Err("nobody there".to_owned())),
        ],
        gateway_away: vec![Strike { from: at(55), to: at(80) }],
        ..Seen::default()
    };
    assert_eq!((count(&seen).blinks, count(&seen).grade), (2, Grade::Noticed));
}

#[test]
fn what_a_client_listens_on_may_end_with_the_product_only() {
    let with = |unheard: &[u64]| {
        count(&Seen {
            calls: vec![call(Tool::Echo, 250, 300, End::Answered, 1)],
            unheard: unheard.iter().map(|ms| at(*ms)).collect(),
            gateway_away: vec![Strike { from: at(55), to: at(80) }],
            ..Seen::default()
        })
    };
    assert_eq!((with(&[60]).reinitialized, with(&[60]).grade), (0, Grade::Perfect));
    assert_eq!((with(&[60, 500]).reinitialized, with(&[60, 500]).grade), (1, Grade::Noticed));
}

#[test]
fn error_texts_are_grouped_without_what_differs_every_time() {
    let calls =
        [(90, "no answer to call-90 within 6.001s"), (95, "no answer to call-95 within 6.22s")];
    let calls = calls.map(|(from, text)| call(Tool::Echo, from, 120, failed(text), 0));
    assert_eq!(tally(calls.to_vec()).errors, [("no answer to ID within 6s".to_owned(), 2)]);
}
