//! May a request that did not get an answer be sent again? Decided here and nowhere else.
//!
//! MCP has no idempotency key, so sending twice may mean doing twice. A request is sent again only when it provably
//! was not executed, or when executing it twice is declared harmless.

use serde::Serialize;

/// How a request ended, from the point of view of whoever must decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The server answered, with a result or with an error of its own.
    Answered,
    /// It never left: sending it again is safe.
    NotSent,
    /// The server refused it unexecuted, because it does not know our session or does not let us in.
    Rejected,
    /// It was sent and no answer came: it may or may not have been executed.
    Unknown,
}

/// What the operator allows for requests with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replay {
    /// Reads, and tools annotated read-only or idempotent.
    #[default]
    Safe,
    /// Every request: the operator vouches that running twice does no harm.
    Always,
    /// Nothing, whatever its annotations say.
    Never,
}

/// What to do after a send that ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Resend,
    GiveUp,
}

/// What is known about a request when it ended without an answer.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, not a state")]
pub(crate) struct Sent<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) method: &'a str,
    /// Its tool is annotated read-only or idempotent.
    pub(crate) harmless: bool,
    pub(crate) replay: Replay,
    /// It was sent again already although it may have been executed.
    pub(crate) resent: bool,
    /// It was sent again already because a server refused it unexecuted.
    pub(crate) renewed: bool,
    /// It was refused for a reason that a new connection takes away.
    pub(crate) renewable: bool,
}

pub(crate) fn decide(sent: Sent<'_>) -> Decision {
    let Sent { outcome, method, harmless, replay, resent, renewed, renewable } = sent;
    let again = match outcome {
        Outcome::Answered => false,
        // It never left, so this is not even a second time; the deadline bounds it.
        Outcome::NotSent => true,
        // A refusal is no execution, so it has a count of its own: a harmless call that died with its server meets the
        // restarted server's "unknown session" next.
        Outcome::Rejected => renewable && !renewed,
        Outcome::Unknown => {
            !resent
                && match replay {
                    Replay::Always => true,
                    Replay::Never => false,
                    Replay::Safe => harmless || is_read(method),
                }
        }
    };
    if again { Decision::Resend } else { Decision::GiveUp }
}

/// Methods that only look.
fn is_read(method: &str) -> bool {
    matches!(method, "ping" | "completion/complete" | "server/discover")
        || method.ends_with("/list")
        || method.ends_with("/read")
        || method.ends_with("/get")
}

// === impl Outcome ===

impl Outcome {
    /// The name used in JSON, logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NotSent => "not_sent",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_replay_rule() {
        use Decision::{GiveUp, Resend};
        use Outcome::{Answered, NotSent, Rejected, Unknown};
        let call = "tools/call";
        let rows = [
            (Answered, "ping", true, Replay::Always, false, GiveUp),
            (NotSent, call, false, Replay::Never, false, Resend),
            (NotSent, call, false, Replay::Never, true, Resend),
            (Rejected, call, false, Replay::Never, false, Resend),
            (Rejected, call, false, Replay::Always, true, GiveUp),
            (Unknown, call, false, Replay::Safe, false, GiveUp),
            (Unknown, call, true, Replay::Safe, false, Resend),
            (Unknown, call, true, Replay::Safe, true, GiveUp),
            (Unknown, call, false, Replay::Always, false, Resend),
            (Unknown, call, false, Replay::Always, true, GiveUp),
            (Unknown, call, true, Replay::Never, false, GiveUp),
            (Unknown, "tools/list", false, Replay::Never, false, GiveUp),
        ];
        for (outcome, method, harmless, replay, resent, expected) in rows {
            let (renewed, renewable) = (resent, true);
            let sent = Sent { outcome, method, harmless, replay, resent, renewed, renewable };
            assert_eq!(decide(sent), expected, "{sent:?}");
        }
        let reads = [
            "tools/list",
            "prompts/list",
            "resources/templates/list",
            "resources/read",
            "prompts/get",
            "completion/complete",
            "ping",
            "server/discover",
        ];
        let unannotated = |method| Sent {
            outcome: Unknown,
            method,
            harmless: false,
            replay: Replay::Safe,
            resent: false,
            renewed: false,
            renewable: true,
        };
        for method in reads {
            assert_eq!(decide(unannotated(method)), Resend, "{method}");
        }
        for method in ["resources/subscribe", "logging/setLevel", "x/y", "list"] {
            assert_eq!(decide(unannotated(method)), GiveUp, "{method}");
        }
        let refused = Sent { outcome: Rejected, renewable: false, ..unannotated(call) };
        assert_eq!(decide(refused), GiveUp, "a refusal that a new session would not change");
        let refused_next = Sent { outcome: Rejected, resent: true, ..unannotated(call) };
        assert_eq!(decide(refused_next), Resend, "a refusal after a resend is no second execution");
        let lost_next = Sent { harmless: true, renewed: true, ..unannotated(call) };
        assert_eq!(decide(lost_next), Resend, "nor is a loss after a refusal");
    }
}
