//! What a server was told that it forgets with its session: told again after every new handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::observe::Notification;
use crate::protocol::{self, RawJson, RpcError, method};

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
    /// The change with which it was last asked for.
    asked: u64,
    /// Somebody's request for it succeeded.
    taken: bool,
    /// Requests for it that are under way.
    asking: usize,
    /// The server, one without a handshake, does not want to hear of it.
    refused: Option<RpcError>,
}

/// A request for a subscription under way. One that comes to nothing leaves none behind that would be restored later,
/// unless somebody else has it, or asks for it too.
#[derive(Debug)]
pub(crate) struct Subscribing<'a> {
    state: &'a SideState,
    uri: &'a str,
    since: u64,
    asked: u64,
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

    /// The resources somebody wants to hear of and the server has not refused, the oldest first, and which change made
    /// them so.
    pub(crate) fn subscriptions(&self) -> (u64, Vec<String>) {
        let kept = self.kept();
        let wanted = kept.subscriptions.iter().filter(|(_, wanted)| wanted.refused.is_none());
        (*self.changes.borrow(), wanted.map(|(uri, _)| uri.clone()).collect())
    }

    /// A server without a handshake refuses this one: whoever waits for it hears of it. Whether somebody was promised
    /// news of it before.
    pub(crate) fn refuse(&self, uri: &str, error: RpcError) -> bool {
        let promised = {
            let mut kept = self.kept();
            let Some(subscription) = kept.subscriptions.get_mut(uri) else { return false };
            subscription.refused = Some(error);
            subscription.taken
        };
        // Whoever waits looks again.
        self.told.send_modify(|_| ());
        promised
    }

    /// What was refused may be asked for again.
    pub(crate) fn forget_refusals(&self) {
        for subscription in self.kept().subscriptions.values_mut() {
            subscription.refused = None;
        }
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
            let since = self.change();
            let (taken, asking, refused) = (false, 0, None);
            let subscription = Subscription { since, asked: since, taken, asking, refused };
            kept.subscriptions.insert(uri.to_owned(), subscription);
        }
        let subscription = kept.subscriptions.get_mut(uri)?;
        if subscription.refused.take().is_some() {
            // The server may have changed its mind.
            subscription.asked = self.change();
        }
        subscription.asking += 1;
        let Subscription { since, asked, .. } = *subscription;
        Some(Subscribing { state: self, uri, since, asked, succeeded: false })
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
        if connection.peer().offers.logging {
            self.restore_log_level(connection, per_request).await;
        }
        let subscriptions: Vec<String> = self.kept().subscriptions.keys().cloned().collect();
        for uri in subscriptions {
            let params = serde_json::json!({ "uri": uri });
            tell(connection, method::SUBSCRIBE, &params, per_request).await;
            if self.kept().subscriptions.contains_key(&uri) {
                announce(&uri, connection, server, news);
            } else {
                // Somebody ended it meanwhile, and the server may have heard of that first.
                tell(connection, method::UNSUBSCRIBE, &params, per_request).await;
            }
        }
    }

    /// Somebody may ask for another level meanwhile, and the server may hear of that first: so the last word is repeated.
    async fn restore_log_level(&self, connection: &Arc<Connection>, per_request: Duration) {
        let mut told = None;
        while let Some(level) = self.log_level()
            && told.as_ref() != Some(&level)
        {
            let params = serde_json::json!({ "level": level });
            tell(connection, method::SET_LEVEL, &params, per_request).await;
            told = Some(level);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Subscribing ===

impl Subscribing<'_> {
    /// Waits until a server without a handshake has been told of it, or has refused it. Not for ever: what it does not
    /// know by then is announced once it does.
    pub(crate) async fn told(&self) -> Result<(), RpcError> {
        let mut told = self.state.told.subscribe();
        let settled = told.wait_for(|told| *told >= self.asked || self.refusal().is_some());
        let _ = timeout(TOLD_WITHIN, settled).await;
        self.refusal().map_or(Ok(()), Err)
    }

    fn refusal(&self) -> Option<RpcError> {
        let kept = self.state.kept();
        let subscription = kept.subscriptions.get(self.uri);
        subscription.filter(|now| now.since == self.since)?.refused.clone()
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
