//! Clients that have no session: one for each caller and endpoint, for as long as the process lives. Whatever belongs to a
//! client, its own servers above all, belongs to the caller, for requests are all there is besides.

use std::sync::{Arc, PoisonError, RwLock};

use crate::front::keys::Caller;
use crate::front::session_id::SessionFacts;
use crate::gateway::Gateway;
use crate::gateway::client::{Client, Kind, Scope};
use crate::hash::HashMap;

/// At most as many as there are keys and servers.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Principals(RwLock<HashMap<(Option<String>, Scope), Arc<Client>>>);

// === impl Gateway ===

impl Gateway {
    /// The client on whose behalf this caller's requests are made. From now on it may what the caller may now.
    pub(crate) fn principal(self: &Arc<Self>, caller: Caller, scope: Scope) -> Arc<Client> {
        let key = (caller.name().map(str::to_owned), scope);
        // The lock is not held longer than this statement.
        let known =
            self.principals.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(client) = known {
            client.set_caller(caller);
            return client;
        }
        let mut all = self.principals.0.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have been faster.
        let client = all.entry(key).or_insert_with_key(|(_, scope)| {
            self.principal_of_stream(caller.clone(), scope.clone())
        });
        client.set_caller(caller);
        client.clone()
    }

    /// A client of its own for whoever is at the other end of one stream; to be detached with it.
    pub(crate) fn principal_of_stream(
        self: &Arc<Self>,
        caller: Caller,
        scope: Scope,
    ) -> Arc<Client> {
        let uid = SessionFacts::new_uid();
        let client = Arc::new(Client::stateless(uid, caller, scope, Kind::Principal));
        self.attach(&client, false);
        client
    }
}
