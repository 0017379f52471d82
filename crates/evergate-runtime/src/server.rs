//! The handle an embedder keeps: cheap to clone, valid for as long as its server is.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{error::Elapsed, timeout};

use crate::call::CallBuilder;
use crate::error::{CallError, CallFailure};
use crate::observe::Status;
use crate::own::Own;
use crate::protocol::{ProtocolVersion, RawJson, RpcError, code, is_log_level, method};
use crate::retry::Outcome;
use crate::slot::{Published, Slot};

/// One configured server.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    slot: Own<Slot>,
}

/// Follows the status of one server.
#[derive(Debug, Clone)]
pub struct StatusWatch {
    published: watch::Receiver<Published>,
}

/// Too many subscriptions, or the server did not take this one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The limit of the server's settings is reached.
    #[error("{limit} resources are subscribed already")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

// === impl ServerHandle ===

impl ServerHandle {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Self::of(Own::new(slot))
    }

    pub(crate) fn of(slot: Own<Slot>) -> Self {
        Self { slot }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// Calls a tool. The result is the `result` of the response, unchanged; a result that says `isError` is one.
    pub fn call_tool(&self, name: impl Into<String>, arguments: impl Into<RawJson>) -> CallBuilder {
        CallBuilder::tool(self.slot.clone(), name.into(), arguments.into())
    }

    /// Calls the tool `name` with params somebody else wrote: `_meta`, `task` and fields unknown here reach the server
    /// byte for byte. What `params` calls `name` must be the same; only replay rules and annotations go by ours. With
    /// [`CallBuilder::on_progress`] the progress token in `_meta` is replaced by one of ours, and nothing else.
    pub fn call_tool_with(&self, name: impl Into<Arc<str>>, params: RawJson) -> CallBuilder {
        CallBuilder::raw_tool(self.slot.clone(), name.into(), params)
    }

    /// Sends any request. A `tools/call` sent this way is not known as a call of its tool: see
    /// [`Self::call_tool_with`].
    pub fn request(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Option<RawJson>,
    ) -> CallBuilder {
        CallBuilder::other(self.slot.clone(), method.into(), params)
    }

    /// Asks for log messages from this level on, now and after every reconnect.
    pub async fn set_log_level(&self, level: &str) -> Result<(), CallError> {
        if !is_log_level(level) {
            let what = format!("no such log level: {level:?}");
            return Err(CallError {
                server: self.slot.name.clone(),
                outcome: Outcome::NotSent,
                generation: None,
                retryable: false,
                source: CallFailure::Rpc(RpcError::with(code::INVALID_PARAMS, what)),
                entrusted: self.slot.entrusted.clone(),
            });
        }
        self.slot.side_state.set_log_level(level);
        let params = RawJson::from(serde_json::json!({ "level": level }));
        self.request(method::SET_LEVEL, Some(params)).await.map(drop)
    }

    /// Asks for updates of a resource, now and after every reconnect. They arrive at
    /// [`Hub::notifications`](crate::Hub::notifications); after a reconnect one arrives in any case, because the
    /// resource may have changed unseen.
    pub async fn subscribe(&self, uri: &str) -> Result<(), SubscribeError> {
        let limit = self.slot.settings.max_subscriptions;
        let subscribing = self.slot.side_state.subscribe(uri, limit);
        let subscribing = subscribing.ok_or(SubscribeError::TooMany { limit })?;
        let params = RawJson::from(serde_json::json!({ "uri": uri }));
        self.request(method::SUBSCRIBE, Some(params)).await?;
        subscribing.succeeded();
        Ok(())
    }

    /// Ends that.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        self.slot.side_state.unsubscribe(uri);
        let params = RawJson::from(serde_json::json!({ "uri": uri }));
        self.request(method::UNSUBSCRIBE, Some(params)).await.map(drop)
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.slot.status()
    }

    /// The revision that the connected server speaks; `None` while there is no connection.
    pub fn protocol(&self) -> Option<ProtocolVersion> {
        self.slot.published.borrow().status.protocol
    }

    /// Follows how it is.
    pub fn watch_status(&self) -> StatusWatch {
        StatusWatch { published: self.slot.published.subscribe() }
    }

    /// Waits until its status is as wanted.
    pub async fn wait_until(
        &self,
        within: Duration,
        wanted: impl FnMut(&Status) -> bool,
    ) -> Result<Arc<Status>, Elapsed> {
        timeout(within, self.watch_status().wait_for(wanted)).await
    }

    /// Drops the connection, if there is one, and makes a new one. Revives a parked server; does nothing to a
    /// disabled one.
    pub fn restart(&self) {
        self.slot.commands.restart();
    }

    /// Switches it on. Revives a parked server.
    pub fn enable(&self) {
        self.slot.commands.enable();
    }

    /// Switches it off: calls fail, its connection is closed, its catalog is dropped.
    pub fn disable(&self) {
        self.slot.commands.disable();
    }

    /// Lists what it offers anew, if it is connected.
    pub fn refresh(&self) {
        if let Some(connection) = &self.slot.published.borrow().connection {
            connection.inbox().stale_lists().mark_all();
        }
    }
}

// === impl StatusWatch ===

impl StatusWatch {
    /// The newest status.
    pub fn borrow(&self) -> Arc<Status> {
        self.published.borrow().status.clone()
    }

    /// Waits for a status not seen before; `None` when the hub is gone.
    pub async fn changed(&mut self) -> Option<Arc<Status>> {
        self.published.changed().await.ok()?;
        Some(self.published.borrow_and_update().status.clone())
    }

    /// Waits until the status is as wanted; for ever, if the hub is gone before.
    pub async fn wait_for(&mut self, mut wanted: impl FnMut(&Status) -> bool) -> Arc<Status> {
        let reached = self.published.wait_for(|published| wanted(&published.status)).await;
        match reached.map(|published| published.status.clone()) {
            Ok(status) => status,
            Err(_) => std::future::pending().await,
        }
    }
}
