//! The first moments: a client that lists before a server had the time to start would miss its tools, and many clients
//! list only once. So the first lists wait, for a short while after a server was added, and only for servers whose fate is
//! open.

use std::sync::Arc;

use evergate_runtime::{Hub, StateKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::Gateway;
use super::client::Client;
use super::view::offered_to;
use crate::config::Isolation;

// === impl Gateway ===

impl Gateway {
    /// Waits until every server the client sees was listed, given up, or had its time. A server that is started together
    /// with the gateway is often a moment later.
    pub(super) async fn first_lists(self: &Arc<Self>, client: &Arc<Client>) {
        let config = self.config();
        for (name, server) in &config.servers {
            if !server.is_on() || !client.may_use(name) {
                continue;
            }
            match server.isolation {
                Isolation::Shared => {
                    let added = self.added.lock().ok().and_then(|added| added.get(name).copied());
                    let Some(added) = added else { continue };
                    settled(&self.hub, name, added + config.gateway.startup_wait).await;
                }
                Isolation::PerClient => {
                    // One that was closed for being idle is not started for a list that is known.
                    if client.private.catalog(name).is_some() {
                        continue;
                    }
                    // Started when it is wanted for the first time: a client that only knocks costs no process.
                    if self.server_for(client, name).is_none() {
                        continue;
                    }
                    let Some((started, hub)) = client.private.started(name) else { continue };
                    settled(&hub, name, started + config.gateway.startup_wait).await;
                }
            }
        }
    }

    /// Servers of the client that declared a capability, in order.
    pub(super) fn servers_with(&self, client: &Client, capability: &str) -> Vec<Arc<str>> {
        let config = self.config();
        let offering = config.servers.keys().filter(|name| {
            client.may_use(name) && self.declares(client, name, capability) == Some(true)
        });
        offering.map(|name| Arc::from(name.as_str())).collect()
    }

    /// Whether a server declared a capability; `None` if nothing is known of it.
    pub(super) fn declares(&self, client: &Client, name: &str, capability: &str) -> Option<bool> {
        let config = self.config();
        let entry = offered_to(client, &self.hub.catalog(), name, config.servers.get(name)?)?;
        let declared = entry.capabilities.parse::<serde_json::Map<String, serde_json::Value>>();
        declared.ok().map(|declared| declared.contains_key(capability))
    }
}

async fn settled(hub: &Hub, name: &str, until: Instant) {
    if is_settled(hub, name) {
        return;
    }
    let mut events = hub.events();
    // Whatever happened before the subscription shows here, whatever happens after shows as an event.
    while !is_settled(hub, name) {
        match timeout_at(until, events.recv()).await {
            Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
            Ok(Err(RecvError::Closed)) | Err(_) => return,
        }
    }
}

fn is_settled(hub: &Hub, name: &str) -> bool {
    if hub.catalog().server(name).is_some() {
        return true;
    }
    let Ok(server) = hub.server(name) else { return true };
    let coming = [StateKind::Connecting, StateKind::Reconnecting, StateKind::Connected];
    !coming.contains(&server.status().state)
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
    use crate::config::{Config, Server};
    use crate::front::keys::Caller;

    #[tokio::test(start_paused = true)]
    async fn the_first_list_waits_for_servers_that_have_not_begun_as_for_others() {
        let mut config = Config::default();
        let server = Server::plain(Settings::http("http://127.0.0.1:9/"));
        config.servers.insert("s".to_owned(), server);
        let started = Instant::now();
        let (gateway, held) = Gateway::start(config, BTreeMap::new()).unwrap();
        let outbox = Outlet::Log(Arc::new(EventLog::of_news(&Buffers::unlimited())));
        let introduction = Introduction::none("2025-11-25");
        let client = Client::new([0; 16], Caller::anonymous(), Scope::All, introduction, outbox);
        gateway.first_lists(&Arc::new(client)).await;
        assert!(started.elapsed() >= gateway.config().gateway.startup_wait);
        let status = gateway.hub().server("s").unwrap().status();
        assert_eq!((status.state, status.attempts), (StateKind::Connecting, 0));
        drop(held);
    }
}
