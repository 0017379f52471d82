//! What a server was told that it forgets with its session: told again after every new handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::{Notify, broadcast};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::observe::Notification;
use crate::protocol::{self, RawJson, method};

/// Kept per slot, across generations.
#[derive(Debug, Default)]
pub(crate) struct SideState {
    kept: Mutex<Kept>,
    /// Other resources are subscribed than before.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    log_level: Option<String>,
    subscriptions: IndexMap<String, Subscription>,
    /// Subscriptions begun so far.
    begun: u64,
}

/// One resource, and who wants to hear of it.
#[derive(Debug)]
struct Subscription {
    /// Tells it from an earlier one of the same resource that was ended meanwhile.
    number: u64,
    /// Somebody's request for it succeeded.
    taken: bool,
    /// Requests for it that are under way.
    asking: usize,
}

/// A request for a subscription under way. One that comes to nothing leaves none behind that would be restored later,
/// unless somebody else has it, or asks for it too.
#[derive(Debug)]
pub(crate) struct Subscribing<'a> {
    state: &'a SideState,
    uri: &'a str,
    number: u64,
    succeeded: bool,
}

// === impl SideState ===

impl SideState {
    pub(crate) fn set_log_level(&self, level: &str) {
        self.kept().log_level = Some(level.to_owned());
    }

    pub(crate) fn log_level(&self) -> Option<String> {
        self.kept().log_level.clone()
    }

    /// The resources somebody wants to hear of.
    pub(crate) fn subscriptions(&self) -> Vec<String> {
        self.kept().subscriptions.keys().cloned().collect()
    }

    /// Resolves when there are others. Only one task may wait for it.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// `None` if there are `limit` subscriptions already.
    pub(crate) fn subscribe<'a>(&'a self, uri: &'a str, limit: usize) -> Option<Subscribing<'a>> {
        let mut kept = self.kept();
        let Kept { subscriptions, begun, .. } = &mut *kept;
        if !subscriptions.contains_key(uri) {
            if subscriptions.len() >= limit {
                return None;
            }
            *begun += 1;
        }
        let subscription = subscriptions.entry(uri.to_owned()).or_insert(Subscription {
            number: *begun,
            taken: false,
            asking: 0,
        });
        subscription.asking += 1;
        self.changed.notify_one();
        Some(Subscribing { state: self, uri, number: subscription.number, succeeded: false })
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.kept().subscriptions.shift_remove(uri);
        self.changed.notify_one();
    }

    /// Tells a new connection what its predecessors knew. `news` hears of every subscribed resource once, because it
    /// may have changed while nobody was subscribed.
    pub(crate) async fn restore(
        &self,
        connection: &Arc<Connection>,
        server: &Arc<str>,
        per_request: Duration,
        news: &broadcast::Sender<Notification>,
    ) {
        let (log_level, subscriptions) = {
            let kept = self.kept();
            (kept.log_level.clone(), kept.subscriptions.keys().cloned().collect::<Vec<_>>())
        };
        // Without a handshake nothing is forgotten: requests say it themselves, and who listens asks for it.
        let modern = connection.peer().version.is_modern();
        if let Some(level) = log_level
            && connection.peer().offers.logging
            && !modern
        {
            let params = serde_json::json!({ "level": level });
            tell(connection, method::SET_LEVEL, &params, per_request).await;
        }
        for uri in subscriptions {
            let params = serde_json::json!({ "uri": uri });
            if !modern {
                tell(connection, method::SUBSCRIBE, &params, per_request).await;
            }
            // Nobody listening is fine.
            let _ = news.send(Notification {
                server: server.clone(),
                generation: connection.generation(),
                method: method::RESOURCE_UPDATED.into(),
                params: Some(RawJson::from(params)),
            });
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Subscribing ===

impl Subscribing<'_> {
    /// The server took it.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = true;
    }
}

impl Drop for Subscribing<'_> {
    fn drop(&mut self) {
        let mut kept = self.state.kept();
        let Some(subscription) = kept.subscriptions.get_mut(self.uri) else { return };
        if subscription.number != self.number {
            return;
        }
        subscription.asking -= 1;
        subscription.taken |= self.succeeded;
        if !subscription.taken && subscription.asking == 0 {
            kept.subscriptions.shift_remove(self.uri);
        }
    }
}

async fn tell(
    connection: &Arc<Connection>,
    method: &'static str,
    params: &serde_json::Value,
    within: Duration,
) {
    let watch = connection.watch(None);
    let message = protocol::request(watch.id(), method, Some(params.to_string().as_bytes()));
    let told = matches!(timeout(within, connection.ask(message, &watch)).await, Ok(Ok(Ok(_))));
    if !told {
        tracing::warn!(method, generation = %connection.generation(), "could not restore after a reconnect");
    }
}
