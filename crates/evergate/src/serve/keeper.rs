//! Keeps on disk what the next run of the process needs: what servers offer, and what clients asked for.

use std::sync::Arc;
use std::time::Duration;

use crate::front::Front;
use crate::gateway::Gateway;
use crate::state::{StateDir, StoredCatalogs};

/// Changes come in bursts, and a lost second of them does no harm.
const PAUSE: Duration = Duration::from_secs(1);

/// Ends with the draining: what servers offer vanishes as they are switched off, and must not vanish from the disk.
pub(super) async fn keep_catalogs(state: StateDir, gateway: Arc<Gateway>) {
    let mut catalog = gateway.hub().watch_catalog();
    let keeping = async {
        while catalog.changed().await.is_ok() {
            tokio::time::sleep(PAUSE).await;
            catalog.mark_unchanged();
            save_catalogs(&state, &gateway);
        }
    };
    gateway.draining.run_until_cancelled(keeping).await;
}

pub(super) async fn keep_sessions(state: StateDir, front: Arc<Front>) {
    let mut last = None;
    loop {
        tokio::time::sleep(PAUSE).await;
        let sessions = front.sessions.to_save(&front.gateway);
        if last.as_ref() != Some(&sessions) {
            report(state.save_sessions(&sessions), "sessions");
            last = Some(sessions);
        }
    }
}

pub(super) fn save_sessions(state: &StateDir, front: &Front) {
    report(state.save_sessions(&front.sessions.to_save(&front.gateway)), "sessions");
}

/// To be called before the servers are switched off.
pub(super) fn save_catalogs(state: &StateDir, gateway: &Gateway) {
    let config = gateway.config();
    let catalog = gateway.hub().catalog();
    let saved: StoredCatalogs = config
        .servers
        .iter()
        .filter_map(|(name, server)| {
            let catalog = catalog.server(name)?.to_saved();
            Some((name.clone(), (server.connection_digest.clone(), catalog)))
        })
        .collect();
    report(state.save_catalogs(&saved), "catalogs");
}

fn report(result: std::io::Result<()>, what: &str) {
    if let Err(error) = result {
        tracing::warn!(%error, "cannot save {what} in the state directory");
    }
}
