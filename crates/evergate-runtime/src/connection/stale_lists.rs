//! What a server said has changed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Which lists a server said have changed and have not been listed since. A flag per list, so that a burst costs one
/// listing, and a change that is announced during a listing is not lost.
#[derive(Debug, Default)]
pub(crate) struct StaleLists {
    flags: AtomicU8,
    changed: Notify,
    /// Nothing is to be listed before this, or before it is released.
    held_until: OnceLock<Instant>,
    released: CancellationToken,
}

/// A list a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools = 1,
    Prompts = 2,
    /// Resources and resource templates: one notification stands for both.
    Resources = 4,
}

// === impl StaleLists ===

impl StaleLists {
    const ALL: u8 = ListKind::Tools as u8 | ListKind::Prompts as u8 | ListKind::Resources as u8;

    pub(crate) fn mark(&self, kind: ListKind) {
        self.flags.fetch_or(kind as u8, Ordering::AcqRel);
        self.changed.notify_one();
    }

    pub(crate) fn mark_all(&self) {
        self.flags.fetch_or(Self::ALL, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// Holds back the first listing until [`Self::release`], or for this long: what is listed before somebody listens for
    /// changes would have to be listed again.
    pub(crate) fn hold(&self, longest: Duration) {
        // Once per connection.
        let _ = self.held_until.set(Instant::now() + longest);
    }

    pub(crate) fn release(&self) {
        self.released.cancel();
    }

    /// Resolves when something is marked.
    pub(crate) async fn marked(&self) {
        if let Some(until) = self.held_until.get() {
            // Late is as good as released.
            let _ = timeout_at(*until, self.released.cancelled()).await;
        }
        while self.flags.load(Ordering::Acquire) == 0 {
            self.changed.notified().await;
        }
    }

    /// Takes the marks; what is marked from here on counts for the next listing.
    pub(crate) fn take(&self) -> impl Fn(ListKind) -> bool + use<> {
        let flags = self.flags.swap(0, Ordering::AcqRel);
        move |kind| flags & kind as u8 != 0
    }
}
