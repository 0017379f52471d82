//! Who wants to hear of which resource. The server is asked once per client and told when the last one has left.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::Uid;

type Resource = (Arc<str>, String);

#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<Resource, HashSet<Uid>>>);

// === impl Subscriptions ===

impl Subscriptions {
    /// `false` if the client was subscribed already.
    pub(super) fn add(&self, server: &Arc<str>, uri: &str, client: Uid) -> bool {
        self.table().entry((server.clone(), uri.to_owned())).or_default().insert(client)
    }

    /// `true` if nobody is left who wants to hear of it.
    pub(super) fn remove(&self, server: &Arc<str>, uri: &str, client: &Uid) -> bool {
        let resource = (server.clone(), uri.to_owned());
        let mut table = self.table();
        let Some(clients) = table.get_mut(&resource) else { return true };
        clients.remove(client);
        let last = clients.is_empty();
        if last {
            table.remove(&resource);
        }
        last
    }

    /// Removes a client everywhere, and returns what nobody wants to hear of any more.
    pub(super) fn forget(&self, client: &Uid) -> Vec<Resource> {
        let mut left = Vec::new();
        self.table().retain(|resource, clients| {
            if clients.remove(client) && clients.is_empty() {
                left.push(resource.clone());
            }
            !clients.is_empty()
        });
        left
    }

    pub(super) fn subscribers(&self, server: &str, uri: &str) -> HashSet<Uid> {
        let resource = (Arc::from(server), uri.to_owned());
        self.table().get(&resource).cloned().unwrap_or_default()
    }

    /// What each client wants to hear of, in order.
    pub(crate) fn by_client(&self) -> HashMap<Uid, Vec<(String, String)>> {
        let mut all: HashMap<Uid, Vec<(String, String)>> = HashMap::new();
        for ((server, uri), clients) in &*self.table() {
            for client in clients {
                all.entry(*client).or_default().push((server.to_string(), uri.clone()));
            }
        }
        for resources in all.values_mut() {
            resources.sort();
        }
        all
    }

    /// What one client wants to hear of this server's.
    pub(super) fn of(&self, server: &str, client: &Uid) -> Vec<String> {
        let table = self.table();
        let theirs = table
            .iter()
            .filter(|((owner, _), clients)| **owner == *server && clients.contains(client));
        theirs.map(|((_, uri), _)| uri.clone()).collect()
    }

    /// Everything of this server's that somebody wants to hear of.
    pub(super) fn of_server(&self, server: &str) -> Vec<String> {
        let table = self.table();
        let theirs = table.keys().filter(|(owner, _)| **owner == *server);
        theirs.map(|(_, uri)| uri.clone()).collect()
    }

    pub(super) fn is_wanted(&self, server: &str, uri: &str) -> bool {
        !self.subscribers(server, uri).is_empty()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Resource, HashSet<Uid>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_leave_is_noticed() {
        let (table, docs) = (Subscriptions::default(), Arc::from("docs"));
        table.add(&docs, "a", [1; 16]);
        table.add(&docs, "a", [2; 16]);
        table.add(&docs, "b", [2; 16]);
        let resource = |uri: &str| ("docs".to_owned(), uri.to_owned());
        assert_eq!(table.by_client()[&[2; 16]], [resource("a"), resource("b")]);
        assert!(!table.remove(&docs, "a", &[1; 16]));
        assert_eq!(table.subscribers("docs", "a"), HashSet::from([[2; 16]]));
        let mut left = table.forget(&[2; 16]);
        left.sort();
        assert_eq!(left, [(docs.clone(), "a".to_owned()), (docs.clone(), "b".to_owned())]);
        assert!(table.by_client().is_empty());
    }
}
