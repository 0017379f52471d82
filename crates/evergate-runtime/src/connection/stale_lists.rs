//! What a server said has changed.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Which lists a server said have changed and have not been listed since. A flag per list, so that a burst costs one
/// listing, and a change that is announced during a listing is not lost.
#[derive(Debug, Default)]
pub(crate) struct StaleLists {
    marks: Mutex<Marks>,
    changed: Notify,
    /// The number of the newest listing that is complete.
    listed: watch::Sender<u64>,
    /// Nothing is to be listed before this, or before it is released.
    held_until: OnceLock<Instant>,
    released: CancellationToken,
}

#[derive(Debug, Default)]
struct Marks {
    flags: u8,
    /// Listings begun so far.
    begun: u64,
}

/// A list a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools = 1,
    Prompts = 2,
    /// Resources and resource templates: one notification stands for both.
    Resources = 4,
}

/// A listing that covers a mark: one that begins after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListingNumber(u64);

// === impl StaleLists ===

impl StaleLists {
    const ALL: u8 = ListKind::Tools as u8 | ListKind::Prompts as u8 | ListKind::Resources as u8;

    pub(crate) fn mark(&self, kind: ListKind) {
        self.mark_flags(kind as u8);
    }

    /// For somebody who waits until it is listed.
    pub(crate) fn ask_for(&self, kind: ListKind) -> ListingNumber {
        self.mark_flags(kind as u8)
    }

    pub(crate) fn mark_all(&self) {
        self.mark_flags(Self::ALL);
    }

    /// The same, unless nothing was listed so far: then all of it is about to be.
    pub(crate) fn mark_if_begun(&self) {
        if self.marks().begun > 0 {
            self.mark_all();
        }
    }

    fn mark_flags(&self, flags: u8) -> ListingNumber {
        let number = {
            let mut marks = self.marks();
            marks.flags |= flags;
            ListingNumber(marks.begun + 1)
        };
        self.changed.notify_one();
        number
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
        while self.marks().flags == 0 {
            self.changed.notified().await;
        }
    }

    /// Takes the marks; what is marked from here on counts for the next listing.
    pub(crate) fn take(&self) -> (impl Fn(ListKind) -> bool + use<>, ListingNumber) {
        let mut marks = self.marks();
        marks.begun += 1;
        let flags = std::mem::take(&mut marks.flags);
        (move |kind| flags & kind as u8 != 0, ListingNumber(marks.begun))
    }

    /// A listing is published.
    pub(crate) fn complete(&self, listing: ListingNumber) {
        self.listed.send_modify(|newest| *newest = listing.0);
    }

    /// Resolves when it is.
    pub(crate) async fn listed(&self, listing: ListingNumber) {
        // Cannot fail: we hold the sender.
        let _ = self.listed.subscribe().wait_for(|newest| *newest >= listing.0).await;
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
