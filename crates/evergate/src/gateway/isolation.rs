//! Servers that each client has for itself: a hub per client and server, closed when idle or when the client ends.

mod failures;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evergate_runtime::{Handlers, Hub, RpcError, ServerCatalog, ServerHandle};
use futures_util::future::join_all;
use serde::Deserialize;
use tokio::time::Instant;

use super::Gateway;
use super::client::Client;
use super::error_body;
use super::news;
use super::server_settings;
use super::view::{Stamp, View};
use crate::config::{Isolation, Server};

pub(crate) use failures::{PastFailures, is_troubled};

/// How long an idle connection may take to close.
const CLOSING: Duration = Duration::from_secs(10);
/// How long calls may go on when a reload takes their connection away: as long as a call may take anyway.
const FINISHING: Duration = Duration::from_secs(60 * 60);

/// The servers of one client.
#[derive(Debug, Default)]
pub(crate) struct PrivateServers {
    /// Most clients never have any, and need not look further.
    has_had_any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    servers: HashMap<Arc<str>, Private>,
    /// The newest view, and what it was made from.
    view: Option<(Stamp, Arc<View>)>,
    /// Counts starts and ends.
    changes: u64,
}

#[derive(Debug)]
struct Private {
    hub: Option<Arc<Hub>>,
    /// Of the configuration it was started with.
    digest: String,
    started: Instant,
    last_used: Instant,
    /// What it offered when it was closed for being idle.
    last_catalog: Option<Arc<ServerCatalog>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClientInfo {
    name: Option<String>,
    version: Option<String>,
}

// === impl PrivateServers ===

impl PrivateServers {
    /// The client's own connection to a server, started if need be.
    pub(super) fn server(
        &self,
        gateway: &Arc<Gateway>,
        client: &Arc<Client>,
        name: &str,
        server: &Server,
    ) -> Option<ServerHandle> {
        // Whatever its settings: only a reload replaces one that runs. A call may still know the old ones when the new server
        // has been started, and would take it away from those who wait for it.
        self.in_use(name).or_else(|| self.start(gateway, client, name, server, None))
    }

    fn in_use(&self, name: &str) -> Option<ServerHandle> {
        let mut state = self.state();
        let private = state.servers.get_mut(name)?;
        let handle = private.hub.as_ref()?.server(name).ok();
        private.last_used = Instant::now();
        handle
    }

    /// `listed` is what it is known to offer, if it was not the client's own before.
    fn start(
        &self,
        gateway: &Arc<Gateway>,
        client: &Arc<Client>,
        name: &str,
        server: &Server,
        listed: Option<Arc<ServerCatalog>>,
    ) -> Option<ServerHandle> {
        if client.ended.has_begun() {
            return None;
        }
        let mut state = self.state();
        let now = Instant::now();
        let mut last_catalog = listed;
        if let Some(private) = state.servers.get_mut(name) {
            private.last_used = now;
            if private.digest == server.connection_digest
                && let Some(hub) = &private.hub
            {
                return hub.server(name).ok();
            }
            last_catalog = private.newest_catalog(name).or(last_catalog);
            if let Some(outdated) = private.hub.take() {
                close(gateway, outdated, FINISHING);
            }
        }
        // What it does by itself must not stand before anybody's calls.
        let _background = gateway.background.enter();
        let idle = gateway.config().gateway.per_client_idle;
        let mut builder = Hub::builder()
            .limiter(gateway.limiter.clone())
            .answers_follow_calls()
            .witness(gateway.observed.witness())
            .handlers(handlers(client))
            .server(name, server_settings::of_client(server, client, idle));
        if let Some(catalog) = &last_catalog {
            // The list does not blink while it starts.
            builder = builder.restore(name, ServerCatalog::clone(catalog));
        }
        let hub = match builder.start() {
            Ok(hub) => Arc::new(hub),
            Err(error) => {
                // The configuration was checked when it was read.
                tracing::error!(server = name, %error, "cannot start a server");
                return None;
            }
        };
        gateway.tasks.spawn(news::follow(gateway.clone(), client.clone(), hub.clone()));
        let handle = hub.server(name).ok();
        let private = Private {
            hub: Some(hub),
            digest: server.connection_digest.clone(),
            started: now,
            last_used: now,
            last_catalog,
        };
        state.servers.insert(Arc::from(name), private);
        self.has_had_any.store(true, Ordering::Release);
        state.changes += 1;
        drop(state);
        if let Some(handle) = &handle {
            gateway.tell_private(client, handle);
        }
        handle
    }

    /// Starts one that a reload brought or changed; one that is only idle is left alone. `listed` is what it offered
    /// to everybody until now.
    pub(super) fn renew(
        &self,
        gateway: &Arc<Gateway>,
        client: &Arc<Client>,
        name: &str,
        server: &Server,
        listed: Option<Arc<ServerCatalog>>,
    ) {
        let known = self.state().servers.get(name).map(|private| private.digest.clone());
        if known.as_ref() != Some(&server.connection_digest) {
            self.start(gateway, client, name, server, listed);
        }
    }

    /// One of them, if it runs.
    pub(crate) fn handle(&self, name: &str) -> Option<ServerHandle> {
        self.state().servers.get(name)?.hub.as_ref()?.server(name).ok()
    }

    /// Those that run.
    pub(crate) fn handles(&self) -> Vec<ServerHandle> {
        let state = self.state();
        let hubs = state.servers.values().filter_map(|private| private.hub.as_ref());
        hubs.flat_map(|hub| hub.servers()).collect()
    }

    /// What one of them offers, as last listed.
    pub(super) fn catalog(&self, name: &str) -> Option<Arc<ServerCatalog>> {
        self.state().servers.get(name)?.newest_catalog(name)
    }

    /// The same, if the server is still reached in the way it was then.
    pub(super) fn last_catalog(&self, name: &str, digest: &str) -> Option<Arc<ServerCatalog>> {
        let state = self.state();
        let private = state.servers.get(name).filter(|private| private.digest == digest)?;
        private.newest_catalog(name)
    }

    /// Since when one of them is there, and its handle.
    pub(super) fn started(&self, name: &str) -> Option<(Instant, Arc<Hub>)> {
        let state = self.state();
        let private = state.servers.get(name)?;
        Some((private.started, private.hub.clone()?))
    }

    /// Different whenever a view may have to be made anew; 0 for a client without servers of its own.
    pub(super) fn version(&self) -> u64 {
        if !self.has_had_any.load(Ordering::Acquire) {
            return 0;
        }
        let state = self.state();
        if state.servers.is_empty() {
            return 0;
        }
        let mut hash = DefaultHasher::new();
        state.changes.hash(&mut hash);
        for (name, private) in &state.servers {
            let version = private.hub.as_ref().map(|hub| hub.catalog().version);
            (name, version).hash(&mut hash);
        }
        hash.finish().max(1)
    }

    /// The client's view, made if the one at hand is not of this stamp.
    pub(super) fn view(&self, stamp: Stamp, make: impl FnOnce() -> View) -> Arc<View> {
        if let Some((known, view)) = &self.state().view
            && *known == stamp
        {
            return view.clone();
        }
        let view = Arc::new(make());
        self.state().view = Some((stamp, view.clone()));
        view
    }

    /// How many connections the client has for itself.
    pub(crate) fn count(&self, name: &str) -> usize {
        let state = self.state();
        usize::from(state.servers.get(name).is_some_and(|private| private.hub.is_some()))
    }

    /// Closes those that have not been used for a while, and those that no longer exist.
    pub(crate) fn close_idle(&self, gateway: &Arc<Gateway>, client: &Arc<Client>, idle: Duration) {
        let config = gateway.config();
        let sharing = news::sharing(gateway, client);
        let mut state = self.state();
        let mut closed = Vec::new();
        for (name, private) in &mut state.servers {
            let Some(hub) = &private.hub else { continue };
            let known = config.servers.get(&**name);
            let wanted = known.is_some_and(|server| {
                let ours = server.isolation == Isolation::PerClient && client.may_use(name);
                ours && server.is_on()
            });
            let status = hub.server(name).map(|server| server.status());
            let busy = status.is_ok_and(|status| status.in_flight + status.held > 0)
                // Whoever waits for news of a resource uses the connection without a word.
                || sharing.iter().any(|who| !gateway.subscriptions.of(name, &who.uid).is_empty());
            if wanted && busy {
                private.last_used = Instant::now();
            }
            if wanted && private.last_used.elapsed() < idle {
                continue;
            }
            private.last_catalog = hub.catalog().server(name).cloned();
            private.note_failure(gateway, name);
            let within = if wanted { CLOSING } else { FINISHING };
            closed.extend(private.hub.take().map(|hub| (hub, within)));
        }
        state.servers.retain(|name, _| config.servers.contains_key(&**name));
        state.changes += closed.len() as u64;
        drop(state);
        for (hub, within) in closed {
            close(gateway, hub, within);
        }
    }

    pub(super) fn close_all(&self, gateway: &Arc<Gateway>) {
        let servers = std::mem::take(&mut self.state().servers);
        for (name, private) in &servers {
            private.note_failure(gateway, name);
        }
        for hub in servers.into_values().filter_map(|private| private.hub) {
            close(gateway, hub, CLOSING);
        }
    }

    /// Closes all, and waits for it.
    pub(super) async fn shutdown(&self, within: Duration) {
        let servers = std::mem::take(&mut self.state().servers);
        let hubs = servers.into_values().filter_map(|private| private.hub);
        join_all(hubs.map(|hub| async move { hub.shutdown(within).await })).await;
    }

    pub(super) fn roots_changed(&self) {
        for private in self.state().servers.values() {
            if let Some(hub) = &private.hub {
                hub.roots_changed();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Private ===

impl Private {
    /// Before it is given up.
    fn note_failure(&self, gateway: &Gateway, name: &str) {
        let handle = self.hub.as_ref().and_then(|hub| hub.server(name).ok());
        if let Some(handle) = handle {
            gateway.past_failures.note(name, &self.digest, handle.status());
        }
    }

    fn newest_catalog(&self, name: &str) -> Option<Arc<ServerCatalog>> {
        let live = self.hub.as_ref().and_then(|hub| hub.catalog().server(name).cloned());
        live.or_else(|| self.last_catalog.clone())
    }
}

/// Orderly, so that the server is told that the session is over, and calls under way end.
fn close(gateway: &Arc<Gateway>, hub: Arc<Hub>, within: Duration) {
    gateway.tasks.spawn(async move { hub.shutdown(within).await });
}

/// The server sees the client's own name and abilities.
fn handlers(client: &Arc<Client>) -> Handlers {
    let info: ClientInfo = client.introduction.client_info.parse().unwrap_or_default();
    let capabilities = client.introduction.capabilities.clone();
    let client = Arc::downgrade(client);
    Handlers::new()
        .client_info(
            info.name.as_deref().unwrap_or("evergate"),
            info.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION")),
        )
        .declare(capabilities)
        .on_any(move |request| {
            let client = client.upgrade();
            async move {
                match client {
                    Some(client) => client.ask(&request, None, None).await,
                    None => Err(RpcError::with(error_body::INTERNAL, "the client is gone")),
                }
            }
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evergate_runtime::Settings;

    use super::super::buffers::Buffers;
    use super::super::client::{Introduction, Scope};
    use super::super::event_log::EventLog;
    use super::super::outlet::Outlet;
    use super::*;
    use crate::config::Config;
    use crate::front::keys::Caller;

    #[tokio::test]
    async fn a_call_with_outdated_settings_leaves_alone_what_a_reload_has_started() {
        let (gateway, _) = Gateway::start(Config::default(), BTreeMap::new()).unwrap();
        let outbox = Outlet::Log(Arc::new(EventLog::of_news(&Buffers::unlimited())));
        let introduction = Introduction::none("2025-11-25");
        let client = Client::new([0; 16], Caller::anonymous(), Scope::All, introduction, outbox);
        let client = Arc::new(client);
        let [old, new] = ["old", "new"].map(|digest| {
            let mut server = Server::plain(Settings::http("http://127.0.0.1:9/"));
            server.connection_digest = digest.to_owned();
            server
        });
        let hub = || client.private.started("s").unwrap().1;
        assert!(client.private.server(&gateway, &client, "s", &old).is_some());
        let first = hub();
        client.private.renew(&gateway, &client, "s", &new, None);
        let second = hub();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(client.private.server(&gateway, &client, "s", &old).is_some());
        assert!(Arc::ptr_eq(&second, &hub()));
    }
}
