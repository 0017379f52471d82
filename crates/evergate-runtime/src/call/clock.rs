//! How long a call may take.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::CallTrack;

/// The time limits of one call.
#[derive(Debug)]
pub(super) struct CallClock {
    pub(super) started: Instant,
    /// In all; progress starts it over …
    pub(super) timeout: Duration,
    /// … up to here.
    pub(super) max_timeout: Duration,
    /// The part of it that may be spent waiting for a connection.
    pub(super) hold: Duration,
    pub(super) track: Option<Arc<CallTrack>>,
}

// === impl CallClock ===

impl CallClock {
    pub(super) fn expires_at(&self) -> Instant {
        let progress = self.track.as_ref().and_then(|track| track.last_progress_at());
        let from = progress.unwrap_or(self.started);
        (from + self.timeout).min(self.started + self.max_timeout)
    }
}
