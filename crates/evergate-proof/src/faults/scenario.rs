//! What is done to the servers, as values.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::faults::mix::Mix;
use crate::product::Transport;

/// One way in which things go wrong.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// The server is restarted while nobody calls.
    Restart,
    /// The server is restarted while 16 callers call.
    RestartBusy,
    /// The server forgets the session and says 404.
    Expired404,
    /// The server forgets the session and says 400.
    Expired400,
    /// The server forgets the session and says so in a JSON-RPC error with status 200.
    Expired200,
    /// The server forgets the session and says 401, as old ones do.
    Expired401,
    /// The server is away for a while.
    Outage,
    /// The server never comes back.
    DownForGood,
    /// The child process is killed while nobody calls.
    ChildKilledIdle,
    /// The child process is killed while it works on a call.
    ChildKilledBusy,
    /// The child process stops doing anything in the middle of a call.
    ChildHangs,
    /// The server takes connections and requests and says nothing.
    NeverAnswers,
    /// The connection breaks in the middle of an answer, and the call must not be repeated.
    CutNonIdempotent,
    /// The connection breaks in the middle of an answer, and the call may be repeated.
    CutIdempotent,
    /// The server is restarted and takes its time.
    SlowStart,
    /// The server dies every second.
    Flapping,
    /// One server of five is dead.
    OneDeadOfFive,
    /// The server is restarted and offers another tool.
    ToolsChanged,
    /// The gateway itself is restarted.
    GatewayRestart,
    /// The stream on which the server speaks unasked is cut while nothing happens.
    ListeningCut,
}

// === impl Scenario ===

impl Scenario {
    /// Every scenario, in the order of the table.
    pub const ALL: &[Self] = &[
        Self::Restart,
        Self::RestartBusy,
        Self::Expired404,
        Self::Expired400,
        Self::Expired200,
        Self::Expired401,
        Self::Outage,
        Self::DownForGood,
        Self::ChildKilledIdle,
        Self::ChildKilledBusy,
        Self::ChildHangs,
        Self::NeverAnswers,
        Self::CutNonIdempotent,
        Self::CutIdempotent,
        Self::SlowStart,
        Self::Flapping,
        Self::OneDeadOfFive,
        Self::ToolsChanged,
        Self::GatewayRestart,
        Self::ListeningCut,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::RestartBusy => "restart-busy",
            Self::Expired404 => "expired404",
            Self::Expired400 => "expired400",
            Self::Expired200 => "expired200",
            Self::Expired401 => "expired401",
            Self::Outage => "outage",
            Self::DownForGood => "down-for-good",
            Self::ChildKilledIdle => "child-killed-idle",
            Self::ChildKilledBusy => "child-killed-busy",
            Self::ChildHangs => "child-hangs",
            Self::NeverAnswers => "never-answers",
            Self::CutNonIdempotent => "cut-non-idempotent",
            Self::CutIdempotent => "cut-idempotent",
            Self::SlowStart => "slow-start",
            Self::Flapping => "flapping",
            Self::OneDeadOfFive => "one-dead-of-five",
            Self::ToolsChanged => "tools-changed",
            Self::GatewayRestart => "gateway-restart",
            Self::ListeningCut => "listening-cut",
        }
    }

    /// A few words for tables and the chart.
    pub fn title(self) -> &'static str {
        match self {
            Self::Restart => "server restarted between calls",
            Self::RestartBusy => "server restarted under 16 callers",
            Self::Expired404 => "session expired: 404",
            Self::Expired400 => "session expired: 400",
            Self::Expired200 => "session expired: 200 with an error",
            Self::Expired401 => "session expired: 401 (old servers)",
            Self::Outage => "server down, then back",
            Self::DownForGood => "server down for good",
            Self::ChildKilledIdle => "child killed while idle",
            Self::ChildKilledBusy => "child killed in a call",
            Self::ChildHangs => "child hangs in a call",
            Self::NeverAnswers => "server accepts, never answers",
            Self::CutNonIdempotent => "cut in an answer, not repeatable",
            Self::CutIdempotent => "cut in an answer, repeatable",
            Self::SlowStart => "server starts slowly",
            Self::Flapping => "server dies every second",
            Self::OneDeadOfFive => "one dead server of five",
            Self::ToolsChanged => "tools changed across a restart",
            Self::GatewayRestart => "gateway itself restarted",
            Self::ListeningCut => "listening stream cut while idle",
        }
    }

    /// What is done, and what would be perfect.
    pub fn story(self) -> &'static str {
        match self {
            Self::Restart => {
                "The server dies and is back at once, without its sessions, while no call is under way. Then the client \
                 calls. Perfect: it notices nothing."
            }
            Self::RestartBusy => {
                "The same while 16 callers call without a break; for a stdio server its process is killed. Perfect: calls \
                 that were under way and must not be repeated end in an error that says so; all others are answered."
            }
            Self::Expired404 => {
                "The server forgets its sessions and answers 404 with a JSON-RPC error, as the specification says."
            }
            Self::Expired400 => {
                "The server forgets its sessions and answers 400 \"No valid session ID provided\", as servers made with \
                 the TypeScript SDK's example do."
            }
            Self::Expired200 => {
                "The server forgets its sessions and answers 200 with the JSON-RPC error -32001 \"Session not found\"."
            }
            Self::Expired401 => {
                "The server forgets its sessions and answers 401 \"Unauthorized: Session not found\", as old rmcp servers do."
            }
            Self::Outage => {
                "The server dies, refuses connections for the outage (a stdio server: exits as soon as it is started), and \
                 is back. One caller calls all the time. Perfect: calls wait and are answered."
            }
            Self::DownForGood => {
                "The server dies and never comes back. Nobody can answer calls; perfect is to end them before the client's \
                 own deadline with an error that says that they did not run, and to go on listing the tools."
            }
            Self::ChildKilledIdle => {
                "`kill -9` of the stdio server while no call is under way. Then the client calls."
            }
            Self::ChildKilledBusy => {
                "`kill -9` of the stdio server after it executed a call that must not be repeated and before it answered. \
                 Perfect: one execution, an error at once that says that the outcome is unknown, and the next call works."
            }
            Self::ChildHangs => {
                "The stdio server executes a call and then hangs for good, without exiting. Perfect: the call ends before \
                 the client's deadline with an error that says that the outcome is unknown, the hung process is replaced, \
                 and calls work again. Times count from the beginning of the hang."
            }
            Self::NeverAnswers => {
                "The server accepts connections and reads requests, handshakes too, and never answers; when the call in \
                 progress has ended, the server is restarted. Perfect: that call ends before the client's deadline with \
                 an error that says that the outcome is unknown."
            }
            Self::CutNonIdempotent => {
                "The server executes a call without annotations, and the connection breaks in the middle of the answer. \
                 Perfect: one execution, and an error that says that the outcome is unknown."
            }
            Self::CutIdempotent => {
                "The same with a tool that is annotated `idempotentHint` (a stdio server: killed before it answered). \
                 Perfect: the call is answered."
            }
            Self::SlowStart => {
                "The server is restarted between calls, and takes its time to answer a handshake (a modern server: \
                 `server/discover`, and the first call). Perfect: calls wait."
            }
            Self::Flapping => {
                "The server dies every second and is back half a second later (a stdio server: its process is killed \
                 every second). One caller calls all the time."
            }
            Self::OneDeadOfFive => {
                "One of five servers dies for good. Each of the five has a caller. Perfect: the four others notice \
                 nothing, and the calls to the dead one end with an error that says that they did not run."
            }
            Self::ToolsChanged => {
                "The server is restarted between calls and then offers one tool more. Perfect: the client is told with \
                 `list_changed` and finds the tool in the list."
            }
            Self::GatewayRestart => {
                "The product itself gets SIGTERM and is started again in the same way, while one caller calls. Calls \
                 that are made while nothing listens cannot be answered. Perfect: the client's session goes on."
            }
            Self::ListeningCut => {
                "The connection on which the server speaks unasked is cut while nothing happens. Then the server gets a \
                 new tool and says `list_changed`. Perfect: the client is told. A modern client listens all the time; if \
                 what it listens on ends, that counts as a new handshake."
            }
        }
    }

    /// The transports of the server for which it has a meaning.
    pub fn transports(self) -> &'static [Transport] {
        use Transport::{Http, Sse, Stdio};
        match self {
            Self::Expired404 | Self::Expired400 | Self::Expired200 | Self::Expired401 => &[Http],
            Self::Restart | Self::NeverAnswers | Self::CutNonIdempotent | Self::ListeningCut => {
                &[Http, Sse]
            }
            Self::ChildKilledIdle | Self::ChildKilledBusy | Self::ChildHangs => &[Stdio],
            Self::RestartBusy
            | Self::Outage
            | Self::DownForGood
            | Self::CutIdempotent
            | Self::SlowStart
            | Self::Flapping
            | Self::OneDeadOfFive
            | Self::ToolsChanged
            | Self::GatewayRestart => &[Http, Sse, Stdio],
        }
    }

    /// Why it cannot be played between these eras, if it cannot.
    pub fn rules_out(self, mix: Mix) -> Option<&'static str> {
        let is_of_sessions = matches!(
            self,
            Self::Expired404 | Self::Expired400 | Self::Expired200 | Self::Expired401
        );
        (is_of_sessions && mix.has_modern_server())
            .then_some("a modern server has no sessions that could expire")
    }

    /// How many servers the product is put in front of.
    pub fn servers(self) -> usize {
        match self {
            Self::OneDeadOfFive => 5,
            _ => 1,
        }
    }

    /// Whether there is anything to recover from: a server that stays dead stays dead.
    pub fn recovers(self) -> bool {
        !matches!(self, Self::DownForGood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line_and_of_the_file() {
        for scenario in Scenario::ALL {
            let name = scenario.name();
            assert_eq!(Scenario::from_str(name, false).as_ref(), Ok(scenario));
            assert_eq!(serde_json::to_value(scenario).unwrap(), name);
        }
        assert_eq!(Scenario::ALL.len(), Scenario::value_variants().len());
    }
}
