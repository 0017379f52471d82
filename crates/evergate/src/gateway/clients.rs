//! Every client that is attached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::{Client, Kind, Uid};
use crate::hash::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<HashMap<Uid, Arc<Client>>>);

// === impl Clients ===

impl Clients {
    pub(super) fn add(&self, client: &Arc<Client>) {
        self.table().insert(client.uid, client.clone());
    }

    /// `false` if it was not there, or another has taken its place.
    pub(super) fn remove(&self, client: &Arc<Client>) -> bool {
        let mut table = self.table();
        let same = table.get(&client.uid).is_some_and(|known| Arc::ptr_eq(known, client));
        same && table.remove(&client.uid).is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.table().values().cloned().collect()
    }

    /// All but those that listen on behalf of another, whose servers are not theirs.
    pub(crate) fn with_servers(&self) -> Vec<Arc<Client>> {
        let mut all = self.all();
        all.retain(|client| !matches!(client.kind, Kind::Listener(_)));
        all
    }

    #[cfg(feature = "fuzzing")]
    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    pub(crate) fn sessions(&self) -> usize {
        let has_session = |client: &&Arc<Client>| matches!(client.kind, Kind::Session);
        self.table().values().filter(has_session).count()
    }

    /// Those that only listen.
    pub(super) fn listeners(&self) -> usize {
        let listens = |client: &&Arc<Client>| matches!(client.kind, Kind::Listener(_));
        self.table().values().filter(listens).count()
    }

    /// Requests of all clients that are not answered yet.
    pub(super) fn calls_under_way(&self) -> usize {
        self.table().values().map(|client| client.calls_under_way()).sum()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Uid, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
