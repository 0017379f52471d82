//! Clients that have no session: one for each caller and endpoint. Whatever belongs to a client, its own servers above all,
//! belongs to the caller, for requests are all there is besides.
//!
//! Callers are told apart by their keys. Those without a key may all do the same; they are told apart by the name and version
//! they give themselves, so that two programs of one person are not asked each other's questions, and by the headers that
//! servers of their own are to see. Whoever needs more than that needs keys.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use evergate_runtime::RawJson;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::envelope::Envelope;
use crate::config::Isolation;
use crate::front::keys::Caller;
use crate::front::request::Headers;
use crate::front::session_id::SessionFacts;
use crate::gateway::Gateway;
use crate::gateway::client::{Client, Kind, Scope};
use crate::hash::HashMap;

/// At most as many as there may be sessions.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Principals(RwLock<HashMap<Key, Arc<Client>>>);

/// Whoever it is; where; and, if servers of its own are to see headers of the caller, a digest of these.
type Key = (Owner, Scope, Option<[u8; 32]>);

/// A digest of whose key it is, or of what it calls itself.
pub(in crate::gateway) type Owner = [u8; 32];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Program {
    name: String,
    version: String,
}

// === impl Gateway ===

impl Gateway {
    /// The client on whose behalf this caller's requests are made; `None` if there are too many. From now on it may what the
    /// caller may now.
    pub(crate) fn principal(
        self: &Arc<Self>,
        caller: Caller,
        scope: Scope,
        headers: &Headers,
        envelope: &Envelope,
    ) -> Option<Arc<Client>> {
        let own_headers = self.digest_for_own_servers(&caller, &scope, headers);
        let is_known =
            caller.name().is_some() || envelope.client_info.is_some() || own_headers.is_some();
        let key = (owner(&caller, envelope), scope, own_headers);
        // The lock is not held longer than this statement.
        let known =
            self.principals.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(client) = known {
            client.set_caller(&caller);
            return Some(client);
        }
        let most = self.config().gateway.max_sessions;
        let mut all = self.principals.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut gone = None;
        if all.len() >= most && !all.contains_key(&key) {
            let idle = all.iter().filter_map(|(key, client)| Some((idle_since(client)?, key)));
            let longest = idle.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone());
            gone = Some(all.remove(&longest?)?);
        }
        // Somebody else may have been faster.
        let client = all.entry(key).or_insert_with_key(|(owner, scope, _)| {
            let kind = Kind::Principal { is_known, owner: *owner };
            self.new_principal(caller, scope.clone(), kind, envelope.client_info.clone())
        });
        let client = client.clone();
        drop(all);
        if let Some(gone) = gone {
            self.detach(&gone);
        }
        Some(client)
    }

    /// A client of its own for whoever is at the other end of one stream; to be detached with it.
    pub(crate) fn principal_of_stream(
        self: &Arc<Self>,
        caller: Caller,
        scope: Scope,
    ) -> Arc<Client> {
        // Whoever is at the end of another stream is somebody else.
        let owner = Sha256::digest(SessionFacts::new_uid()).into();
        self.new_principal(caller, scope, Kind::Principal { is_known: true, owner }, None)
    }

    /// Forgets those that made no request for as long as a session may be idle.
    pub(in crate::gateway) fn forget_idle_principals(self: &Arc<Self>) {
        let idle = self.config().gateway.session_idle;
        let mut all = self.principals.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_idle =
            |client: &Arc<Client>| idle_since(client).is_some_and(|since| since.elapsed() > idle);
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
        kind: Kind,
        client_info: Option<RawJson>,
    ) -> Arc<Client> {
        let uid = SessionFacts::new_uid();
        let client = Arc::new(Client::stateless(uid, caller, scope, kind, client_info));
        self.attach(&client, false);
        client
    }

    /// Headers by which servers know a caller tell callers apart where these have servers of their own. Others see them with
    /// each call, whoever's it is.
    fn digest_for_own_servers(
        &self,
        caller: &Caller,
        scope: &Scope,
        headers: &Headers,
    ) -> Option<[u8; 32]> {
        if !self.passes_headers.load(Ordering::Relaxed) {
            return None;
        }
        let config = self.config();
        let own = config.servers.iter().filter(|(name, server)| {
            let in_scope = match scope {
                Scope::All => true,
                Scope::One(only) => **only == ***name,
            };
            let own = server.isolation == Isolation::PerClient;
            own && in_scope && caller.may_use_server(name)
        });
        let names = own.flat_map(|(_, server)| &server.headers_from_client);
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

fn owner(caller: &Caller, envelope: &Envelope) -> Owner {
    let program = || {
        let info = envelope.client_info.as_ref()?;
        let Program { name, version } = info.parse().unwrap_or_default();
        Some([name, version])
    };
    let program = if caller.name().is_none() { program() } else { None };
    Sha256::digest(json!([caller.name(), program]).to_string()).into()
}

/// Since when nobody has used it; `None` while somebody does, or listens on its behalf.
fn idle_since(client: &Arc<Client>) -> Option<Instant> {
    // Whoever listens on its behalf has its servers too.
    let alone = Arc::strong_count(&client.private) == 1;
    client.idle_since().filter(|_| alone)
}
