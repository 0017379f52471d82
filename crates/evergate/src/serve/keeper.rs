//! Keeps on disk what the next run of the process needs: what servers offer, and what clients asked for.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::front::Front;
use crate::gateway::Gateway;
use crate::logging::seldom::Seldom;
use crate::state::{StateDir, StoredCatalogs, StoredSessions};

/// Changes come in bursts, and a lost second of them does no harm.
const PAUSE: Duration = Duration::from_secs(1);

/// Ends with the draining: what servers offer vanishes as they are switched off, and must not vanish from the disk.
pub(super) async fn keep_catalogs(state: StateDir, gateway: Arc<Gateway>) {
    let mut catalog = gateway.hub().watch_catalog();
    let keeping = async {
        while catalog.changed().await.is_ok() {
            tokio::time::sleep(PAUSE).await;
            catalog.mark_unchanged();
            save_catalogs(&state, &gateway).await;
        }
    };
    gateway.draining.token().run_until_cancelled(keeping).await;
}

pub(super) async fn keep_sessions(state: StateDir, front: Arc<Front>) {
    let fingerprint = RandomState::new();
    let mut last = None;
    loop {
        tokio::time::sleep(PAUSE).await;
        let sessions = front.sessions.to_save(&front.gateway);
        // A number stands for what was written: there may be a great many, and one copy of them is enough.
        let now = Some(fingerprint.hash_one(&sessions));
        if last != now {
            write_sessions(&state, sessions).await;
            last = now;
        }
    }
}

/// The sessions, as of now.
pub(super) async fn save_sessions(state: &StateDir, front: &Front) {
    write_sessions(state, front.sessions.to_save(&front.gateway)).await;
}

/// The catalogs, as of now. To be called before the servers are switched off.
pub(super) async fn save_catalogs(state: &StateDir, gateway: &Gateway) {
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
    let state = state.clone();
    write("catalogs", move || state.save_catalogs(&saved)).await;
}

async fn write_sessions(state: &StateDir, sessions: StoredSessions) {
    let state = state.clone();
    write("sessions", move || state.save_sessions(&sessions)).await;
}

async fn write(what: &str, save: impl FnOnce() -> io::Result<()> + Send + 'static) {
    let saved = tokio::task::spawn_blocking(save).await;
    if let Err(error) = saved.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
        static TROUBLE: Seldom = Seldom::new();
        if let Some(suppressed) = TROUBLE.may_say() {
            tracing::warn!(%error, suppressed, "cannot save {what} in the state directory");
        }
    }
}
