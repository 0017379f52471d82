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
    use std::time::Duration;

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
                scope.spawn(|| {
                    assert!(permits.try_take());
                    permits.give_back();
                });
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

    /// The last permit is given back in the very moment in which somebody comes to wait for it.
    #[test]
    fn nobody_waits_for_what_is_kept() {
        const ROUNDS: usize = 20_000;
        let permits = Permits::new(2 * SHARDS);
        let others = (1..2 * SHARDS).filter(|_| permits.try_take()).count();
        // Closer together than a thread that has to be woken up could be.
        let arrived = AtomicUsize::new(0);
        let together = |time: usize| {
            arrived.fetch_add(1, Ordering::SeqCst);
            for tries in 0.. {
                if arrived.load(Ordering::SeqCst) >= 2 * time {
                    return;
                }
                if tries % 1000 == 999 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    assert!(permits.try_take());
                    together(2 * round + 1);
                    // Now a little earlier, now a little later than the other.
                    (0..round % 50).for_each(|_| std::hint::spin_loop());
                    permits.give_back();
                    together(2 * round + 2);
                }
            });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.unwrap();
            for round in 0..ROUNDS {
                together(2 * round + 1);
                let turn = async {
                    let queueing = permits.queue();
                    // Only so that it fails instead of hanging.
                    tokio::time::timeout(Duration::from_secs(60), queueing.turn()).await
                };
                assert!(runtime.block_on(turn).expect("it is there").is_some());
                together(2 * round + 2);
            }
        });
        (0..others).for_each(|_| permits.give_back());
        let left = (0..=2 * SHARDS).take_while(|_| permits.try_take()).count();
        assert_eq!(left, 2 * SHARDS, "none is lost and none made");
    }
}
