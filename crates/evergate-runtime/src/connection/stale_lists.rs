//! What a server said has changed.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Which lists a server said have changed and have not been listed since. A flag per list, so that a burst costs one
/// listing, and a change that is announced during a listing is not lost.
#[derive(Debug, Default)]
pub(crate) struct StaleLists {
    flags: AtomicU8,
    changed: Notify,
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

    /// Resolves when something is marked.
    pub(crate) async fn marked(&self) {
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
