//! Every metric there is: its name, kind, unit, labels and what it says. The page `docs/reference/metrics.md` is made from
//! this table, nothing is written that is not in it, and the dashboard and the alerts in `deploy/` may use nothing else.
//!
//! Label values come from the configuration (names of servers) and from enums. Names of tools, clients and keys are no
//! labels: there may be thousands. The recent calls of the admin API and the audit log have them.

/// One metric.
#[derive(Debug)]
pub(crate) struct Family {
    /// Without what its kind appends to it.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The last word of the name, if there is one.
    pub(crate) unit: &'static str,
    pub(crate) labels: &'static [&'static str],
    /// One sentence or more, without the last full stop.
    pub(crate) help: &'static str,
}

/// What kind of numbers it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows, until the process ends.
    Counter,
    Gauge,
    Histogram,
    /// Always 1: what it says is in its labels.
    Info,
}

const SERVER: &[&str] = &["server"];
const SERVER_REASON: &[&str] = &["server", "reason"];

const fn counter(
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Counter, unit, labels, help }
}

const fn gauge(
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Gauge, unit, labels, help }
}

const fn seconds(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Histogram, unit: "seconds", labels: SERVER, help }
}

// === the gateway ===

pub(super) static BUILD: Family = Family {
    name: "evergate_build",
    kind: Kind::Info,
    unit: "",
    labels: &["version"],
    help: "Which version runs",
};
pub(super) static READY: Family = gauge(
    "evergate_ready",
    "",
    &[],
    "1 if requests are taken and every required server is connected, as /readyz says",
);
pub(super) static DRAINING: Family =
    gauge("evergate_draining", "", &[], "1 once the gateway has begun to end");
pub(super) static SESSIONS: Family =
    gauge("evergate_sessions", "", &[], "Sessions of clients that are open");
pub(super) static BUFFERED: Family = gauge(
    "evergate_buffered_bytes",
    "bytes",
    &[],
    "Held for clients: large requests and results on their way to them, and streams that can be taken up again",
);
pub(super) static BUFFERED_LIMIT: Family = gauge(
    "evergate_buffered_limit_bytes",
    "bytes",
    &[],
    "How much may be held for clients before requests are refused: gateway.max_buffered_bytes",
);
pub(super) static REFUSED: Family = counter(
    "evergate_refused_requests",
    "",
    &["reason"],
    "Requests of clients that were refused before any server was concerned",
);
pub(super) static CATALOG_VERSION: Family = gauge(
    "evergate_catalog_version",
    "",
    &[],
    "Grows by one with every change of what the shared servers offer",
);
pub(super) static CONFIG_REVISION: Family =
    gauge("evergate_config_revision", "", &[], "Configurations in force so far, this one included");
pub(super) static RELOADS: Family = counter(
    "evergate_config_reloads",
    "",
    &["outcome"],
    "Times the configuration was read again: ok, or failed, and then the one before stays in force",
);
pub(super) static RELOAD_FAILED: Family = gauge(
    "evergate_config_reload_failed",
    "",
    &[],
    "1 if the configuration as it is now on disk could not be used, and an earlier one is in force",
);

// === servers: how they are ===

pub(super) static STATE: Family = gauge(
    "evergate_server_state",
    "",
    &["server", "state"],
    "1 for the state a shared server is in, 0 for the others. Of a server that each client has for itself, how many \
     connections are in each state. A server whose configuration cannot be used has the state unusable alone",
);
pub(super) static STATE_SECONDS: Family = counter(
    "evergate_server_state_seconds",
    "seconds",
    &["server", "state"],
    "Time spent in each state, so that rate() is the share of time; of a server that each client has for itself, added \
     up over all connections",
);
pub(super) static REASON: Family = gauge(
    "evergate_server_reason",
    "",
    SERVER_REASON,
    "1 for why a shared server is in its state; only the present reason is there",
);
pub(super) static SINCE: Family = gauge(
    "evergate_server_state_since_timestamp_seconds",
    "seconds",
    SERVER,
    "Since when a shared server is in its state, in seconds since 1970",
);
pub(super) static SERVER_INFO: Family = Family {
    name: "evergate_server",
    kind: Kind::Info,
    unit: "",
    labels: &["server", "transport", "protocol", "isolation", "required"],
    help: "How a server is reached; transport and protocol are empty while it is not connected",
};
pub(super) static DEGRADED: Family = gauge(
    "evergate_server_degraded",
    "",
    SERVER,
    "1 if the server is connected and recent calls or listings failed",
);
pub(super) static GENERATION: Family = gauge(
    "evergate_server_generation",
    "",
    SERVER,
    "Which connection serves calls, or did last: counts up from 1",
);
pub(super) static ATTEMPTS: Family = gauge(
    "evergate_server_reconnect_attempts",
    "",
    SERVER,
    "Attempts to reconnect since the server last proved itself",
);
pub(super) static NEXT_RETRY: Family = gauge(
    "evergate_server_next_retry_seconds",
    "seconds",
    SERVER,
    "Time until the next attempt to connect; not there if none is planned",
);
pub(super) static BREAKER: Family = gauge(
    "evergate_server_breaker_open",
    "",
    SERVER,
    "1 while calls are refused because the server limits their rate; of a server that each client has for itself, how \
     many connections",
);
pub(super) static CONNECTIONS: Family = gauge(
    "evergate_server_client_connections",
    "",
    SERVER,
    "Connections that clients have for themselves to a server with isolation = per_client",
);

// === servers: what has happened ===

pub(super) static HANDSHAKES: Family = counter(
    "evergate_server_handshakes",
    "",
    &["server", "outcome"],
    "Attempts to connect and shake hands: ok, unreachable, refused (may pass), permanent (will not pass), aborted by the \
     gateway",
);
pub(super) static LOSSES: Family = counter(
    "evergate_server_connection_losses",
    "",
    SERVER_REASON,
    "Connections lost or given up, by reason",
);
pub(super) static RECONNECTS: Family = counter(
    "evergate_server_reconnects",
    "",
    SERVER_REASON,
    "Connections made in the place of one that was lost, by the reason of that loss. session_lost are renewals of a \
     session that the server had forgotten",
);
pub(super) static RECOVERY: Family = seconds(
    "evergate_server_recovery_seconds",
    "Time from the loss of a connection to the next good one",
);
pub(super) static PROCESS_RESTARTS: Family = counter(
    "evergate_server_process_restarts",
    "",
    SERVER,
    "Child processes started in the place of one that was lost",
);
pub(super) static GARBAGE: Family = counter(
    "evergate_server_garbage_messages",
    "",
    SERVER,
    "Messages of the server that were not JSON-RPC, or too large",
);

// === servers: what they offer ===

pub(super) static CATALOG_ITEMS: Family = gauge(
    "evergate_server_catalog_items",
    "",
    &["server", "kind"],
    "What the server offers as last listed, before filters",
);
pub(super) static CATALOG_STALE: Family = gauge(
    "evergate_server_catalog_stale",
    "",
    SERVER,
    "1 if what the server is said to offer was listed over an earlier connection",
);
pub(super) static STALE_SERVES: Family = counter(
    "evergate_server_stale_serves",
    "",
    SERVER,
    "Lists given to clients with the last good entries of the server while it was not connected",
);

// === calls ===

pub(super) static CALLS: Family = counter(
    "evergate_calls",
    "",
    &["server", "outcome"],
    "Calls that ended: answered (by a result or by an error of the server's own), not_sent, rejected unexecuted, unknown \
     (sent, no answer: it may have run), cancelled by the caller",
);
pub(super) static RESENT: Family = counter(
    "evergate_calls_resent",
    "",
    SERVER,
    "Calls that were sent again after the server had them, or may have had them",
);
pub(super) static IN_FLIGHT: Family =
    gauge("evergate_calls_in_flight", "", SERVER, "Calls that are with the server");
pub(super) static HELD: Family =
    gauge("evergate_calls_held", "", SERVER, "Calls that wait for a connection or for their turn");
pub(super) static QUEUED: Family = gauge(
    "evergate_calls_queued",
    "",
    SERVER,
    "Of the held calls those that wait only because the server has as many calls as it may have at once",
);
pub(super) static IN_FLIGHT_LIMIT: Family = gauge(
    "evergate_calls_in_flight_limit",
    "",
    SERVER,
    "Calls that may be with the server at once",
);
pub(super) static HELD_LIMIT: Family = gauge(
    "evergate_calls_held_limit",
    "",
    SERVER,
    "Calls that may be held at once, before others are refused",
);
pub(super) static WAIT: Family = seconds(
    "evergate_call_wait_seconds",
    "How long calls waited for a connection or for their turn, of those that had to",
);
pub(super) static UPSTREAM: Family = seconds(
    "evergate_call_upstream_seconds",
    "How long calls were with the server, or with whoever it asked something; of a result that is passed on while it \
     arrives, until its end, whoever is slow",
);
pub(super) static OWN: Family = seconds(
    "evergate_call_gateway_seconds",
    "What the gateway itself added to a call: neither waiting nor elsewhere",
);
pub(super) static REQUEST_BYTES: Family = counter(
    "evergate_call_request_bytes",
    "bytes",
    SERVER,
    "Params of calls, as clients sent them",
);
pub(super) static RESULT_BYTES: Family = counter(
    "evergate_call_result_bytes",
    "bytes",
    SERVER,
    "Results of calls, as servers sent them",
);

// === the process; the names are those that every Prometheus client library uses ===

pub(super) static CPU: Family =
    counter("process_cpu_seconds", "seconds", &[], "Time on processors, of user and system");
pub(super) static RESIDENT: Family =
    gauge("process_resident_memory_bytes", "bytes", &[], "Memory in use");
pub(super) static VIRTUAL: Family =
    gauge("process_virtual_memory_bytes", "bytes", &[], "Address space in use");
pub(super) static OPEN_FDS: Family = gauge("process_open_fds", "", &[], "Open files and sockets");
pub(super) static MAX_FDS: Family =
    gauge("process_max_fds", "", &[], "How many open files and sockets the system allows");
pub(super) static THREADS: Family = gauge("process_threads", "", &[], "Threads");
pub(super) static START: Family = gauge(
    "process_start_time_seconds",
    "seconds",
    &[],
    "When the process was started, in seconds since 1970",
);

/// All of them, in the order in which they are written, under headings for the page.
#[cfg(test)]
pub(super) static ALL: &[(&str, &[&Family])] = &[
    (
        "The gateway",
        &[
            &BUILD,
            &READY,
            &DRAINING,
            &SESSIONS,
            &BUFFERED,
            &BUFFERED_LIMIT,
            &REFUSED,
            &CATALOG_VERSION,
            &CONFIG_REVISION,
            &RELOADS,
            &RELOAD_FAILED,
        ],
    ),
    (
        "Servers: how they are",
        &[
            &STATE,
            &STATE_SECONDS,
            &REASON,
            &SINCE,
            &SERVER_INFO,
            &DEGRADED,
            &GENERATION,
            &ATTEMPTS,
            &NEXT_RETRY,
            &BREAKER,
            &CONNECTIONS,
        ],
    ),
    (
        "Servers: what has happened",
        &[&HANDSHAKES, &LOSSES, &RECONNECTS, &RECOVERY, &PROCESS_RESTARTS, &GARBAGE],
    ),
    ("Servers: what they offer", &[&CATALOG_ITEMS, &CATALOG_STALE, &STALE_SERVES]),
    (
        "Calls",
        &[
            &CALLS,
            &RESENT,
            &IN_FLIGHT,
            &HELD,
            &QUEUED,
            &IN_FLIGHT_LIMIT,
            &HELD_LIMIT,
            &WAIT,
            &UPSTREAM,
            &OWN,
            &REQUEST_BYTES,
            &RESULT_BYTES,
        ],
    ),
    (
        "The process (Linux; elsewhere only its start)",
        &[&CPU, &RESIDENT, &VIRTUAL, &OPEN_FDS, &MAX_FDS, &THREADS, &START],
    ),
];

// === impl Family ===

impl Family {
    /// What its samples may be called: what queries name.
    #[cfg(test)]
    pub(super) fn sample_names(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            Kind::Counter => &["_total"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Info => &["_info"],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", self.name)).collect()
    }
}
