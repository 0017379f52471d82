//! What a server was told that it forgets with its session: told again after every new handshake.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::observe::Notification;
use crate::protocol::{self, RawJson, method};

/// Kept per slot, across generations.
#[derive(Debug, Default)]
pub(crate) struct SideState {
    kept: Mutex<Kept>,
    /// How often the resources that somebody wants to hear of became others. Changes together with them.
    changes: watch::Sender<u64>,
    /// Up to which change a server without a handshake was told of them.
    told: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    log_level: Option<String>,
    subscriptions: IndexMap<String, Subscription>,
}

/// One resource, and who wants to hear of it.
#[derive(Debug)]
struct Subscription {
    /// The change that it came with; tells it from an earlier one of the same resource that was ended meanwhile.
    since: u64,
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
    since: u64,
    succeeded: bool,
}

/// How long a subscription may wait for a server that does not take up what it is told.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

// === impl SideState ===

impl SideState {
    pub(crate) fn set_log_level(&self, level: &str) {
        self.kept().log_level = Some(level.to_owned());
    }

    pub(crate) fn log_level(&self) -> Option<String> {
        self.kept().log_level.clone()
    }

    /// The resources somebody wants to hear of, and which change made them so.
    pub(crate) fn subscriptions(&self) -> (u64, HashSet<String>) {
        let kept = self.kept();
        (*self.changes.borrow(), kept.subscriptions.keys().cloned().collect())
    }

    /// Those of which somebody was promised news.
    pub(crate) fn promised(&self) -> Vec<String> {
        let kept = self.kept();
        let taken = kept.subscriptions.iter().filter(|(_, subscription)| subscription.taken);
        taken.map(|(uri, _)| uri.clone()).collect()
    }

    /// Changes when there are others.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The server was told of everything up to this change, as far as it wants to know.
    pub(crate) fn set_told(&self, change: u64) {
        self.told.send_if_modified(|told| {
            let newer = change > *told;
            *told = change.max(*told);
            newer
        });
    }

    /// `None` if there are `limit` subscriptions already.
    pub(crate) fn subscribe<'a>(&'a self, uri: &'a str, limit: usize) -> Option<Subscribing<'a>> {
        let mut kept = self.kept();
        if !kept.subscriptions.contains_key(uri) {
            if kept.subscriptions.len() >= limit {
                return None;
            }
            let subscription = Subscription { since: self.change(), taken: false, asking: 0 };
            kept.subscriptions.insert(uri.to_owned(), subscription);
        }
        let subscription = kept.subscriptions.get_mut(uri)?;
        subscription.asking += 1;
        Some(Subscribing { state: self, uri, since: subscription.since, succeeded: false })
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        let mut kept = self.kept();
        if kept.subscriptions.shift_remove(uri).is_some() {
            self.change();
        }
    }

    /// Counts a change. To be called while `kept` is locked.
    fn change(&self) -> u64 {
        self.changes.send_modify(|changes| *changes += 1);
        *self.changes.borrow()
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
        // Without a handshake nothing is forgotten: requests say it themselves, and who listens asks for it.
        if connection.peer().version.is_modern() {
            return;
        }
        let (log_level, subscriptions) = {
            let kept = self.kept();
            (kept.log_level.clone(), kept.subscriptions.keys().cloned().collect::<Vec<_>>())
        };
        if let Some(level) = log_level
            && connection.peer().offers.logging
        {
            let params = serde_json::json!({ "level": level });
            tell(connection, method::SET_LEVEL, &params, per_request).await;
        }
        for uri in subscriptions {
            let params = serde_json::json!({ "uri": uri });
            tell(connection, method::SUBSCRIBE, &params, per_request).await;
            announce(&uri, connection, server, news);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Subscribing ===

impl Subscribing<'_> {
    /// Waits until a server without a handshake has been told of it. Not for ever: what it does not know by then is
    /// announced once it does.
    pub(crate) async fn told(&self) {
        let mut told = self.state.told.subscribe();
        let _ = timeout(TOLD_WITHIN, told.wait_for(|told| *told >= self.since)).await;
    }

    /// The server took it.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = true;
    }
}

impl Drop for Subscribing<'_> {
    fn drop(&mut self) {
        let mut kept = self.state.kept();
        let Some(subscription) = kept.subscriptions.get_mut(self.uri) else { return };
        if subscription.since != self.since {
            return;
        }
        subscription.asking -= 1;
        subscription.taken |= self.succeeded;
        if !subscription.taken && subscription.asking == 0 {
            kept.subscriptions.shift_remove(self.uri);
            self.state.change();
        }
    }
}

/// Says of a subscribed resource that it changed, because it may have while nobody was told.
pub(crate) fn announce(
    uri: &str,
    connection: &Connection,
    server: &Arc<str>,
    news: &broadcast::Sender<Notification>,
) {
    // Nobody listening is fine.
    let _ = news.send(Notification {
        server: server.clone(),
        generation: connection.generation(),
        method: method::RESOURCE_UPDATED.into(),
        params: Some(RawJson::from(serde_json::json!({ "uri": uri }))),
    });
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
