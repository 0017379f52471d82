//! Keeps on disk what the next run of the process needs: what servers offer, and what clients asked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::front::Front;
use crate::gateway::Gateway;
use crate::state::{StateDir, StoredCatalogs, StoredSessions};

/// Changes come in bursts, and a lost second of them does no harm.
const PAUSE: Duration = Duration::from_secs(1);

/// What is kept, and where.
#[derive(Debug)]
pub(super) struct Keeper {
    state: StateDir,
    front: Arc<Front>,
    /// What was saved last. Held while saving, so that nothing older is written over something newer.
    saved: Mutex<Option<StoredSessions>>,
}

// === impl Keeper ===

impl Keeper {
    pub(super) fn new(state: StateDir, front: Arc<Front>) -> Arc<Self> {
        Arc::new(Self { state, front, saved: Mutex::default() })
    }

    /// Saves what changes, for ever.
    pub(super) async fn run(self: Arc<Self>) {
        let mut catalog = self.front.gateway.hub().watch_catalog();
        catalog.mark_changed();
        loop {
            tokio::time::sleep(PAUSE).await;
            let catalog_changed = catalog.has_changed().unwrap_or(false);
            if catalog_changed {
                catalog.mark_unchanged();
            }
            let myself = self.clone();
            // Thousands of sessions and tools take a while to write down, and disks take their time.
            let saving = tokio::task::spawn_blocking(move || {
                if catalog_changed {
                    save_catalogs(&myself.state, &myself.front.gateway);
                }
                myself.save();
            });
            // It cannot fail but by a panic, and the next one may do better.
            let _ = saving.await;
        }
    }

    /// The sessions as of now, if they are not as they were.
    pub(super) fn save(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = self.front.sessions.to_save(&self.front.gateway);
        if saved.as_ref() != Some(&sessions) {
            report(self.state.save_sessions(&sessions), "sessions");
            *saved = Some(sessions);
        }
    }
}

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
