//! What is known about one request while it is under way.

use std::future::poll_fn;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use http::HeaderMap;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::handlers::Handlers;
use crate::observe::Notification;
use crate::protocol::RawJson;
use crate::retry::Limited;

/// One sending of a request on one connection.
#[derive(Debug)]
pub(crate) struct CallWatch {
    id: u64,
    sending: AtomicU8,
    track: Option<Arc<CallTrack>>,
    ended: Mutex<Ended>,
    /// Its connection is being ended.
    is_cut_off: AtomicBool,
    cut_off: AtomicWaker,
    /// What its HTTP request says of it in headers, each with its line end.
    routing: OnceLock<Box<[u8]>>,
    /// It was refused because of our rate.
    limited: OnceLock<Limited>,
}

/// Whether a sending is over. Few are ever asked for it.
#[derive(Debug, Default)]
enum Ended {
    #[default]
    No,
    /// Somebody waits for it.
    Awaited(CancellationToken),
    Yes,
}

/// What a caller says of a call that concerns more than its answer.
#[derive(Default)]
pub(crate) struct Company {
    pub(crate) on_progress: Option<Box<dyn Fn(Progress) + Send + Sync>>,
    pub(crate) on_notification: Option<Box<dyn Fn(Notification) + Send + Sync>>,
    /// Who answers what the server asks because of this call.
    pub(crate) handlers: Option<Arc<Handlers>>,
    /// Tells calls of one caller from those of others, where several share a connection.
    pub(crate) caller: Option<u64>,
    /// Tells it from its caller's other calls.
    pub(crate) number: Option<u64>,
    /// Headers for its own requests.
    pub(crate) headers: Option<Box<HeaderMap>>,
}

/// The parts of a call that outlive a resend.
#[derive(Default)]
pub(crate) struct CallTrack {
    pub(crate) company: Company,
    seen: Mutex<Seen>,
    /// There is something in it.
    has_seen: AtomicBool,
    /// The server got its answer: the call's time runs again.
    told: Notify,
}

/// What a call's time limit goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// Nothing came of it so far.
    Silent,
    /// The server last showed then that it is still at it.
    At(Instant),
    /// The server waits for an answer from our side.
    Asking,
}

/// Who got there first, the caller that gives up or the first byte, decides whether a request was sent.
const WAITING: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    highest: Option<f64>,
    /// Requests of the server because of this call that nobody has answered yet.
    asking: usize,
}

/// A sign of life from a call. Values only ever grow, across a resend too.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// The params of the notification, as the server wrote them, with the token we gave it.
    pub raw: RawJson,
}

#[derive(Deserialize)]
struct ProgressFields {
    progress: f64,
}

// === impl CallWatch ===

impl CallWatch {
    pub(crate) fn new(id: u64, track: Option<Arc<CallTrack>>) -> Self {
        Self {
            id,
            sending: AtomicU8::new(WAITING),
            track,
            ended: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
            cut_off: AtomicWaker::new(),
            routing: OnceLock::new(),
            limited: OnceLock::new(),
        }
    }

    /// The id of the request, and its progress token.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn has_id(&self, id: &RawJson) -> bool {
        // Some servers turn numbers into strings.
        id.as_str().trim_matches('"').parse() == Ok(self.id)
    }

    /// Set when it is written, if the revision has such headers.
    pub(crate) fn route(&self, headers: Vec<u8>) {
        // A request is written once.
        let _ = self.routing.set(headers.into());
    }

    pub(crate) fn routing(&self) -> Option<&[u8]> {
        self.routing.get().map(AsRef::as_ref)
    }

    /// It was refused because of our rate, if it was.
    pub(crate) fn limit(&self, limited: Option<Limited>) {
        if let Some(limited) = limited {
            // A request is refused once.
            let _ = self.limited.set(limited);
        }
    }

    pub(crate) fn limited(&self) -> Option<Limited> {
        self.limited.get().copied()
    }

    /// Called before the first byte leaves. `false` if the caller gave up first: then it must not be sent.
    pub(crate) fn mark_sent(&self) -> bool {
        let before = self.sending.compare_exchange(WAITING, SENT, AcqRel, Acquire);
        before.is_ok() || before == Err(SENT)
    }

    /// The first byte did not leave after all.
    pub(crate) fn mark_unsent(&self) {
        // Changes nothing if the caller has gone meanwhile, believing it sent: that errs on the safe side.
        let _ = self.sending.compare_exchange(SENT, WAITING, AcqRel, Acquire);
    }

    /// Some of it may have left.
    pub(crate) fn is_sent(&self) -> bool {
        self.sending.load(Acquire) == SENT
    }

    /// Nobody waits any more. Says whether some of it may have left; if not, it never will, though it may still
    /// stand in a queue.
    pub(crate) fn give_up(&self) -> bool {
        let before = self.sending.compare_exchange(WAITING, GIVEN_UP, AcqRel, Acquire);
        before == Err(SENT)
    }

    /// No answer can come any more, because its connection is being ended.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.store(true, Release);
        self.cut_off.wake();
    }

    /// Resolves when that is so. To be awaited by the one who sends it.
    pub(crate) async fn is_cut_off(&self) {
        poll_fn(|context| {
            if !self.is_cut_off.load(Acquire) {
                self.cut_off.register(context.waker());
            }
            // It may have been cut off just before there was somebody to wake.
            if self.is_cut_off.load(Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub(crate) fn track(&self) -> Option<&Arc<CallTrack>> {
        self.track.as_ref()
    }

    /// Headers for its own request.
    pub(crate) fn headers(&self) -> Option<&HeaderMap> {
        self.track.as_ref()?.company.headers.as_deref()
    }

    /// It goes out with what one caller put on it.
    pub(crate) fn has_own_headers(&self) -> bool {
        self.headers().is_some_and(|headers| !headers.is_empty())
    }

    /// The same, and those may be credentials: their refusal says nothing about the server's own. What says where a
    /// request stands in a trace (W3C) is none.
    pub(crate) fn may_have_own_credentials(&self) -> bool {
        let names_no_one = ["traceparent", "tracestate", "baggage"];
        self.headers().is_some_and(|headers| {
            headers.keys().any(|name| !names_no_one.contains(&name.as_str()))
        })
    }

    /// Whether both calls were made by the same caller: by its number, else by who answers for it.
    pub(crate) fn has_same_caller(&self, other: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (&self.track, &other.track) else { return false };
        let (mine, theirs) = (&mine.company, &theirs.company);
        match (mine.caller, theirs.caller, &mine.handlers, &theirs.handlers) {
            (Some(mine), Some(theirs), ..) => mine == theirs,
            (_, _, Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }

    /// Its caller's number for it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.track.as_ref()?.company.number
    }

    /// Who answers what the server asks because of it.
    pub(crate) fn handlers(&self) -> Option<&Arc<Handlers>> {
        self.track.as_ref()?.company.handlers.as_ref()
    }

    /// This sending is over, with or without an answer.
    pub(crate) fn end(&self) {
        let before = std::mem::replace(&mut *self.has_ended(), Ended::Yes);
        if let Ended::Awaited(ended) = before {
            ended.cancel();
        }
    }

    /// Resolves when it is.
    pub(crate) async fn ended(&self) {
        let ended = match &mut *self.has_ended() {
            Ended::Yes => return,
            Ended::Awaited(ended) => ended.clone(),
            not_yet @ Ended::No => {
                let ended = CancellationToken::new();
                *not_yet = Ended::Awaited(ended.clone());
                ended
            }
        };
        ended.cancelled().await;
    }

    fn has_ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Company ===

impl Company {
    pub(crate) fn is_none(&self) -> bool {
        let Self { on_progress, on_notification, handlers, caller, number, headers } = self;
        on_progress.is_none()
            && on_notification.is_none()
            && handlers.is_none()
            && caller.is_none()
            && number.is_none()
            && headers.is_none()
    }
}

// === impl CallTrack ===

impl CallTrack {
    /// `None` if there is nothing to follow.
    pub(crate) fn new(company: Company) -> Option<Arc<Self>> {
        (!company.is_none()).then(|| Arc::new(Self { company, ..Self::default() }))
    }

    /// Passes on what the server says on the call's own stream, if somebody listens.
    pub(crate) fn notify(&self, notification: Notification) -> Result<(), Notification> {
        let Company { on_notification, handlers, number, .. } = &self.company;
        if let Some(sink) = on_notification {
            sink(notification);
            return Ok(());
        }
        match handlers {
            Some(handlers) => handlers.notify(notification, *number),
            None => Err(notification),
        }
    }

    /// Passes progress on, unless it falls behind what the caller has seen already.
    pub(crate) fn progress(&self, raw: RawJson) {
        let Ok(ProgressFields { progress }) = raw.parse() else { return };
        {
            let mut seen = self.see();
            seen.at = Some(Instant::now());
            if seen.highest.is_some_and(|highest| progress <= highest) {
                return;
            }
            seen.highest = Some(progress);
        }
        if let Some(sink) = &self.company.on_progress {
            sink(Progress { progress, raw });
        }
    }

    /// The server asks for something before it goes on.
    pub(crate) fn asked(&self) {
        self.see().asking += 1;
    }

    /// It got its answer, or nobody will answer any more.
    pub(crate) fn told(&self) {
        let mut seen = self.see();
        seen.asking -= 1;
        seen.at = Some(Instant::now());
        drop(seen);
        self.told.notify_one();
    }

    /// Resolves when the server got an answer. Only the call itself may wait for it.
    pub(crate) async fn is_told(&self) {
        self.told.notified().await;
    }

    pub(crate) fn pulse(&self) -> Pulse {
        // By far most calls are answered without another word.
        if !self.has_seen.load(Acquire) {
            return Pulse::Silent;
        }
        let seen = self.seen();
        if seen.asking > 0 { Pulse::Asking } else { seen.at.map_or(Pulse::Silent, Pulse::At) }
    }

    fn see(&self) -> MutexGuard<'_, Seen> {
        self.has_seen.store(true, Release);
        self.seen()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for CallTrack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallTrack").finish_non_exhaustive()
    }
}
