//! What the calls of a cell amount to. One set of rules for every product; `docs/fault-matrix.md` prints them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::faults::client::Told;
use crate::faults::scenario::Scenario;
use crate::faults::script::{News, Story};
use crate::faults::witness::{Call, End, Seen, Strike};

/// The worst that happened in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Every call that anybody could have answered was, and all others said clearly what became of them.
    Perfect,
    /// The client noticed: clear errors, a new handshake, a list that blinked, news that did not come, processes left.
    Noticed,
    /// An error from which nobody can tell whether the call ran.
    Ambiguous,
    /// A call got no answer at all, or ran twice.
    Lost,
    /// No call worked again.
    NeverRecovered,
}

/// What an error tells about the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clarity {
    /// It did not run.
    DidNotRun,
    /// It may have run, and the error says so.
    MayHaveRun,
    /// Nothing.
    SaysNothing,
}

/// The numbers of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The worst of it.
    pub grade: Grade,
    /// Calls made from the moment before the fault on.
    pub calls: u64,
    /// Answered with their own result.
    pub answered: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Of these, calls that nobody could have answered, and that said so.
    pub inevitable: u64,
    /// No answer until the client's own deadline, or somebody else's answer.
    pub lost: u64,
    /// Executed more than once although that does harm.
    pub twice: u64,
    /// Executed more than once where the server says that this does none.
    pub repeated: u64,
    /// Errors that do not tell the outcome, or tell it wrongly.
    pub ambiguous: u64,
    /// Until the first good call after the end of the fault. `None` if there was none, or no end.
    pub recovery_seconds: Option<f64>,
    /// The longest that a call which failed took to say so.
    pub slowest_error_seconds: Option<f64>,
    /// How often the client was told that its connection or session is gone, or what it listens on.
    pub reinitialized: u32,
    /// Processes that outlived the product's orderly end.
    pub orphans: u64,
    /// Looks at the tool list that found tools missing, or failed.
    pub blinks: u64,
    /// How the client learned that the tools changed, where they did.
    pub news: Option<News>,
    /// If calls never worked again: whether they do for a new client.
    pub cured_by_new_client: Option<bool>,
    /// What errors said, with how often: the most frequent first.
    pub errors: Vec<(String, u64)>,
}

/// Words that tell that a call did not run. In lower case.
pub const DID_NOT_RUN: &[&str] = &[
    "not_sent",
    "not sent",
    "\"outcome\":\"rejected\"",
    "not executed",
    "did not run",
    "econnrefused",
    "connection refused",
    "connect call failed",
    "all connection attempts failed",
    "failed to connect",
    "cannot connect",
    "could not connect",
    "unable to connect",
    "client is not connected",
    "not connected",
    "circuit breaker",
    "circuit is open",
    "no healthy",
    "unavailable",
    "unreachable",
    "is offline",
    "unknown tool",
    "tool not found",
    "not found",
    "unauthorized",
    "client registration",
    "before the message was sent",
    "'initialize' timed out",
    "bad request",
    "session not found",
    "session expired",
    "session terminated",
    "no valid session",
    "server not initialized",
    "expect initialize",
];

/// Words that tell that a call may have run.
pub const MAY_HAVE_RUN: &[&str] = &[
    "\"outcome\":\"unknown\"",
    "outcome unknown",
    "outcome is unknown",
    "unknown outcome",
    "may have run",
    "may have been executed",
    "might have been executed",
    "may or may not have",
];

/// Distinct error texts that are kept per cell.
const ERRORS_KEPT: usize = 4;

/// How much of an error text is kept.
const ERROR_CHARS: usize = 220;

// === impl Clarity ===

impl Clarity {
    /// What an error tells.
    pub fn of(told: &Told) -> Self {
        let text = told.text.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|part| text.contains(part));
        if says(MAY_HAVE_RUN) {
            Self::MayHaveRun
        } else if says(DID_NOT_RUN) {
            Self::DidNotRun
        } else {
            Self::SaysNothing
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Counts.
    pub fn count(
        scenario: Scenario,
        seen: &Seen,
        story: &Story,
        orphans: u64,
        expected_tools: &[String],
    ) -> Self {
        let calls = &seen.calls;
        let is =
            |test: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| test(call)).count() as u64;
        let recovered =
            story.fault_ended.and_then(|ended| Some(seen.recovered_after(ended)? - ended));
        let slowest = calls.iter().filter(|call| matches!(call.end, End::Failed(_)));
        let slowest = slowest.map(|call| call.ended - call.started).max();
        let mut tally = Self {
            grade: Grade::Perfect,
            calls: calls.len() as u64,
            answered: is(&|call| call.end == End::Answered),
            failed: is(&|call| matches!(call.end, End::Failed(_))),
            inevitable: is(&|call| matches!(call.end, End::Failed(_)) && is_inevitable(call, seen)),
            lost: is(&|call| matches!(call.end, End::Silence | End::WrongResult(_))),
            twice: is(&|call| call.executions > 1 && !call.tool.is_repeatable()),
            repeated: is(&|call| call.executions > 1 && call.tool.is_repeatable()),
            ambiguous: is(&is_ambiguous),
            recovery_seconds: recovered.map(seconds),
            slowest_error_seconds: slowest.map(seconds),
            reinitialized: seen.reinitialized + unheard(seen),
            orphans,
            blinks: blinks(seen, expected_tools),
            news: story.news,
            cured_by_new_client: story.cured_by_new_client,
            errors: errors(calls),
        };
        tally.grade = tally.grade(scenario);
        tally
    }

    fn grade(&self, scenario: Scenario) -> Grade {
        if scenario.recovers()
            && (self.recovery_seconds.is_none() || self.news == Some(News::Never))
        {
            return Grade::NeverRecovered;
        }
        if self.lost > 0 || self.twice > 0 {
            return Grade::Lost;
        }
        if self.ambiguous > 0 {
            return Grade::Ambiguous;
        }
        let noticed = self.failed > self.inevitable
            || self.reinitialized > 0
            || self.blinks > 0
            || self.orphans > 0
            || self.news.is_some_and(|news| news != News::Told);
        if noticed { Grade::Noticed } else { Grade::Perfect }
    }
}

/// Whether nobody in the product's place could have answered this call: its server is dead for good, or there was no
/// product, or no server from its beginning to its end; or it was under way when the fault struck and must not be
/// repeated. What says that it did not run, and did not, was not under way: it could have been sent later.
fn is_inevitable(call: &Call, seen: &Seen) -> bool {
    let struck =
        |strikes: &[Strike]| strikes.iter().any(|strike| strike.hit(call.started, call.ended));
    let all_along = seen.strikes.iter().any(|strike| strike.covers(call.started, call.ended));
    let never_left = match &call.end {
        End::Failed(told) => Clarity::of(told) == Clarity::DidNotRun && call.executions == 0,
        _ => false,
    };
    let under_way = !call.tool.is_repeatable() && struck(&seen.strikes) && !never_left;
    call.doomed || all_along || struck(&seen.gateway_away) || under_way
}

/// Whether an error leaves the client in the dark about a call that must not be repeated blindly.
fn is_ambiguous(call: &Call) -> bool {
    let End::Failed(told) = &call.end else { return false };
    if call.tool.is_repeatable() {
        return false;
    }
    match Clarity::of(told) {
        Clarity::SaysNothing => true,
        Clarity::MayHaveRun => false,
        // It says that it did not run. Then it should not have.
        Clarity::DidNotRun => call.executions > 0,
    }
}

/// How often a client had to listen anew although there was a product all along.
fn unheard(seen: &Seen) -> u32 {
    let away = |at: &&Instant| seen.gateway_away.iter().any(|away| away.hit(**at, **at));
    let ended = seen.unheard.iter().filter(|at| !away(at)).count();
    u32::try_from(ended).unwrap_or(u32::MAX)
}

fn blinks(seen: &Seen, expected: &[String]) -> u64 {
    let counts = seen.looks.iter().filter(|look| {
        // Nobody can list tools through a gateway that is not there.
        !seen.gateway_away.iter().any(|away| away.hit(look.started, look.ended))
    });
    let blinked = counts.filter(|look| match &look.tools {
        Ok(tools) => !expected.iter().all(|tool| tools.contains(tool)),
        Err(_) => true,
    });
    blinked.count() as u64
}

fn errors(calls: &[Call]) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for call in calls {
        let text = match &call.end {
            End::Answered => continue,
            End::Silence => "(nothing until the client's own deadline)".to_owned(),
            End::WrongResult(result) => format!("(not its result) {result}"),
            End::Failed(told) => {
                let lie = Clarity::of(told) == Clarity::DidNotRun && call.executions > 0;
                let lie = if lie { "(but it ran) " } else { "" };
                format!("{lie}{}", told.shown)
            }
        };
        let text = without_details(&text.replace(&call.id, "ID"));
        let text = if text.is_empty() { "(an error without a word)".to_owned() } else { text };
        *counts.entry(text.chars().take(ERROR_CHARS).collect()).or_default() += 1;
    }
    let mut errors: Vec<_> = counts.into_iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    errors.truncate(ERRORS_KEPT);
    errors
}

/// One line, and no fractions of seconds, which are different every time.
fn without_details(text: &str) -> String {
    let word = |word: &str| match word.split_once('.') {
        Some((whole, fraction)) if fraction.starts_with(|digit: char| digit.is_ascii_digit()) => {
            let rest = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if rest.starts_with('s') { format!("{whole}{rest}") } else { word.to_owned() }
        }
        _ => word.to_owned(),
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// With milliseconds, which is all that a process on the other side of a pipe can be trusted with.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
