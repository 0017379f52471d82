//! Room for connections, and which thread takes the next.

#[cfg(target_os = "linux")]
mod processors;
#[cfg(not(target_os = "linux"))]
#[path = "places/processors_elsewhere.rs"]
mod processors;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use self::processors::Processors;

/// Connections at once; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16_384;
/// So many keep a thread busy: with fewer, a second one would mostly be woken up for a single call.
const CROWD: usize = 20;

/// Of all threads together.
#[derive(Debug)]
pub(crate) struct Places {
    room: Arc<Semaphore>,
    /// How many connections each thread has.
    open: Box<[AtomicUsize]>,
    /// A thread has one more, or less.
    changed: Notify,
    order: Order,
    processors: Processors,
}

/// Who takes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Whichever thread comes first.
    Any,
    /// A thread only if all before it have a crowd; then the one that has the fewest.
    Crowds,
}

/// What one thread takes of them. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    places: Arc<Places>,
    thread: usize,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    share: Share,
    _room: Option<OwnedSemaphorePermit>,
}

// === impl Places ===

impl Places {
    fn new(threads: usize, order: Order) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            open: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            changed: Notify::new(),
            order,
            processors: Processors::new(threads),
        })
    }

    /// A share for each thread.
    pub(crate) fn shares(threads: usize, order: Order) -> impl Iterator<Item = Share> {
        let places = Self::new(threads, order);
        (0..threads).map(move |thread| Share { places: places.clone(), thread })
    }

    fn is_next(&self, thread: usize) -> bool {
        let open = || self.open.iter().map(|open| open.load(Ordering::Relaxed));
        let own = self.open[thread].load(Ordering::Relaxed);
        match self.order {
            Order::Any => true,
            Order::Crowds => {
                open().take(thread).all(|earlier| earlier >= CROWD)
                    && (own < CROWD || open().all(|other| own <= other))
            }
        }
    }
}

// === impl Share ===

impl Share {
    /// All of them.
    pub(crate) fn whole() -> Self {
        Self { places: Places::new(1, Order::Any), thread: 0 }
    }

    /// Says that the thread it is called on is the one that takes this share.
    pub(crate) fn is_taken_here(&self) {
        self.places.processors.introduce(self.thread);
    }

    /// Whether its thread only helps out.
    fn helps_out(&self) -> bool {
        self.places.order == Order::Crowds && self.thread > 0
    }

    /// Waits until there is room.
    pub(super) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        self.places.room.clone().acquire_owned().await.ok()
    }

    /// Waits until the next connection is for this thread.
    pub(super) async fn turn(&self) {
        loop {
            let changed = self.places.changed.notified();
            if self.places.is_next(self.thread) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn place(&self, room: Option<OwnedSemaphorePermit>) -> Place {
        let before = self.places.open[self.thread].fetch_add(1, Ordering::Relaxed);
        if before == 0 && self.helps_out() {
            self.places.processors.part();
        }
        self.places.changed.notify_waiters();
        Place { share: self.clone(), _room: room }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Share { places, thread } = &self.share;
        let before = places.open[*thread].fetch_sub(1, Ordering::Relaxed);
        if before == 1 && self.share.helps_out() {
            places.processors.reunite();
        }
        places.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Takes so many connections, each by the first thread whose turn it is; how many each thread has then.
    async fn taken(shares: &[Share], count: usize, places: &mut Vec<Place>) -> Vec<usize> {
        for _ in 0..count {
            let next = shares.iter().find(|share| share.turn().now_or_never().is_some()).unwrap();
            places.push(next.place(next.room().await));
        }
        let open = shares[0].places.open.iter();
        open.map(|open| open.load(Ordering::Relaxed)).collect()
    }

    #[tokio::test]
    async fn a_second_thread_helps_out_when_the_first_has_a_crowd() {
        let shares: Vec<_> = Places::shares(2, Order::Crowds).collect();
        let mut places = Vec::new();
        assert_eq!(taken(&shares, CROWD, &mut places).await, [CROWD, 0]);
        assert_eq!(taken(&shares, 1, &mut places).await, [CROWD, 1]);
        assert_eq!(taken(&shares, 5 * CROWD - 1, &mut places).await, [3 * CROWD, 3 * CROWD]);
        // Whoever waits hears of it when somebody leaves.
        places.push(shares[0].place(shares[0].room().await));
        let mut waiting = Box::pin(shares[0].turn());
        assert!((&mut waiting).now_or_never().is_none());
        places.pop();
        assert!((&mut waiting).now_or_never().is_some());
        drop(waiting);
        places.clear();
        assert_eq!(taken(&shares, 1, &mut places).await, [1, 0]);
    }

    #[tokio::test]
    async fn else_anybody_may() {
        let mut places = Vec::new();
        for share in Places::shares(2, Order::Any) {
            for _ in 0..=CROWD {
                share.turn().await;
                places.push(share.place(share.room().await));
            }
        }
    }
}
