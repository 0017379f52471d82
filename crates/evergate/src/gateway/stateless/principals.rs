//! Clients that have no session: one for each caller and endpoint, for as long as the process lives. Whatever belongs to a
//! client, its own servers above all, belongs to the caller, for requests are all there is besides.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use crate::front::keys::Caller;
use crate::front::session_id::SessionFacts;
use crate::gateway::client::{Client, Kind, Scope};
use crate::gateway::{Gateway, passes_headers};
use crate::hash::HashMap;

/// At most as many as there may be sessions.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Principals(RwLock<HashMap<Key, Arc<Client>>>);

/// Who calls and where; and, if servers are to see headers of callers, a digest of these: they are the callers' own names.
type Key = (Option<String>, Scope, Option<[u8; 32]>);

// === impl Gateway ===

impl Gateway {
    /// The client on whose behalf this caller's requests are made; `None` if there are too many. From now on it may what the
    /// caller may now.
    pub(crate) fn principal(
        self: &Arc<Self>,
        caller: Caller,
        scope: Scope,
        headers: &HeaderMap,
    ) -> Option<Arc<Client>> {
        let key = (caller.name().map(str::to_owned), scope, self.digest_of_passed_on(headers));
        // The lock is not held longer than this statement.
        let known =
            self.principals.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(client) = known {
            client.set_caller(caller);
            return Some(client);
        }
        let most = self.config().gateway.max_sessions;
        let mut all = self.principals.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= most && !all.contains_key(&key) {
            return None;
        }
        let is_known = key.0.is_some() || key.2.is_some();
        // Somebody else may have been faster.
        let client = all.entry(key).or_insert_with_key(|(_, scope, _)| {
            self.new_principal(caller, scope.clone(), is_known)
        });
        Some(client.clone())
    }

    /// A client of its own for whoever is at the other end of one stream; to be detached with it.
    pub(crate) fn principal_of_stream(
        self: &Arc<Self>,
        caller: Caller,
        scope: Scope,
    ) -> Arc<Client> {
        self.new_principal(caller, scope, true)
    }

    /// Forgets those that made no request for as long as a session may be idle.
    pub(in crate::gateway) fn forget_idle_principals(self: &Arc<Self>) {
        let idle = self.config().gateway.session_idle;
        let mut all = self.principals.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |client: &Arc<Client>| {
            let since = client.idle_since();
            // Whoever listens on its behalf has its servers too.
            let alone = Arc::strong_count(&client.private) == 1;
            alone && since.is_some_and(|since| since.elapsed() > idle)
        };
        let gone: Vec<_> = all.extract_if(|_, client| is_idle(client)).collect();
        drop(all);
        for (_, client) in gone {
            self.detach(&client);
        }
    }

    fn new_principal(
        self: &Arc<Self>,
        caller: Caller,
        scope: Scope,
        is_known: bool,
    ) -> Arc<Client> {
        let (uid, kind) = (SessionFacts::new_uid(), Kind::Principal { is_known });
        let client = Arc::new(Client::stateless(uid, caller, scope, kind));
        self.attach(&client, false);
        client
    }

    fn digest_of_passed_on(&self, headers: &HeaderMap) -> Option<[u8; 32]> {
        let config = self.config();
        if !passes_headers(&config) {
            return None;
        }
        let names = config.servers.values().flat_map(|server| &server.headers_from_client);
        let names: BTreeSet<&str> = names.map(http::HeaderName::as_str).collect();
        let mut digest = Sha256::new();
        let mut any = false;
        for (index, name) in names.into_iter().enumerate() {
            for value in headers.get_all(name) {
                any = true;
                // Lengths first, so that no two different sequences look the same.
                digest.update([index, value.len()].map(usize::to_le_bytes).concat());
                digest.update(value);
            }
        }
        any.then(|| digest.finalize().into())
    }
}
