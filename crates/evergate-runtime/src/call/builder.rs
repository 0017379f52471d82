//! What a caller says about a call before it is made.

use std::borrow::Cow;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock::CallClock;
use super::{Call, Request};
use crate::connection::{CallTrack, Progress};
use crate::error::CallError;
use crate::observe::Notification;
use crate::protocol::RawJson;
use crate::settings::LONGEST;
use crate::slot::Slot;

/// A call to one server, sent when awaited.
#[must_use = "a call does nothing until it is awaited"]
pub struct CallBuilder {
    slot: Arc<Slot>,
    request: Request,
    timeout: Option<Duration>,
    deadline: Option<Duration>,
    hold: Option<Duration>,
    cancel: Option<CancellationToken>,
    on_progress: Option<Box<dyn Fn(Progress) + Send + Sync>>,
    on_notification: Option<Box<dyn Fn(Notification) + Send + Sync>>,
}

// === impl CallBuilder ===

impl CallBuilder {
    pub(crate) fn tool(slot: Arc<Slot>, name: String, arguments: RawJson) -> Self {
        Self::new(slot, Request::Tool { name, arguments })
    }

    pub(crate) fn other(
        slot: Arc<Slot>,
        method: Cow<'static, str>,
        params: Option<RawJson>,
    ) -> Self {
        Self::new(slot, Request::Other { method, params })
    }

    fn new(slot: Arc<Slot>, request: Request) -> Self {
        Self {
            slot,
            request,
            timeout: None,
            deadline: None,
            hold: None,
            cancel: None,
            on_progress: None,
            on_notification: None,
        }
    }

    /// How long it may take in all; progress starts it over, up to the server's `max_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it may take in all, whatever progress it makes. Unless [`Self::hold`] says otherwise, all of it may
    /// be spent waiting for a connection.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How much of that may be spent waiting for a connection.
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Gives up when this token is cancelled, and tells the server.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Asks the server for progress and passes it on. Must not block.
    pub fn on_progress(mut self, sink: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Box::new(sink));
        self
    }

    /// Takes the notifications that arrive on the call's own stream, which otherwise go to
    /// [`Hub::notifications`](crate::Hub::notifications). Must not block.
    pub fn on_notification(mut self, sink: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.on_notification = Some(Box::new(sink));
        self
    }

    async fn run(self) -> Result<RawJson, CallError> {
        let slot = self.slot;
        let _counted = slot.shared.calls.token();
        let settings = slot.settings.clone();
        let track = (self.on_progress.is_some() || self.on_notification.is_some())
            .then(|| Arc::new(CallTrack::new(self.on_progress, self.on_notification)));
        let deadline = self.deadline.map(|deadline| deadline.min(LONGEST));
        let timeout = self.timeout.or(deadline).unwrap_or(settings.timeout);
        let timeout = timeout.min(deadline.unwrap_or(LONGEST));
        let clock = CallClock {
            started: Instant::now(),
            timeout,
            max_timeout: deadline.unwrap_or(settings.max_timeout.max(timeout)),
            hold: self.hold.or(deadline).unwrap_or(settings.hold).min(timeout),
            track: track.clone(),
        };
        let may_have_run = AtomicBool::new(false);
        Call { slot, request: self.request, clock, cancel: self.cancel, track, may_have_run }
            .run()
            .await
    }
}

impl IntoFuture for CallBuilder {
    type Output = Result<RawJson, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl std::fmt::Debug for CallBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallBuilder")
            .field("server", &self.slot.name)
            .field("method", &self.request.method())
            .finish_non_exhaustive()
    }
}
