//! Where snapshots are published, and the one place that decides whether a listing still counts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::{broadcast, watch};

use super::{CacheHints, Catalog, Item, ServerCatalog};
use crate::lifecycle::Generation;
use crate::observe::HubEvent;
use crate::protocol::RawJson;
use crate::slot::SlotId;

/// The catalog of a hub. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CatalogStore {
    catalog: watch::Sender<Arc<Catalog>>,
    /// Its version, or that of the one which is about to take its place.
    version: Arc<AtomicU64>,
    /// Who may publish for each server; decided under the same lock as the publication.
    owners: Arc<Mutex<Owners>>,
    events: broadcast::Sender<HubEvent>,
}

type Owners = HashMap<Arc<str>, Owner>;

/// Who speaks for a name: one slot, and of that one connection.
#[derive(Debug)]
struct Owner {
    slot: SlotId,
    generation: Option<Generation>,
    /// What is on offer is this slot's own, not that of one it replaced.
    has_published: bool,
}

// === impl CatalogStore ===

impl CatalogStore {
    pub(crate) fn new(events: broadcast::Sender<HubEvent>) -> Self {
        let catalog = watch::Sender::default();
        Self { catalog, version: Arc::default(), owners: Arc::default(), events }
    }

    pub(crate) fn snapshot(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Tells whether a snapshot is the newest, without a lock.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// From now on only this slot may say what the server of that name offers. What is on offer stays for now.
    pub(crate) fn own(&self, server: &Arc<str>, slot: SlotId) {
        let owner = Owner { slot, generation: None, has_published: false };
        self.owners().insert(server.clone(), owner);
    }

    /// Nobody may any more, and nothing is on offer.
    pub(crate) fn disown(&self, server: &str, slot: SlotId) {
        let mut owners = self.owners();
        if owners.get(server).is_some_and(|owner| owner.slot == slot)
            && let Some((server, _)) = owners.remove_entry(server)
        {
            self.withdraw(&server);
        }
    }

    /// From now on listings of this generation count, and of no other.
    pub(crate) fn set_current(&self, server: &str, slot: SlotId, generation: Generation) {
        if let Some(owner) = owner(&mut self.owners(), server, slot) {
            owner.generation = Some(generation);
        }
    }

    /// What this slot published last, and is still on offer.
    pub(crate) fn last_good(&self, server: &str, slot: SlotId) -> Option<Arc<ServerCatalog>> {
        let mut owners = self.owners();
        owner(&mut owners, server, slot).filter(|owner| owner.has_published)?;
        self.catalog.borrow().server(server).cloned()
    }

    /// Publishes a listing, unless its connection is no longer the one that counts.
    pub(crate) fn publish(&self, server: &Arc<str>, slot: SlotId, entry: ServerCatalog) {
        let mut owners = self.owners();
        let Some(owner) = owner(&mut owners, server, slot) else { return };
        if owner.generation.is_none() || owner.generation != entry.generation {
            return;
        }
        owner.has_published = true;
        self.put(server, entry);
    }

    /// Publishes what an earlier process listed.
    pub(crate) fn restore(&self, server: &Arc<str>, slot: SlotId, mut entry: ServerCatalog) {
        let mut owners = self.owners();
        let Some(owner) = owner(&mut owners, server, slot) else { return };
        owner.has_published = true;
        entry.generation = None;
        self.put(server, entry);
    }

    /// Nothing of this server is on offer any more, until it is listed again.
    pub(crate) fn remove(&self, server: &Arc<str>, slot: SlotId) {
        let mut owners = self.owners();
        let Some(owner) = owner(&mut owners, server, slot) else { return };
        *owner = Owner { slot, generation: None, has_published: false };
        self.withdraw(server);
    }

    fn put(&self, server: &Arc<str>, entry: ServerCatalog) {
        self.change(server, |catalog| {
            let same = catalog.server(server).is_some_and(|old| old.digest == entry.digest);
            catalog.servers.insert(server.clone(), Arc::new(entry));
            !same
        });
    }

    fn withdraw(&self, server: &Arc<str>) {
        self.change(server, |catalog| catalog.servers.shift_remove(server).is_some());
    }

    fn change(&self, server: &Arc<str>, edit: impl FnOnce(&mut Catalog) -> bool) {
        self.catalog.send_if_modified(|catalog| {
            let mut next = Catalog::clone(catalog);
            let changed = edit(&mut next);
            if changed {
                next.version += 1;
                next.servers.sort_unstable_keys();
                // First of all: whoever hears of it must not find the old one.
                self.version.store(next.version, Ordering::Release);
                // Nobody listening is fine.
                let event =
                    HubEvent::CatalogChanged { server: server.clone(), version: next.version };
                let _ = self.events.send(event);
            }
            *catalog = Arc::new(next);
            changed
        });
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a name, if this slot owns it.
fn owner<'a>(owners: &'a mut Owners, server: &str, slot: SlotId) -> Option<&'a mut Owner> {
    owners.get_mut(server).filter(|owner| owner.slot == slot)
}

// === impl ServerCatalog ===

impl ServerCatalog {
    pub(super) fn new(
        generation: Option<Generation>,
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
            hints: CacheHints::default(),
        }
    }

    pub(super) fn with_hints(self, hints: CacheHints) -> Self {
        Self { hints, ..self }
    }
}

/// Length first, so that no two different sequences look the same.
fn absorb(hash: &mut Sha256, bytes: &[u8]) {
    hash.update(bytes.len().to_le_bytes());
    hash.update(bytes);
}
