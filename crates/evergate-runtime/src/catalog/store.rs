//! Where snapshots are published, and the one place that decides whether a listing still counts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::{broadcast, watch};

use super::{Catalog, Item, ServerCatalog};
use crate::lifecycle::Generation;
use crate::observe::HubEvent;
use crate::protocol::RawJson;

/// The catalog of a hub. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CatalogStore {
    catalog: watch::Sender<Arc<Catalog>>,
    /// Which generation may publish for each server; decided under the same lock as the publication.
    current: Arc<Mutex<HashMap<Arc<str>, Generation>>>,
    events: broadcast::Sender<HubEvent>,
}

// === impl CatalogStore ===

impl CatalogStore {
    pub(crate) fn new(events: broadcast::Sender<HubEvent>) -> Self {
        Self { catalog: watch::Sender::default(), current: Arc::default(), events }
    }

    pub(crate) fn snapshot(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// From now on listings of this generation count, and of no other.
    pub(crate) fn set_current(&self, server: &Arc<str>, generation: Generation) {
        self.current().insert(server.clone(), generation);
    }

    /// Publishes a listing, unless its connection is no longer the one that counts.
    pub(crate) fn publish(&self, server: &Arc<str>, entry: ServerCatalog) {
        let current = self.current();
        if current.get(server) != Some(&entry.generation) {
            return;
        }
        self.change(server, |catalog| {
            let same = catalog.server(server).is_some_and(|old| old.digest == entry.digest);
            catalog.servers.insert(server.clone(), Arc::new(entry));
            !same
        });
    }

    /// Nothing of this server is on offer any more.
    pub(crate) fn remove(&self, server: &Arc<str>) {
        let mut current = self.current();
        current.remove(server);
        self.change(server, |catalog| catalog.servers.shift_remove(server).is_some());
    }

    fn change(&self, server: &Arc<str>, edit: impl FnOnce(&mut Catalog) -> bool) {
        self.catalog.send_if_modified(|catalog| {
            let mut next = Catalog::clone(catalog);
            let changed = edit(&mut next);
            if changed {
                next.version += 1;
                next.servers.sort_unstable_keys();
                // Nobody listening is fine.
                let event =
                    HubEvent::CatalogChanged { server: server.clone(), version: next.version };
                let _ = self.events.send(event);
            }
            *catalog = Arc::new(next);
            changed
        });
    }

    fn current(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Generation>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ServerCatalog ===

impl ServerCatalog {
    pub(super) fn new(
        generation: Generation,
        lists: [Vec<Item>; 4],
        capabilities: RawJson,
        server_info: RawJson,
        instructions: Option<String>,
    ) -> Self {
        let mut hash = Sha256::new();
        for list in &lists {
            // The order of a list carries no meaning, and some servers change it at will.
            let mut items: Vec<&Item> = list.iter().collect();
            items.sort_unstable_by(|a, b| a.raw.as_bytes().cmp(b.raw.as_bytes()));
            absorb(&mut hash, &list.len().to_le_bytes());
            for item in items {
                absorb(&mut hash, item.raw.as_bytes());
            }
        }
        absorb(&mut hash, capabilities.as_bytes());
        absorb(&mut hash, server_info.as_bytes());
        absorb(&mut hash, instructions.as_deref().unwrap_or_default().as_bytes());
        let digest = hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing into a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let [tools, prompts, resources, resource_templates] = lists;
        Self {
            generation,
            digest,
            tools,
            prompts,
            resources,
            resource_templates,
            capabilities,
            server_info,
            instructions,
        }
    }
}

/// Length first, so that no two different sequences look the same.
fn absorb(hash: &mut Sha256, bytes: &[u8]) {
    hash.update(bytes.len().to_le_bytes());
    hash.update(bytes);
}
