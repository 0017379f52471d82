//! Numbers for Prometheus and whatever else reads its formats: `GET /metrics`.
//!
//! [`names`] is the list of all metrics. What cannot be asked for at any time is counted where it happens: calls at their end
//! ([`ServerMetrics::call_ended`]), the life of servers by the runtime's witness ([`ServerMetrics::happened`]), refusals by
//! `front`. The rest is looked up when somebody asks ([`render`]).
//!
//! The counters are plain atomics ([`cells`]) which a call finds with the one lookup that is made for it anyway, and nothing
//! is formatted before it is asked for.

mod cells;
#[cfg(test)]
mod deploy_tests;
mod exposition;
pub(crate) mod names;
#[cfg(test)]
mod page;
mod per_server;
mod process;
mod render;
mod shown;
mod state_clock;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evergate_runtime::{Happening, StateKind};

pub(crate) use exposition::Format;
pub(crate) use per_server::ServerMetrics;
pub(crate) use render::render;

use crate::gateway::error_body::Refusal;
use cells::Counter;

/// What is counted of the gateway as a whole.
#[derive(Debug, Default)]
pub(crate) struct GatewayMetrics {
    refused: [Counter; Refusal::ALL.len()],
    reloads: Counter,
    failed_reloads: Counter,
    reload_failed: AtomicBool,
    /// Connections that are wanted and not there: only then can a list be stale.
    away: AtomicUsize,
}

// === impl GatewayMetrics ===

impl GatewayMetrics {
    pub(crate) fn refused(&self, refusal: Refusal) {
        // As many as there are refusals.
        if let Some(refused) = self.refused.get(refusal as usize) {
            refused.add(1);
        }
    }

    /// The configuration was read again, and is in force or cannot be used.
    pub(crate) fn reloaded(&self, ok: bool) {
        if ok { &self.reloads } else { &self.failed_reloads }.add(1);
        self.reload_failed.store(!ok, Ordering::Relaxed);
    }

    /// Whether any server may be out of reach.
    pub(crate) fn any_away(&self) -> bool {
        self.away.load(Ordering::Relaxed) > 0
    }

    /// Takes note of what became of some server.
    pub(crate) fn happened(&self, what: Happening) {
        let (from, to) = match what {
            Happening::Began(state) => (None, Some(state)),
            Happening::Moved { from, to } => (Some(from), Some(to)),
            Happening::Ended(state) => (Some(state), None),
            _ => return,
        };
        if to.is_some_and(is_away) {
            self.away.fetch_add(1, Ordering::Relaxed);
        }
        if from.is_some_and(is_away) {
            self.away.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn is_away(state: StateKind) -> bool {
    matches!(state, StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected)
}
