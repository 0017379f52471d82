//! Why a server is in the state it is in, in one plain sentence, and what can be done about it.

use std::time::{Duration, SystemTime};

use evergate_runtime::{RateLimited, Reason, StateKind, Status};
use tokio::time::Instant;

use super::model::{Moment, ServerState};
use crate::remedy;

/// What there is to know of a server besides its status.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) now: SystemTime,
    pub(super) history: &'a [Moment],
    /// Off by the configuration's own word.
    pub(super) off_in_file: bool,
    /// Where it is.
    pub(super) target: &'a str,
}

/// The sentence, or two.
pub(super) fn sentence(status: &Status, around: Around<'_>) -> String {
    let for_long = length(around.now.duration_since(status.since).unwrap_or_default());
    let because = words(status.reason);
    match status.state {
        StateKind::Connected if let Some(limited) = &status.rate_limited => {
            rate_limited(limited, &for_long)
        }
        StateKind::Connected if status.degraded => degraded(status, &for_long),
        StateKind::Connected => connected(status, around, &for_long),
        StateKind::Connecting => match (status.attempts, &status.last_error) {
            (0 | 1, None) => format!("Connecting for {for_long}."),
            (attempts, error) => {
                format!("Connecting for {for_long}, attempt {attempts}{}.", said(error.as_ref()))
            }
        },
        StateKind::Reconnecting | StateKind::Disconnected => {
            let spent = match status.state {
                StateKind::Disconnected => " Quick attempts are spent.",
                _ => "",
            };
            let what = match (status.generation, status.state) {
                (None, _) => format!("Not connected yet: {because}"),
                (_, StateKind::Reconnecting) => format!("Lost {for_long} ago because {because}"),
                _ => format!("Away for {for_long} because {because}"),
            };
            format!(
                "{what}{}.{spent} {}{}",
                said(status.last_error.as_ref()),
                next_attempt(status),
                waiting(status),
            )
        }
        StateKind::Disabling => format!("Being switched off for {for_long}."),
        StateKind::Disabled if around.off_in_file => {
            "Switched off by the configuration.".to_owned()
        }
        StateKind::Disabled => format!("Switched off {for_long} ago on request."),
        _ => format!(
            "Given up {for_long} ago because {because}{}. It stays so until somebody acts.",
            said(status.last_error.as_ref())
        ),
    }
}

/// What a person can do, if anything needs doing.
pub(super) fn hint(status: &Status, around: Around<'_>) -> Option<String> {
    if let Some(revival) = status.reason.revival() {
        return Some(revival.to_owned());
    }
    let away = matches!(status.state, StateKind::Reconnecting | StateKind::Disconnected);
    if away
        && matches!(status.reason, Reason::TransportLost | Reason::HandshakeFailed)
        && let Some(error) = &status.last_error
        && let Some(remedy) = remedy::of_address(error, around.target)
    {
        return Some(format!("{remedy}; it is tried again by itself"));
    }
    let hint = match (status.state, status.reason) {
        (StateKind::Disabled, _) if around.off_in_file => {
            "enable it for now, or in the configuration for good"
        }
        (StateKind::Disabled, _) => "enable it when it is wanted again",
        (
            StateKind::Reconnecting | StateKind::Disconnected,
            Reason::ProcessExited | Reason::ProcessExitedCleanly,
        ) => {
            "look at its last words on standard error, and fix what it died of; it is started again by itself"
        }
        (StateKind::Disconnected, _) => {
            "see whether it runs and can be reached from here; it is tried again by itself, and restart tries at once"
        }
        (StateKind::Connected, _) if status.rate_limited.is_some() => {
            "nothing now: calls are let through again by themselves; if it happens often, ask for fewer at once"
        }
        (StateKind::Connected, _) if status.degraded => {
            "nothing yet: if it goes on failing it is connected anew by itself"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn connected(status: &Status, around: Around<'_>, for_long: &str) -> String {
    let loss = around.history.iter().rev().find(|moment| {
        matches!(moment.state, ServerState::Reconnecting | ServerState::Disconnected)
    });
    let last = loss.map(|moment| {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(moment.at_unix_ms);
        let ago = length(around.now.duration_since(at).unwrap_or_default());
        format!(", the last {ago} ago ({})", moment.reason.replace('_', " "))
    });
    let last = last.unwrap_or_default();
    match status.reconnects {
        0 => format!("Connected for {for_long}."),
        1 => format!("Connected for {for_long}. One earlier connection ended{last}."),
        n => format!("Connected for {for_long}. {n} earlier connections ended{last}."),
    }
}

fn rate_limited(limited: &RateLimited, for_long: &str) -> String {
    let left = limited.until.saturating_duration_since(Instant::now());
    let now = if left.is_zero() {
        "The next call finds".to_owned()
    } else {
        format!("Calls are refused for {}; then one of them finds", length(left))
    };
    format!(
        "Connected for {for_long}, but it limits the rate of calls ({}). {now} out whether it takes them again.",
        limited.because
    )
}

fn degraded(status: &Status, for_long: &str) -> String {
    let (failures, of) = if status.rpc_failures >= status.discovery_failures {
        (status.rpc_failures, "call")
    } else {
        (status.discovery_failures, "listing")
    };
    let what = if failures == 1 {
        format!("the last {of} failed")
    } else {
        format!("the last {failures} {of}s failed")
    };
    format!(
        "Connected for {for_long}, but {what}{}. After {} in a row it is connected anew.",
        said(status.last_error.as_ref()),
        status.failure_threshold
    )
}

fn next_attempt(status: &Status) -> String {
    let left = status.next_retry_at.map(|at| at.saturating_duration_since(Instant::now()));
    match left {
        Some(left) => {
            format!("Attempt {} follows in {}.", status.attempts.saturating_add(1), length(left))
        }
        None => format!("Attempt {} is under way.", status.attempts.max(1)),
    }
}

fn waiting(status: &Status) -> String {
    match status.held {
        0 => String::new(),
        1 => " One call waits.".to_owned(),
        held => format!(" {held} calls wait."),
    }
}

fn said(error: Option<&String>) -> String {
    error.map(|error| format!(" ({error})")).unwrap_or_default()
}

/// A reason after "because".
pub(super) fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::SessionLost => "the server no longer knew the session",
        Reason::TransportLost => "the connection broke or could not be made",
        Reason::ProcessExited => "its process failed",
        Reason::ProcessExitedCleanly => "its process ended by itself",
        Reason::Unresponsive => "too many calls or listings in a row went unanswered",
        Reason::HandshakeFailed => "the handshake failed",
        Reason::AuthRequired => "it wants credentials that it did not get or no longer takes",
        Reason::CommandNotFound => "its command does not exist or may not be run",
        Reason::InvalidConfig => "its settings cannot work here",
        Reason::UnsupportedProtocol => "it speaks no revision of MCP that is known here",
        Reason::AttemptsExhausted => "all attempts to connect are used up",
        Reason::NotRestarted => "it ended, and its restart policy says to leave it",
        Reason::Requested => "somebody asked for it",
        _ => "of its configuration",
    }
}

/// In the two largest units.
pub(super) fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 10 => format!("{:.1} s", duration.as_secs_f64()),
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_short() {
        let lengths: Vec<String> = [0, 9, 10, 59, 61, 3599, 3600, 90_061]
            .map(|seconds| length(Duration::from_secs(seconds)))
            .into();
        let expected =
            ["0.0 s", "9.0 s", "10 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "1 d 1 h"];
        assert_eq!(lengths, expected);
    }
}
