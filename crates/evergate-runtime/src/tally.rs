//! How many of something are under way, and when none is left.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Does what `TaskTracker` of tokio-util does for those who hold its owner anyway: a token of that one holds the tracker
/// too, which all calls would have to count on and off.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Twice as many as there are, and one more if none is to come.
    state: AtomicUsize,
    none_left: Notify,
}

const ONE: usize = 2;
const CLOSED: usize = 1;

// === impl Tally ===

impl Tally {
    /// In one order with whatever else says that none is to come: who adds first and looks then is waited for.
    pub(crate) fn add(&self) {
        self.state.fetch_add(ONE, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self) {
        if self.state.fetch_sub(ONE, Ordering::SeqCst) == ONE + CLOSED {
            self.none_left.notify_waiters();
        }
    }

    /// None is to come. Those that do are counted, and need not be waited for.
    pub(crate) fn close(&self) {
        if self.state.fetch_or(CLOSED, Ordering::SeqCst) == 0 {
            self.none_left.notify_waiters();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.state.load(Ordering::SeqCst) / ONE
    }

    /// Resolves when none is to come and none is left.
    pub(crate) async fn done(&self) {
        let mut none_left = std::pin::pin!(self.none_left.notified());
        none_left.as_mut().enable();
        if self.state.load(Ordering::SeqCst) != CLOSED {
            none_left.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn it_is_done_when_none_is_left_and_none_to_come() {
        let tally = Tally::default();
        assert_eq!(tally.done().now_or_never(), None, "some may come");
        tally.add();
        tally.add();
        assert_eq!(tally.count(), 2);
        let mut done = std::pin::pin!(tally.done());
        tally.remove();
        tally.close();
        assert_eq!(done.as_mut().now_or_never(), None, "one is left");
        tally.remove();
        done.await;
        assert_eq!((tally.count(), tally.done().now_or_never()), (0, Some(())));
    }

    #[tokio::test]
    async fn with_none_it_is_done_when_it_is_closed() {
        let tally = Tally::default();
        let mut done = std::pin::pin!(tally.done());
        assert_eq!(done.as_mut().now_or_never(), None);
        tally.close();
        done.await;
    }
}
