//! What is known about one request while it is under way.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use tokio::time::Instant;

use crate::observe::Notification;
use crate::protocol::RawJson;

/// One sending of a request on one connection.
#[derive(Debug)]
pub(crate) struct CallWatch {
    id: u64,
    sending: AtomicU8,
    track: Option<Arc<CallTrack>>,
}

/// The parts of a call that outlive a resend.
pub(crate) struct CallTrack {
    pub(crate) on_progress: Option<Box<dyn Fn(Progress) + Send + Sync>>,
    pub(crate) on_notification: Option<Box<dyn Fn(Notification) + Send + Sync>>,
    seen: Mutex<Seen>,
}

/// Who got there first, the caller that gives up or the first byte, decides whether a request was sent.
const WAITING: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    highest: Option<f64>,
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
        Self { id, sending: AtomicU8::new(WAITING), track }
    }

    /// The id of the request, and its progress token.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn has_id(&self, id: &RawJson) -> bool {
        // Some servers turn numbers into strings.
        id.as_str().trim_matches('"').parse() == Ok(self.id)
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

    pub(crate) fn track(&self) -> Option<&Arc<CallTrack>> {
        self.track.as_ref()
    }
}

// === impl CallTrack ===

impl CallTrack {
    pub(crate) fn new(
        on_progress: Option<Box<dyn Fn(Progress) + Send + Sync>>,
        on_notification: Option<Box<dyn Fn(Notification) + Send + Sync>>,
    ) -> Self {
        Self { on_progress, on_notification, seen: Mutex::default() }
    }

    /// Passes progress on, unless it falls behind what the caller has seen already.
    pub(crate) fn progress(&self, raw: RawJson) {
        let Ok(ProgressFields { progress }) = raw.parse() else { return };
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.at = Some(Instant::now());
            if seen.highest.is_some_and(|highest| progress <= highest) {
                return;
            }
            seen.highest = Some(progress);
        }
        if let Some(sink) = &self.on_progress {
            sink(Progress { progress, raw });
        }
    }

    /// When the server last showed that it is still at it.
    pub(crate) fn last_progress_at(&self) -> Option<Instant> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).at
    }
}

impl std::fmt::Debug for CallTrack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallTrack").finish_non_exhaustive()
    }
}
