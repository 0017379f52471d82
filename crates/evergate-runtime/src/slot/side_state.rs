//! What a server was told that it forgets with its session: told again after every new handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexSet;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::observe::Notification;
use crate::protocol::{self, RawJson, method};

/// Kept per slot, across generations.
#[derive(Debug, Default)]
pub(crate) struct SideState {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    log_level: Option<String>,
    subscriptions: IndexSet<String>,
}

// === impl SideState ===

impl SideState {
    pub(crate) fn set_log_level(&self, level: &str) {
        self.kept().log_level = Some(level.to_owned());
    }

    /// `None` if there are `limit` subscriptions already; else whether this one is new.
    pub(crate) fn subscribe(&self, uri: &str, limit: usize) -> Option<bool> {
        let mut kept = self.kept();
        if kept.subscriptions.contains(uri) {
            return Some(false);
        }
        if kept.subscriptions.len() >= limit {
            return None;
        }
        Some(kept.subscriptions.insert(uri.to_owned()))
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.kept().subscriptions.shift_remove(uri);
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
            (kept.log_level.clone(), kept.subscriptions.clone())
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

async fn tell(
    connection: &Arc<Connection>,
    method: &'static str,
    params: &serde_json::Value,
    within: Duration,
) {
    let watch = connection.watch(None);
    let message = protocol::request(watch.id(), method, Some(params.to_string().as_bytes()));
    let told = matches!(timeout(within, connection.send(message, &watch)).await, Ok(Ok(Ok(_))));
    if !told {
        tracing::warn!(method, generation = %connection.generation(), "could not restore after a reconnect");
    }
}
