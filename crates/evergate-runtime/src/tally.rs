//! How many of something are under way, and when none is left.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::sharded::Sharded;

/// Does what `TaskTracker` of tokio-util does, for those who hold its owner anyway and come from several threads: each
/// counts for itself, and only who waits for the end, or brings it about, looks at all of them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Sharded<AtomicUsize>,
    /// None is to come.
    closed: AtomicBool,
    none_left: Notify,
}

// === impl Tally ===

// All of it in one order. Who counts down last finds the sum to be zero, whatever thread counted up; and one that is
// counted while others are summed up has come after the end was announced, and learns of that.
impl Tally {
    /// In one order with whatever else says that none is to come: who adds first and looks then is waited for.
    pub(crate) fn add(&self) {
        self.counts.own().fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self) {
        self.counts.own().fetch_sub(1, Ordering::SeqCst);
        if self.is_done() {
            self.none_left.notify_waiters();
        }
    }

    /// None is to come. Those that do are counted, and need not be waited for.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if self.is_done() {
            self.none_left.notify_waiters();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.counts.sum()
    }

    /// Resolves when none is to come and none is left.
    pub(crate) async fn done(&self) {
        let mut none_left = std::pin::pin!(self.none_left.notified());
        none_left.as_mut().enable();
        if !self.is_done() {
            none_left.await;
        }
    }

    fn is_done(&self) -> bool {
        self.closed.load(Ordering::SeqCst) && self.count() == 0
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
    async fn it_does_not_matter_who_counts_down() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| tally.add()));
            }
        });
        assert_eq!(tally.count(), 100);
        tally.close();
        let mut done = std::pin::pin!(tally.done());
        assert_eq!(done.as_mut().now_or_never(), None);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| tally.remove()));
            }
        });
        done.await;
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
