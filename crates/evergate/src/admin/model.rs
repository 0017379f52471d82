//! What the admin API says, as types: the API writes them, the command line reads them, the `OpenAPI` page is made from them.
//!
//! Times are milliseconds of Unix time (`*_unix_ms`), lengths of time are milliseconds (`*_ms`). What is not known is
//! `null`, never left out. Later versions may add fields, so whoever reads must not mind unknown ones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The gateway itself.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GatewayReport {
    /// Of the program.
    pub(crate) version: String,
    /// Its process id.
    pub(crate) pid: u32,
    pub(crate) started_unix_ms: u64,
    pub(crate) uptime_ms: u64,
    /// It takes no more requests.
    pub(crate) draining: bool,
    /// Every required server is connected, and requests are taken.
    pub(crate) ready: bool,
    pub(crate) status: Health,
    /// Where clients reach it.
    pub(crate) listen: String,
    /// Where this API is, if not there too.
    pub(crate) admin_listen: Option<String>,
    /// The files it was configured from.
    pub(crate) config_files: Vec<String>,
    /// Counts configurations: 1, and one more with every reload that changed something.
    pub(crate) config_revision: u64,
    /// Clients with a session.
    pub(crate) sessions: usize,
    /// Calls that are with servers, and calls that wait for one.
    pub(crate) calls_in_flight: usize,
    pub(crate) calls_held: usize,
    /// What is held in memory for clients, in bytes, and how much may be.
    pub(crate) buffered_bytes: usize,
    pub(crate) max_buffered_bytes: usize,
    pub(crate) catalog_version: u64,
    /// What somebody should look at: a configuration that was not taken, names that two servers use.
    pub(crate) warnings: Vec<String>,
    /// How many servers are in which state.
    pub(crate) servers: BTreeMap<String, usize>,
}

/// All in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Health {
    /// Every server that is switched on is connected, or has just begun to.
    Healthy,
    /// Some are not, none of them required.
    Degraded,
    /// A required one is not.
    Unhealthy,
    /// It is about to end.
    Draining,
}

/// All servers, by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServerList {
    pub(crate) servers: Vec<ServerReport>,
}

/// One server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "fields of a JSON object that readers know")]
pub(crate) struct ServerReport {
    pub(crate) name: String,
    pub(crate) state: ServerState,
    /// Connected, but recent calls or listings failed. With `per_client`: a client's connection is in trouble, or was
    /// until it was given up a short while ago.
    pub(crate) degraded: bool,
    /// It is being connected for the first time, and that began only a moment ago.
    #[serde(default)]
    pub(crate) starting: bool,
    pub(crate) since_unix_ms: u64,
    /// Why it is in this state: the name of a reason.
    pub(crate) reason: Option<String>,
    /// The same in a plain sentence.
    pub(crate) why: String,
    /// What a person can do about it, if anything needs doing.
    pub(crate) hint: Option<String>,
    /// Which connection this is, or the last one was, counted from 1.
    pub(crate) generation: Option<u64>,
    /// How long the connection has been there.
    pub(crate) session_age_ms: Option<u64>,
    /// Attempts to connect since it last proved itself.
    pub(crate) attempts: u32,
    /// When the next one is due.
    pub(crate) next_retry_ms: Option<u64>,
    /// The newest failure with its causes; kept after recovery.
    pub(crate) last_error: Option<String>,
    pub(crate) last_error_unix_ms: Option<u64>,
    /// Connections made beyond the first.
    pub(crate) reconnects: u64,
    pub(crate) budgets: Budgets,
    /// Calls that are with it, and calls that wait for it.
    pub(crate) in_flight: usize,
    pub(crate) held: usize,
    /// Of those that wait, how many wait only because so many are with it.
    pub(crate) queued: usize,
    /// How many may be with it, and wait for it, at once.
    pub(crate) max_in_flight: usize,
    pub(crate) max_held: usize,
    /// Calls are refused for a while, because the server limits their rate.
    pub(crate) breaker: Option<Breaker>,
    pub(crate) catalog: Option<CatalogReport>,
    /// The child's process id.
    pub(crate) pid: Option<u32>,
    /// The last lines it wrote to its standard error.
    pub(crate) stderr_tail: Vec<String>,
    /// The revision of MCP it speaks.
    pub(crate) protocol: Option<String>,
    pub(crate) era: Option<Era>,
    pub(crate) transport: Option<String>,
    /// Where it is, without anything secret.
    pub(crate) target: String,
    /// Changes when the connection must be made anew for the configuration to be obeyed.
    pub(crate) config_digest: String,
    /// Nothing is ready without it.
    pub(crate) required: bool,
    pub(crate) isolation: IsolationReport,
    /// Switched on.
    pub(crate) enabled: bool,
    /// With `per_client`: how many clients have one.
    pub(crate) connections: Option<usize>,
    /// What became of calls to it since the gateway started.
    pub(crate) calls: CallCounts,
    /// Where it was in the last hour, oldest first. The first entry may have begun earlier.
    pub(crate) history: Vec<Moment>,
}

/// Where a server is in its life.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerState {
    /// Switched off.
    Disabled,
    /// First connect under way.
    Connecting,
    /// Serving calls.
    Connected,
    /// Lost; quick attempts under way. Calls wait.
    Reconnecting,
    /// Quick attempts are spent; probing slowly.
    Disconnected,
    /// Being switched off.
    Disabling,
    /// Parked until somebody changes something.
    PermanentlyFailed,
    /// Each client has one of its own.
    PerClient,
    /// Its configuration cannot be used.
    Unusable,
    /// What only later versions know: for programs that read what they say.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Failures in a row, and how many make the connection be given up.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Budgets {
    /// Of listings.
    pub(crate) discovery: Budget,
    /// Of calls.
    pub(crate) rpc: Budget,
}

/// One of them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Budget {
    pub(crate) failures: u32,
    pub(crate) threshold: u32,
}

/// A pause that a server asked for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Breaker {
    /// Every call is refused; else the next one may find out.
    pub(crate) open: bool,
    /// When one call may find out whether the server takes calls again.
    pub(crate) probe_in_ms: u64,
    /// What the server did.
    pub(crate) because: String,
}

/// What a server offers, in numbers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CatalogReport {
    /// Of all servers together: one more whenever any of them offers something else.
    pub(crate) version: u64,
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
    pub(crate) resource_templates: usize,
    /// Of an earlier connection, or an earlier run: the last good one.
    pub(crate) stale: bool,
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Era {
    /// With a handshake, up to 2025-11-25.
    Handshake,
    /// Without, from 2026-07-28 on.
    Stateless,
}

/// Who shares a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IsolationReport {
    /// All clients.
    Shared,
    /// Nobody.
    PerClient,
}

/// What became of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CallCounts {
    pub(crate) answered: u64,
    pub(crate) not_sent: u64,
    pub(crate) rejected: u64,
    pub(crate) unknown: u64,
    pub(crate) cancelled: u64,
    /// Of all of them, those that were sent more than once.
    pub(crate) resent: u64,
}

/// A server's state from some moment on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Moment {
    pub(crate) at_unix_ms: u64,
    pub(crate) state: ServerState,
    pub(crate) reason: String,
    pub(crate) generation: Option<u64>,
}

/// Something was done.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Done {
    pub(crate) done: Action,
    /// The server right after; what was asked for may take a moment to show.
    pub(crate) server: ServerReport,
}

/// What can be done to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// Drop the connection and make a new one.
    Restart,
    /// Switch it on.
    Enable,
    /// Switch it off.
    Disable,
    /// List anew what it offers.
    Refresh,
}

/// Tools, prompts, resources or templates of one server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Catalogue {
    pub(crate) server: String,
    pub(crate) version: u64,
    pub(crate) stale: bool,
    pub(crate) items: Vec<CatalogueItem>,
}

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CatalogueItem {
    /// What clients of all servers call it.
    pub(crate) public_name: Option<String>,
    /// Whether clients get to see it at all.
    pub(crate) offered: bool,
    /// As the server sent it.
    pub(crate) definition: Value,
}

/// A tool is to be called.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TryCall {
    /// As its server calls it.
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Option<Value>,
    /// How long it may take; the server's setting if absent.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
}

/// What became of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TriedCall {
    pub(crate) outcome: CallOutcome,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<CallTrouble>,
    pub(crate) duration_ms: f64,
    pub(crate) waited_ms: f64,
    pub(crate) generation: Option<u64>,
    pub(crate) resent: bool,
}

/// Why there is no result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CallTrouble {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

/// What became of a call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallOutcome {
    /// A result came back, or an error of the server's own.
    Answered,
    /// Nothing of it left.
    NotSent,
    /// The server refused it unexecuted.
    Rejected,
    /// It was sent, and no answer came.
    Unknown,
    /// Its caller gave it up.
    Cancelled,
}

/// What a child wrote to its standard error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServerLogs {
    pub(crate) server: String,
    /// The number of the line to come: ask for lines after this one less 1.
    pub(crate) next: u64,
    pub(crate) lines: Vec<LogLine>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LogLine {
    /// Counted from 0 since the gateway knows the server.
    pub(crate) n: u64,
    pub(crate) text: String,
}

/// Recent calls, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CallList {
    pub(crate) calls: Vec<CallReport>,
}

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CallReport {
    /// Counts calls since the gateway started.
    pub(crate) n: u64,
    /// When it began.
    pub(crate) at_unix_ms: u64,
    /// What the client calls itself.
    pub(crate) client: String,
    /// The name of the key it came with.
    pub(crate) key: Option<String>,
    pub(crate) server: String,
    pub(crate) method: String,
    pub(crate) tool: Option<String>,
    pub(crate) outcome: CallOutcome,
    /// Why it has no result.
    pub(crate) error: Option<String>,
    pub(crate) duration_ms: f64,
    /// Of that, waiting for a connection or a free place.
    pub(crate) waited_ms: f64,
    /// Of that, with the server.
    pub(crate) upstream_ms: f64,
    pub(crate) generation: Option<u64>,
    pub(crate) resent: bool,
    pub(crate) request_bytes: u64,
    pub(crate) result_bytes: u64,
    /// Only if `gateway.record_arguments` says so.
    pub(crate) arguments: Option<Value>,
}

/// Who is there.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SessionList {
    pub(crate) count: usize,
    /// At most 1000 of them.
    pub(crate) sessions: Vec<SessionReport>,
}

/// One client.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SessionReport {
    /// What it calls itself.
    pub(crate) client: String,
    /// The name of the key it came with.
    pub(crate) key: Option<String>,
    pub(crate) protocol: String,
    /// `all`, or the one server it sees.
    pub(crate) scope: String,
    pub(crate) age_ms: u64,
    pub(crate) idle_ms: u64,
    pub(crate) calls_in_flight: usize,
}

/// Something happened.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Happening {
    /// Counts what happened since the gateway started.
    pub(crate) n: u64,
    pub(crate) at_unix_ms: u64,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum What {
    /// Nothing yet: the stream begins.
    Hello,
    /// A server changed its state, or its connection.
    Transition {
        server: String,
        from: ServerState,
        to: ServerState,
        reason: String,
        event: String,
        generation: Option<u64>,
    },
    /// What a server offers changed, or is no longer offered.
    CatalogChanged { server: String, version: u64 },
    /// The configuration was read again.
    Reloaded { added: Vec<String>, removed: Vec<String>, changed: Vec<String> },
    /// The configuration was read again and cannot be used: the one before stays.
    ReloadRejected { problem: String },
    /// Somebody did something to a server.
    Action {
        action: Action,
        server: String,
        /// The name of the key.
        by: Option<String>,
    },
}

// === impl What ===

impl What {
    /// Its kind, as events are named.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Transition { .. } => "transition",
            Self::CatalogChanged { .. } => "catalog_changed",
            Self::Reloaded { .. } => "reloaded",
            Self::ReloadRejected { .. } => "reload_rejected",
            Self::Action { .. } => "action",
        }
    }
}

/// What is logged.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogLevel {
    /// As in `RUST_LOG`: `info`, or `info,evergate_runtime=debug`.
    pub(crate) level: String,
}

/// A request that was not carried out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Problem {
    pub(crate) error: ProblemBody,
}

/// Why.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProblemBody {
    pub(crate) code: ProblemCode,
    pub(crate) message: String,
    /// The name that was probably meant.
    #[serde(default)]
    pub(crate) nearest: Option<String>,
}

/// Why, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProblemCode {
    UnknownServer,
    UnknownTool,
    UnknownPath,
    WrongMethod,
    Unauthorized,
    Forbidden,
    BadRequest,
    /// It makes no sense in the state the server is in.
    Conflict,
    TooLarge,
    /// The key may not call so often.
    RateLimited,
}
