//! The newest failure of each server that clients have for themselves, kept for a while after the connection that failed
//! is gone: clients that cannot use a server leave, and whoever looks then should still see why.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use evergate_runtime::{StateKind, Status};

/// One per gateway.
#[derive(Debug, Default)]
pub(crate) struct PastFailures(Mutex<HashMap<Arc<str>, PastFailure>>);

/// A connection that failed, as it was in the end.
#[derive(Debug, Clone)]
pub(crate) struct PastFailure {
    pub(crate) at: SystemTime,
    pub(crate) status: Arc<Status>,
    /// Of the configuration it was made with: another one may have cured it.
    digest: String,
}

/// As long as somebody who was told of it may take to come and look.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// Whether a connection needs somebody to look at it.
pub(crate) fn is_troubled(status: &Status) -> bool {
    let down = matches!(
        status.state,
        StateKind::Reconnecting | StateKind::Disconnected | StateKind::PermanentlyFailed
    );
    down || status.degraded
}

// === impl PastFailures ===

impl PastFailures {
    /// A connection is given up; if it had failed, that is remembered.
    pub(super) fn note(&self, name: &str, digest: &str, status: Status) {
        if !is_troubled(&status) {
            return;
        }
        let now = SystemTime::now();
        let at = status.last_error_at.unwrap_or(now);
        let failure = PastFailure { at, status: Arc::new(status), digest: digest.to_owned() };
        let mut all = self.all();
        all.retain(|_, known| known.is_recent(now));
        let newer = all.get(name).is_some_and(|known| known.at > at && known.digest == digest);
        if !newer {
            all.insert(Arc::from(name), failure);
        }
    }

    /// The newest of a server that is still reached in the same way.
    pub(crate) fn newest(&self, name: &str, digest: &str) -> Option<PastFailure> {
        let known = self.all().get(name).cloned()?;
        (known.digest == digest && known.is_recent(SystemTime::now())).then_some(known)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, PastFailure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PastFailure ===

impl PastFailure {
    fn is_recent(&self, now: SystemTime) -> bool {
        now.duration_since(self.at).is_ok_and(|age| age < KEPT)
    }
}
