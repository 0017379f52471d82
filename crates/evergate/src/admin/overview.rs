//! The gateway itself.

use std::collections::BTreeMap;

use super::model::{GatewayReport, Health, ServerState};
use super::servers;
use crate::front::Front;
use crate::gateway::Gateway;
use crate::observed::unix_ms;
use crate::timestamp;

pub(crate) fn overview(front: &Front) -> GatewayReport {
    let gateway = &front.gateway;
    let servers = servers(gateway).servers;
    let mut by_state: BTreeMap<String, usize> = BTreeMap::new();
    for server in &servers {
        *by_state.entry(server.state.as_str().to_owned()).or_default() += 1;
    }
    let draining = gateway.draining.has_begun();
    let troubled = servers.iter().any(|server| {
        let up = matches!(server.state, ServerState::Connected | ServerState::PerClient);
        let down = server.enabled && !up && !server.starting;
        let refuses = server.breaker.as_ref().is_some_and(|breaker| breaker.open);
        server.state == ServerState::Unusable || server.degraded || down || refuses
    });
    let waiting = gateway.waiting_for();
    let health = if draining {
        Health::Draining
    } else if !waiting.is_empty() {
        Health::Unhealthy
    } else if troubled {
        Health::Degraded
    } else {
        Health::Healthy
    };
    let (buffered_bytes, max_buffered_bytes) = gateway.buffered();
    GatewayReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_unix_ms: unix_ms(gateway.started_at()),
        uptime_ms: u64::try_from(gateway.uptime().as_millis()).unwrap_or(u64::MAX),
        draining,
        ready: !draining && waiting.is_empty(),
        status: health,
        listen: front.place.address.to_string(),
        admin_listen: front.place.admin_address.map(|address| address.to_string()),
        config_files: front.place.config_files.clone(),
        config_revision: gateway.revision(),
        sessions: gateway.clients.sessions(),
        calls_in_flight: servers.iter().map(|server| server.in_flight).sum(),
        calls_held: servers.iter().map(|server| server.held).sum(),
        buffered_bytes,
        max_buffered_bytes,
        catalog_version: gateway.hub().catalog().version,
        warnings: warnings(gateway),
        servers: by_state,
    }
}

fn warnings(gateway: &Gateway) -> Vec<String> {
    let rejected = gateway.rejected().map(|(at, problem)| {
        format!(
            "the new configuration was not taken at {} and the one before stays in force: {problem}",
            timestamp::rfc3339(at)
        )
    });
    rejected.into_iter().chain(gateway.name_warnings()).collect()
}

// === impl ServerState ===

impl ServerState {
    /// The name used in JSON and in metric labels.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Disconnected => "disconnected",
            Self::Disabling => "disabling",
            Self::PermanentlyFailed => "permanently_failed",
            Self::PerClient => "per_client",
            Self::Unusable => "unusable",
            Self::Unknown => "unknown",
        }
    }

    /// What people read on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Disabling => "stopping",
            Self::PermanentlyFailed => "failed",
            Self::PerClient => "per client",
            other => other.as_str(),
        }
    }
}
