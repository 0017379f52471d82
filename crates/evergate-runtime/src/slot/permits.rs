//! How many calls may be with a server at once.
//!
//! All of them together, but to take each permit from where all calls take theirs would have threads wait for each other for
//! nothing as long as there are plenty. So a thread keeps a few of those that it has used, until somebody has to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sharded::{SHARDS, Sharded};

/// Of one slot.
#[derive(Debug)]
pub(crate) struct Permits {
    free: Arc<Semaphore>,
    /// What threads have kept.
    kept: Sharded<AtomicUsize>,
    /// How many a thread may keep.
    most: usize,
    /// Calls that wait for one.
    waiting: AtomicUsize,
}

/// A call that waits, until it is dropped. Meanwhile nobody keeps any.
#[derive(Debug)]
pub(crate) struct Queueing<'a>(&'a Permits);

// === impl Permits ===

impl Permits {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limit)),
            kept: Sharded::default(),
            // All threads together half of them: a limit that is low is soon reached, and then what is kept is in the way.
            most: (limit / (2 * SHARDS)).min(64),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Takes one, to be [given back](Self::give_back), if that needs no waiting.
    pub(crate) fn try_take(&self) -> bool {
        let kept = self.kept.own();
        let one_less = |kept: usize| kept.checked_sub(1);
        if kept.fetch_update(Ordering::SeqCst, Ordering::Relaxed, one_less).is_ok() {
            return true;
        }
        let taken = self.free.try_acquire();
        taken.map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    pub(crate) fn give_back(&self) {
        let kept = self.kept.own();
        if self.waiting.load(Ordering::SeqCst) > 0 || kept.load(Ordering::Relaxed) >= self.most {
            return self.free.add_permits(1);
        }
        kept.fetch_add(1, Ordering::SeqCst);
        // Who came to wait just before may have looked already.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.collect();
        }
    }

    /// From now on whatever is given back goes to those who wait, and so does what was kept.
    pub(crate) fn queue(&self) -> Queueing<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.collect();
        Queueing(self)
    }

    fn collect(&self) {
        let kept = self.kept.all().map(|kept| kept.swap(0, Ordering::SeqCst)).sum();
        self.free.add_permits(kept);
    }
}

// === impl Queueing ===

impl Queueing<'_> {
    /// In the order they came. `None` never happens: nobody closes it.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.free.clone().acquire_owned().await.ok()
    }
}

impl Drop for Queueing<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn there_are_as_many_as_there_may_be_whoever_keeps_them() {
        for limit in [1, 2, 16, 100, 5000] {
            let permits = Permits::new(limit);
            for _ in 0..3 {
                let taken = (0..=limit).take_while(|_| permits.try_take()).count();
                assert_eq!(taken, limit);
                (0..limit).for_each(|_| permits.give_back());
            }
            // What another thread has kept is there for whoever has to wait.
            std::thread::scope(|scope| {
                scope.spawn(|| (permits.try_take().then(|| permits.give_back()), ()));
            });
            let here = (0..limit).take_while(|_| permits.try_take()).count();
            let queueing = permits.queue();
            let others: Vec<_> =
                (here..limit).filter_map(|_| queueing.turn().now_or_never()).collect();
            assert_eq!(here + others.len(), limit);
            assert!(queueing.turn().now_or_never().is_none(), "and no more");
        }
    }

    #[tokio::test]
    async fn while_somebody_waits_nobody_keeps_any() {
        let permits = Permits::new(1000);
        (0..1000).for_each(|_| assert!(permits.try_take()));
        let queueing = permits.queue();
        let mut turn = std::pin::pin!(queueing.turn());
        assert!(turn.as_mut().now_or_never().is_none());
        permits.give_back();
        assert!(!permits.try_take(), "it is for the one who waits");
        assert!(turn.await.is_some());
    }

    /// Threads that take and give back as fast as they can, and one call that must get its turn each time.
    #[test]
    fn nobody_waits_for_what_is_kept() {
        let permits = Permits::new(32);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let taken = (0..20).filter(|_| permits.try_take()).count();
                        (0..taken).for_each(|_| permits.give_back());
                    }
                });
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            for _ in 0..2000 {
                let queueing = permits.queue();
                drop(runtime.block_on(queueing.turn()));
            }
            done.store(true, Ordering::Relaxed);
        });
        let left = (0..=32).take_while(|_| permits.try_take()).count();
        let queueing = permits.queue();
        let rest: Vec<_> = (0..=32).map_while(|_| queueing.turn().now_or_never()).collect();
        assert_eq!(left + rest.len(), 32, "none is lost and none made");
    }
}
