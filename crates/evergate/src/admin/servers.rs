//! How servers are.

use std::time::{Duration, SystemTime};

use evergate_runtime::{Generation, StateKind, Status};
use tokio::time::Instant;

use super::model::{
    Breaker, Budget, Budgets, CatalogReport, Era, IsolationReport, LogLine, Problem, ServerList,
    ServerLogs, ServerReport, ServerState,
};
use super::per_client;
use super::why::{self, Around};
use crate::config::{Isolation, Server};
use crate::gateway::Gateway;
use crate::observed::unix_ms;
use crate::remedy;

/// Enough to compare two; all of it would be a way to try guesses at what is secret in it.
const DIGEST_SHOWN: usize = 12;

/// Most servers need less; one that needs more may have a problem.
const TO_START: Duration = Duration::from_secs(5);

/// All of them.
pub(crate) fn servers(gateway: &Gateway) -> ServerList {
    let config = gateway.config();
    let servers = config.servers.iter().map(|(name, server)| report(gateway, name, server));
    ServerList { servers: servers.collect() }
}

/// One of them.
pub(crate) fn server(gateway: &Gateway, name: &str) -> Result<ServerReport, Problem> {
    let config = gateway.config();
    let server = config.servers.get(name);
    let server = server.ok_or_else(|| Problem::unknown_server(name, &config))?;
    Ok(report(gateway, name, server))
}

/// What a child wrote to its standard error after line `after`, as far as it is kept.
pub(crate) fn logs(
    gateway: &Gateway,
    name: &str,
    after: Option<u64>,
) -> Result<ServerLogs, Problem> {
    let config = gateway.config();
    let server = config.servers.get(name);
    let server = server.ok_or_else(|| Problem::unknown_server(name, &config))?;
    if server.isolation == Isolation::PerClient {
        // Whose lines these are may be another client each time, so there is nothing to go on from.
        let words = per_client::last_words(gateway, name, server);
        let lines = (0..).zip(words).map(|(n, text)| LogLine { n, text }).collect();
        return Ok(ServerLogs { server: name.to_owned(), next: 0, lines });
    }
    let Ok(handle) = gateway.hub().server(name) else {
        return Ok(ServerLogs { server: name.to_owned(), next: 0, lines: Vec::new() });
    };
    let status = handle.status();
    let next = status.stderr_lines;
    let first = next.saturating_sub(status.stderr_tail.len() as u64);
    let lines = (first..).zip(status.stderr_tail).map(|(n, text)| LogLine { n, text });
    let lines = lines.filter(|line| after.is_none_or(|after| line.n > after)).collect();
    Ok(ServerLogs { server: name.to_owned(), next, lines })
}

fn report(gateway: &Gateway, name: &str, server: &Server) -> ServerReport {
    let mut report = unstarted(gateway, name, server);
    if let Some(why) = &server.unusable {
        report.state = ServerState::Unusable;
        report.why = format!("Left out: {why}.");
        report.hint = Some(match remedy::unset_variable(why) {
            Some(name) => format!(
                "set {name} in the gateway's environment and restart it, or give it a default (`${{{name}:-…}}`)"
            ),
            None => "fix its entry in the configuration; it is read again by itself".to_owned(),
        });
        return report;
    }
    if server.isolation == Isolation::PerClient {
        per_client::fill_in(gateway, name, server, &mut report);
        return report;
    }
    if let Ok(handle) = gateway.hub().server(name) {
        fill_in(gateway, server, &handle.status(), &mut report);
    }
    report
}

/// What is known without a connection.
fn unstarted(gateway: &Gateway, name: &str, server: &Server) -> ServerReport {
    let budget = Budget { failures: 0, threshold: 0 };
    ServerReport {
        name: name.to_owned(),
        state: ServerState::Disabled,
        degraded: false,
        starting: false,
        since_unix_ms: unix_ms(gateway.started_at()),
        reason: None,
        why: "Not started.".to_owned(),
        hint: None,
        generation: None,
        session_age_ms: None,
        attempts: 0,
        next_retry_ms: None,
        last_error: None,
        last_error_unix_ms: None,
        reconnects: 0,
        budgets: Budgets { discovery: budget, rpc: budget },
        in_flight: 0,
        held: 0,
        queued: 0,
        max_in_flight: 0,
        max_held: 0,
        breaker: None,
        catalog: None,
        pid: None,
        stderr_tail: Vec::new(),
        protocol: None,
        era: None,
        transport: None,
        target: server.place(),
        config_digest: server.connection_digest.chars().take(DIGEST_SHOWN).collect(),
        required: server.required,
        isolation: match server.isolation {
            Isolation::Shared => IsolationReport::Shared,
            Isolation::PerClient => IsolationReport::PerClient,
        },
        enabled: server.is_on(),
        connections: None,
        calls: gateway.observed.counts(name),
        history: gateway.observed.history(name),
    }
}

fn fill_in(gateway: &Gateway, server: &Server, status: &Status, report: &mut ServerReport) {
    let now = SystemTime::now();
    let threshold = status.failure_threshold;
    let around = Around {
        now,
        history: &report.history,
        off_in_file: server.disabled,
        target: &report.target,
    };
    let (why, hint) = (why::sentence(status, around), why::hint(status, around));
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let age = status.connected_since.and_then(|since| now.duration_since(since).ok());
    let retry = status.next_retry_at.map(|at| at.saturating_duration_since(Instant::now()));
    report.state = status.state.into();
    report.degraded = status.degraded;
    report.starting = status.state == StateKind::Connecting
        && status.last_error.is_none()
        && now.duration_since(status.since).is_ok_and(|since| since < TO_START);
    report.since_unix_ms = unix_ms(status.since);
    report.reason = Some(status.reason.to_string());
    report.why = why;
    report.hint = hint;
    report.generation = status.generation.map(Generation::get);
    report.session_age_ms = age.map(ms);
    report.attempts = status.attempts;
    report.next_retry_ms = retry.map(ms);
    report.last_error.clone_from(&status.last_error);
    report.last_error_unix_ms = status.last_error_at.map(unix_ms);
    report.reconnects = status.reconnects;
    report.budgets = Budgets {
        discovery: Budget { failures: status.discovery_failures, threshold },
        rpc: Budget { failures: status.rpc_failures, threshold },
    };
    report.in_flight = status.in_flight;
    report.held = status.held;
    report.queued = status.queued;
    report.max_in_flight = status.max_in_flight;
    report.max_held = status.max_held;
    report.breaker = status.rate_limited.as_ref().map(|limited| {
        let left = limited.until.saturating_duration_since(Instant::now());
        Breaker { open: !left.is_zero(), probe_in_ms: ms(left), because: limited.because.clone() }
    });
    report.catalog = catalog(gateway, status);
    report.pid = status.pid;
    report.stderr_tail.clone_from(&status.stderr_tail);
    report.protocol = status.protocol.map(|protocol| protocol.to_string());
    report.era = status
        .protocol
        .map(|protocol| if protocol.is_modern() { Era::Stateless } else { Era::Handshake });
    report.transport = status.transport.map(str::to_owned);
    report.enabled = !matches!(status.state, StateKind::Disabled | StateKind::Disabling);
}

fn catalog(gateway: &Gateway, status: &Status) -> Option<CatalogReport> {
    let catalog = gateway.hub().catalog();
    let entry = catalog.server(&status.server)?;
    Some(CatalogReport {
        version: catalog.version,
        tools: entry.tools.len(),
        prompts: entry.prompts.len(),
        resources: entry.resources.len(),
        resource_templates: entry.resource_templates.len(),
        stale: status.state != StateKind::Connected || entry.generation != status.generation,
    })
}
