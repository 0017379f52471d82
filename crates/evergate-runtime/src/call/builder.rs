//! What a caller says about a call before it is made.

use std::borrow::Cow;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::HeaderMap;
use tokio_util::sync::CancellationToken;

use super::calling::Calling;
use super::clock::CallClock;
use super::{Call, Reply, Report, Request};
use crate::connection::{CallTrack, Company, Progress};
use crate::error::CallError;
use crate::handlers::Handlers;
use crate::moment;
use crate::observe::Notification;
use crate::own::Own;
use crate::protocol::{RawJson, method};
use crate::retry::Replay;
use crate::settings::{LONGEST, is_reserved};
use crate::slot::Slot;

/// A call to one server, sent when awaited.
#[must_use = "a call does nothing until it is awaited"]
pub struct CallBuilder {
    slot: Own<Slot>,
    request: Request,
    timeout: Option<Duration>,
    max_timeout: Option<Duration>,
    replay: Option<Replay>,
    deadline: Option<Duration>,
    hold: Option<Duration>,
    cancel: Option<CancellationToken>,
    verbatim: bool,
    keeps_alive: bool,
    company: Company,
}

// === impl CallBuilder ===

impl CallBuilder {
    pub(crate) fn tool(slot: Own<Slot>, name: String, arguments: RawJson) -> Self {
        Self::new(slot, Request::Tool { name, arguments })
    }

    pub(crate) fn raw_tool(slot: Own<Slot>, name: Arc<str>, params: RawJson) -> Self {
        Self::new(slot, Request::RawTool { name, params })
    }

    pub(crate) fn other(
        slot: Own<Slot>,
        method: Cow<'static, str>,
        params: Option<RawJson>,
    ) -> Self {
        Self::new(slot, Request::Other { method, params })
    }

    /// Asks whether the server is there, now or not at all. Those without a handshake have no such method, and are asked
    /// what they are.
    pub(crate) fn ping(slot: Own<Slot>) -> Self {
        let timeout = slot.settings.list_timeout;
        let ping = Self::other(slot, method::PING.into(), None).deadline(timeout);
        Self { keeps_alive: true, hold: Some(Duration::ZERO), ..ping }
    }

    fn new(slot: Own<Slot>, request: Request) -> Self {
        Self {
            slot,
            request,
            timeout: None,
            max_timeout: None,
            replay: None,
            deadline: None,
            hold: None,
            cancel: None,
            verbatim: false,
            keeps_alive: false,
            company: Company::default(),
        }
    }

    /// How long it may take in all; progress starts it over, up to the server's `max_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it may take in all however much progress it reports, in place of the server's setting.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = Some(timeout);
        self
    }

    /// Whether it may be sent again should its outcome be unknown, in place of the server's setting.
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = Some(replay);
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
        self.company.on_progress = Some(Box::new(sink));
        self
    }

    /// Takes the notifications that arrive on the call's own stream, which otherwise go to
    /// [`Hub::notifications`](crate::Hub::notifications). Must not block.
    pub fn on_notification(mut self, sink: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.company.on_notification = Some(Box::new(sink));
        self
    }

    /// Answers what the server asks because of this call; see [`Attribution`](crate::Attribution). Calls of one caller
    /// should share one `Arc`: where the server does not say which call it asks about, that tells the callers apart.
    ///
    /// While such a request is being handled the call's timeout does not run, only `max_timeout` or the deadline does;
    /// it starts over when the answer is given. When the call ends before that, the handler's future is dropped.
    pub fn handlers(mut self, handlers: Arc<Handlers>) -> Self {
        self.company.handlers = Some(handlers);
        self
    }

    /// Who makes this call, where several share a server and each call has handlers of its own: what the server asks
    /// without saying because of which call is asked only if all calls under way are of the same caller.
    pub fn caller(mut self, number: u64) -> Self {
        self.company.caller = Some(number);
        self
    }

    /// Which of its caller's calls it is: handlers that several share are told with a
    /// [`ServerRequest`](crate::ServerRequest).
    pub fn number(mut self, number: u64) -> Self {
        self.company.number = Some(number);
        self
    }

    /// Headers for this call's own request, for resuming the stream its answer comes on and for answering what the
    /// server asks on that stream, in place of the server's of the same name. Should the server refuse them (401),
    /// this call fails and no other, unless all they say is where it stands in a trace (`traceparent`, `tracestate`,
    /// `baggage`). Never logged. Those that belong to the protocol are left out. Means nothing to
    /// child processes.
    pub fn headers(mut self, mut headers: HeaderMap) -> Self {
        let reserved: Vec<_> = headers.keys().filter(|name| is_reserved(name)).cloned().collect();
        for name in reserved {
            headers.remove(name);
        }
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        self.company.headers = Some(Box::new(headers));
        self
    }

    /// For a caller that speaks 2026-07-28 itself, to a server that does: what the params' `_meta` say of the caller (its
    /// capabilities, its name, the level of its log) is all that the server hears of it, and whatever the server answers
    /// is the result. A question (`input_required`) or a task is not dealt with here, and `resultType`, `ttlMs` and
    /// `cacheScope` stay. `inputResponses` and `requestState` in the params pass as they are. Only the revision is ours.
    ///
    /// A server of an earlier revision is not told what only later ones know of `_meta`; otherwise nothing changes there.
    pub fn verbatim(mut self) -> Self {
        self.verbatim = true;
        self
    }

    /// Makes the call, and has a large result passed on while it arrives, if it comes as one JSON body over HTTP.
    /// Everything else comes whole, and so does a result up to a few megabytes of a call that would be sent again should
    /// the connection break.
    pub async fn in_pieces(self) -> Result<Reply, CallError> {
        self.into_call(true).run(&mut Report::default()).await
    }

    /// Makes the call, [`Self::in_pieces`] or whole, and keeps account of it. What has happened so far is in `report`
    /// even if the call is dropped before its end.
    pub fn reported(
        self,
        in_pieces: bool,
        report: &mut Report,
    ) -> impl Future<Output = Result<Reply, CallError>> + Send {
        // Not `async`, which would keep the builder beside the call: the future has room for both then.
        self.into_call(in_pieces).run(report)
    }

    async fn run(self) -> Result<RawJson, CallError> {
        self.into_call(false).run(&mut Report::default()).await?.whole().await
    }

    fn into_call(self, takes_pieces: bool) -> Call {
        let slot = Calling::to(self.slot);
        let settings = &slot.settings;
        let deadline = self.deadline.map(|deadline| deadline.min(LONGEST));
        let timeout = self.timeout.or(deadline).unwrap_or(settings.timeout);
        let timeout = timeout.min(deadline.unwrap_or(LONGEST));
        let clock = CallClock {
            started: moment::now(),
            timeout,
            max_timeout: deadline.unwrap_or_else(|| {
                self.max_timeout.unwrap_or(settings.max_timeout).min(LONGEST).max(timeout)
            }),
            hold: self.hold.or(deadline).unwrap_or(settings.hold).min(timeout),
            track: CallTrack::new(self.company),
        };
        let may_have_run = AtomicBool::new(false);
        let replay = self.replay;
        Call {
            slot,
            request: self.request,
            clock,
            cancel: self.cancel,
            replay,
            takes_pieces,
            verbatim: self.verbatim,
            round: None,
            keeps_alive: self.keeps_alive,
            may_have_run,
            probe: None,
        }
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
