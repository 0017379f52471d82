//! How a server is of which each client has a connection of its own: all of them together, and the newest that failed.

use std::sync::Arc;
use std::time::SystemTime;

use evergate_runtime::Status;

use super::model::{ServerReport, ServerState};
use super::why::{self, Around};
use crate::config::Server;
use crate::gateway::{Gateway, is_troubled};
use crate::observed::unix_ms;

/// The connections of all clients to one server.
struct Connections {
    all: Vec<Status>,
    /// The newest that failed; it may be gone.
    failed: Option<Failed>,
}

struct Failed {
    status: Arc<Status>,
    at: SystemTime,
    is_gone: bool,
}

pub(super) fn fill_in(gateway: &Gateway, name: &str, server: &Server, report: &mut ServerReport) {
    let connections = Connections::of(gateway, name, server);
    let all = &connections.all;
    report.connections = Some(all.len());
    report.in_flight = all.iter().map(|status| status.in_flight).sum();
    report.held = all.iter().map(|status| status.held).sum();
    report.queued = all.iter().map(|status| status.queued).sum();
    report.reconnects = all.iter().map(|status| status.reconnects).sum();
    if server.disabled {
        "Switched off by the configuration.".clone_into(&mut report.why);
        return;
    }
    report.state = ServerState::PerClient;
    report.why = connections.sentence();
    let Some(Failed { status, at, .. }) = &connections.failed else { return };
    let around = Around {
        now: SystemTime::now(),
        history: &[],
        off_in_file: false,
        target: &server.summary,
    };
    report.degraded = true;
    report.since_unix_ms = unix_ms(status.since);
    report.reason = Some(status.reason.to_string());
    // It cannot be switched off for all clients, and so not on.
    report.hint = why::hint(status, around).map(|hint| hint.replace(" or enable", ""));
    report.last_error.clone_from(&status.last_error);
    report.last_error_unix_ms = Some(unix_ms(*at));
    report.stderr_tail.clone_from(&status.stderr_tail);
}

/// Whether somebody should look at it.
pub(crate) fn is_in_trouble(gateway: &Gateway, name: &str, server: &Server) -> bool {
    Connections::of(gateway, name, server).failed.is_some()
}

/// What the newest of them that failed wrote last; if none failed, what the newest of all did.
pub(super) fn last_words(gateway: &Gateway, name: &str, server: &Server) -> Vec<String> {
    let connections = Connections::of(gateway, name, server);
    if let Some(failed) = connections.failed {
        return failed.status.stderr_tail.clone();
    }
    let newest = connections.all.into_iter().max_by_key(|status| status.since);
    newest.map(|status| status.stderr_tail).unwrap_or_default()
}

// === impl Connections ===

impl Connections {
    fn of(gateway: &Gateway, name: &str, server: &Server) -> Self {
        let clients = gateway.clients.with_servers();
        let handles = clients.iter().filter_map(|client| client.private.handle(name));
        let all: Vec<Status> = handles.map(|handle| handle.status()).collect();
        let at = |status: &Status| status.last_error_at.unwrap_or(status.since);
        let there = all.iter().filter(|status| is_troubled(status)).max_by_key(|status| at(status));
        let there = there.map(|status| Failed {
            status: Arc::new(status.clone()),
            at: at(status),
            is_gone: false,
        });
        // Where one works, a client that had no luck may have had itself to thank for it.
        let works = all.iter().any(|status| status.connected_since.is_some());
        let gone = gateway.past_failures.newest(name, &server.connection_digest);
        let gone = gone.filter(|_| !works);
        let gone = gone.map(|past| Failed { status: past.status, at: past.at, is_gone: true });
        Self { failed: there.or(gone), all }
    }

    fn sentence(&self) -> String {
        let total = self.all.len();
        let now = match total {
            0 => "Each client has a connection of its own; none has one now.".to_owned(),
            1 => "Each client has a connection of its own; one has one now.".to_owned(),
            n => format!("Each client has a connection of its own; {n} have one now."),
        };
        let Some(Failed { status, at, is_gone }) = &self.failed else { return now };
        let because = status.last_error.clone();
        let because = because.unwrap_or_else(|| why::words(status.reason).to_owned());
        if *is_gone {
            let ago = SystemTime::now().duration_since(*at).unwrap_or_default();
            return format!(
                "{now} The last one that failed did so {} ago: {because}.",
                why::length(ago)
            );
        }
        let troubled = self.all.iter().filter(|status| is_troubled(status)).count();
        match (troubled, total) {
            (_, 1) => format!("The connection of the only client is in trouble: {because}."),
            (1, total) => format!("1 of {total} clients' connections is in trouble: {because}."),
            (n, total) => format!("{n} of {total} clients' connections are in trouble: {because}."),
        }
    }
}
