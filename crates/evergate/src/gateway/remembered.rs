//! What clients asked of servers for good, their log level and their subscriptions: told again to a server that cannot
//! know of it, because the gateway, the server's entry or a client's own connection was made anew. What a server merely
//! forgot, the runtime tells it again.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use evergate_runtime::{CallFailure, Outcome, ServerHandle, StateKind, SubscribeError};

use tokio::sync::Semaphore;

use super::Gateway;
use super::client::Client;
use super::log_level::Level;
use super::news;
use crate::config::Isolation;

/// How long to wait for a server before looking whether anybody still wants to hear of it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// At one server.
const SUBSCRIBING_AT_ONCE: usize = 16;
/// Between two attempts, whatever the server does.
const PAUSE: Duration = Duration::from_secs(1);

// === impl Gateway ===

impl Gateway {
    /// Gives a client of an earlier run back what it had asked for.
    pub(crate) fn take_up(
        self: &Arc<Self>,
        client: &Arc<Client>,
        level: Option<&str>,
        subscriptions: Vec<(String, String)>,
    ) {
        if let Some(level) = level.and_then(Level::parse) {
            client.set_level(level);
            for name in self.config().servers.keys() {
                if let Some(handle) = self.server_for(client, name) {
                    self.tell_level(Some(client), &handle);
                }
            }
        }
        for (server, uri) in subscriptions {
            let Some(handle) = self.server_for(client, &server) else { continue };
            self.subscriptions.add(&Arc::from(server), &uri, client.uid);
            self.subscribe_in_time(handle, uri);
        }
    }

    /// To a server of one client's own that was started just now.
    pub(super) fn tell_private(self: &Arc<Self>, client: &Arc<Client>, handle: &ServerHandle) {
        self.tell_level(Some(client), handle);
        for client in news::sharing(self, client) {
            for uri in self.subscriptions.of(handle.name(), &client.uid) {
                self.subscribe_in_time(handle.clone(), uri);
            }
        }
    }

    /// To a shared server that took another's place.
    pub(super) fn tell_shared(self: &Arc<Self>, handle: &ServerHandle) {
        self.tell_level(None, handle);
        for uri in self.subscriptions.of_server(handle.name()) {
            self.subscribe_in_time(handle.clone(), uri);
        }
    }

    /// Asks a server for the most that anybody wants to hear of it. Several may ask at once, and their requests arrive in
    /// any order; so whoever finds afterwards that something else is wanted asks again, even if nothing came of its request:
    /// what it asked for is what a server that comes back would be told.
    pub(super) async fn settle_level(&self, client: Option<&Client>, handle: &ServerHandle) {
        let mut told = None;
        while let Some(level) = self.wanted_level(client, handle.name())
            && told != Some(level)
        {
            if let Err(error) = handle.set_log_level(level.name()).await {
                let (server, error) = (handle.name(), error.chain());
                tracing::debug!(server, error, "could not set the log level");
            }
            told = Some(level);
        }
    }

    /// By all who share it, or by its only client.
    fn wanted_level(&self, client: Option<&Client>, server: &str) -> Option<Level> {
        let config = self.config();
        let isolation = config.servers.get(server).map(|server| server.isolation);
        if isolation == Some(Isolation::PerClient) {
            return client?.level();
        }
        let all = self.clients.all();
        let others = all.iter().filter(|other| other.may_use(server)).filter_map(|c| c.level());
        // The client itself may not be attached yet.
        others.chain(client.and_then(Client::level)).min()
    }

    fn tell_level(self: &Arc<Self>, client: Option<&Arc<Client>>, handle: &ServerHandle) {
        let (gateway, client, handle) = (self.clone(), client.cloned(), handle.clone());
        self.tasks.spawn(async move { gateway.settle_level(client.as_deref(), &handle).await });
    }

    fn room_for_subscribing(&self, server: &str) -> Arc<Semaphore> {
        let mut rooms = self.subscribing.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(SUBSCRIBING_AT_ONCE));
        rooms.entry(server.to_owned()).or_insert_with(new).clone()
    }

    /// Subscribes, however long the server stays away, as long as anybody wants it.
    pub(super) fn subscribe_in_time(self: &Arc<Self>, handle: ServerHandle, uri: String) {
        let gateway = self.clone();
        let draining = self.draining.token().clone();
        let subscribing = async move {
            while gateway.subscriptions.is_wanted(handle.name(), &uri) {
                let back = handle.wait_until(LOOK_AGAIN, |now| now.state == StateKind::Connected);
                // Back or not, the next lines find out: it may have been removed.
                let _ = back.await;
                // A few at a time: there may be many, and calls want to be made too.
                let room = gateway.room_for_subscribing(handle.name());
                // The semaphore is never closed.
                let Ok(place) = room.acquire().await else { return };
                let subscribed = handle.subscribe(&uri).await;
                drop(place);
                let error = match subscribed {
                    Ok(()) => return,
                    Err(SubscribeError::Call(error)) if may_work_later(&error) => error,
                    Err(error) => {
                        let server = handle.name();
                        tracing::warn!(server, %error, "could not subscribe again");
                        return;
                    }
                };
                tracing::debug!(
                    server = handle.name(),
                    error = error.chain(),
                    "not subscribed yet"
                );
                tokio::time::sleep(PAUSE).await;
            }
        };
        self.tasks.spawn(draining.run_until_cancelled_owned(subscribing));
    }
}

fn may_work_later(error: &evergate_runtime::CallError) -> bool {
    let replaced = matches!(error.source, CallFailure::Removed | CallFailure::ShuttingDown);
    error.outcome == Outcome::NotSent && !replaced
}
