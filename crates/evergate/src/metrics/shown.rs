//! What is known of one server at the moment of a scrape.

use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{ServerCatalog, StateKind, Status};

use super::ServerMetrics;
use super::per_server::Calls;
use super::state_clock::STATES;
use crate::config::{Isolation, Server};
use crate::gateway::Gateway;

/// One server, as far as anything is known of it.
pub(super) struct Shown<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a Server,
    pub(super) metrics: Arc<ServerMetrics>,
    pub(super) calls: Calls,
    /// In the order of [`StateKind::ALL`].
    pub(super) states: [(StateKind, u32, Duration); STATES],
    /// Of a shared server.
    pub(super) status: Option<Status>,
    pub(super) catalog: Option<Arc<ServerCatalog>>,
    /// Of a server that each client has for itself.
    pub(super) own: Option<OwnConnections>,
}

#[derive(Default)]
pub(super) struct OwnConnections {
    pub(super) count: u64,
    pub(super) in_flight: u64,
    pub(super) held: u64,
    pub(super) queued: u64,
    pub(super) breakers: u64,
}

// === impl Shown ===

impl<'a> Shown<'a> {
    pub(super) fn look(gateway: &Gateway, name: &'a str, server: &'a Server) -> Self {
        let metrics = gateway.observed.metrics_of(name);
        let states = metrics.states().read();
        let is_shared = server.isolation == Isolation::Shared;
        let handle = gateway.hub().server(name).ok().filter(|_| is_shared);
        Self {
            name,
            server,
            states,
            calls: metrics.calls(),
            metrics,
            catalog: handle.as_ref().and_then(|_| gateway.hub().catalog().server(name).cloned()),
            status: handle.map(|handle| handle.status()),
            own: (!is_shared).then(|| OwnConnections::now(gateway, name)),
        }
    }

    /// A number of its connection, or of all of them.
    pub(super) fn now(
        &self,
        of_shared: impl Fn(&Status) -> usize,
        of_own: impl Fn(&OwnConnections) -> u64,
    ) -> Option<u64> {
        let shared = self.status.as_ref().map(|status| of_shared(status) as u64);
        shared.or_else(|| self.own.as_ref().map(of_own))
    }
}

// === impl OwnConnections ===

impl OwnConnections {
    fn now(gateway: &Gateway, name: &str) -> Self {
        let clients = gateway.clients.with_servers();
        let handles = clients.iter().flat_map(|client| client.private.handles());
        let statuses = handles.filter(|handle| handle.name() == name).map(|one| one.status());
        statuses.fold(Self::default(), |sum, status| Self {
            count: sum.count + 1,
            in_flight: sum.in_flight + status.in_flight as u64,
            held: sum.held + status.held as u64,
            queued: sum.queued + status.queued as u64,
            breakers: sum.breakers + u64::from(status.refuses_calls()),
        })
    }
}
