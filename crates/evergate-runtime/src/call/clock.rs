//! How long a call may take.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::connection::{CallTrack, Pulse};

/// The time limits of one call.
#[derive(Debug)]
pub(super) struct CallClock {
    pub(super) started: Instant,
    /// In all; progress and answers to the server start it over …
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
        let last = self.started + self.max_timeout;
        let from = match self.track.as_ref().map_or(Pulse::Silent, |track| track.pulse()) {
            // The server waits for us, perhaps for a human being: it is not to blame for the time that takes.
            Pulse::Asking => return last,
            Pulse::At(sign_of_life) => sign_of_life,
            Pulse::Silent => self.started,
        };
        self.expires_after(from)
    }

    /// When the time is up for a call that showed then that it is alive.
    pub(super) fn expires_after(&self, sign_of_life: Instant) -> Instant {
        (sign_of_life + self.timeout).min(self.started + self.max_timeout)
    }

    /// Resolves when the time is up, wherever it has moved to meanwhile.
    pub(super) async fn expired(&self) {
        loop {
            let expires = self.expires_at();
            match self.track.as_ref().filter(|track| track.pulse() == Pulse::Asking) {
                None => Alarm::at(expires).await,
                Some(track) => tokio::select! {
                    () = Alarm::at(expires) => {}
                    // An answer moves it to an earlier time than the one waited for.
                    () = track.is_told() => continue,
                },
            }
            if self.expires_at() <= expires {
                return;
            }
        }
    }
}
