//! One account of the memory that the gateway holds for others: requests on their way, results that wait to be sent, and
//! streams that can be taken up again.
//!
//! Each of those has a limit of its own, but there may be many of each at once. When all of them together are too much,
//! new requests are refused until some of it is given back; what is under way goes on. Streams that were read to their end
//! are kept only for clients whose connection broke with the last words, so they make way first.
//!
//! Only what is large, or may add up, is counted: a small request on its way costs a look at one number.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use evergate_runtime::PerThread;

use super::event_log::EventLog;

/// One per process.
#[derive(Debug)]
pub(crate) struct Buffers {
    used: AtomicUsize,
    limit: AtomicUsize,
    /// Streams that were read to their end, the oldest first. Most of them are gone when they are looked for.
    finished: Mutex<VecDeque<Weak<EventLog>>>,
}

/// Bytes that give back their place in the account with the last of their copies and parts, wherever those are.
struct Counted {
    bytes: Bytes,
    buffers: Arc<Buffers>,
}

/// Smaller ones are not worth counting: as many as there are requests at once are less than a large one.
const WORTH_COUNTING: usize = 16 * 1024;
/// So many finished streams are kept in mind; of more than that the oldest make way.
const MAX_FINISHED: usize = 16 * 1024;

// === impl Buffers ===

impl Buffers {
    /// Calls on all threads hold on to it.
    pub(crate) fn new(limit: usize) -> PerThread<Self> {
        let (used, limit) = (AtomicUsize::new(0), AtomicUsize::new(limit));
        PerThread::new(Arc::new(Self { used, limit, finished: Mutex::default() }))
    }

    /// For what belongs to no gateway.
    pub(crate) fn unlimited() -> PerThread<Self> {
        Self::new(usize::MAX)
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many bytes are held, and how many may be.
    pub(crate) fn state(&self) -> (usize, usize) {
        (self.used.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed))
    }

    /// More is held than may be.
    pub(super) fn are_full(&self) -> bool {
        self.is_too_much_besides(0)
    }

    /// Nothing new may be taken on, were it not for something of this size that may have been counted already: alone it is
    /// never too much. What was read to its end makes way first.
    pub(crate) fn are_full_but_for(&self, bytes: usize) -> bool {
        let own = if bytes < WORTH_COUNTING { 0 } else { bytes };
        while self.is_too_much_besides(own) {
            let Some(oldest) = self.finished().pop_front() else { return true };
            if let Some(log) = oldest.upgrade() {
                log.forget();
            }
        }
        false
    }

    fn is_too_much_besides(&self, own: usize) -> bool {
        let (used, limit) = self.state();
        used.saturating_sub(own) >= limit
    }

    /// A stream was read to its end.
    pub(super) fn has_finished(&self, log: Weak<EventLog>) {
        let mut finished = self.finished();
        finished.push_back(log);
        let surplus = (finished.len() > MAX_FINISHED).then(|| finished.pop_front()).flatten();
        drop(finished);
        if let Some(log) = surplus.and_then(|log| log.upgrade()) {
            log.forget();
        }
    }

    fn finished(&self) -> MutexGuard<'_, VecDeque<Weak<EventLog>>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The same bytes, counted for as long as anybody has them.
    pub(crate) fn counted(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.len() < WORTH_COUNTING {
            return bytes;
        }
        self.add(bytes.len());
        Bytes::from_owner(Counted { bytes, buffers: self.clone() })
    }
}

// === impl Counted ===

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.buffers.give_back(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_until_the_last_part_of_them_is_gone() {
        let buffers = Buffers::new(50_000);
        let small = buffers.counted(Bytes::from_static(b"small"));
        assert_eq!((buffers.state().0, &small[..]), (0, &b"small"[..]));
        let large = buffers.counted(vec![7; 40_000].into());
        let (copy, part) = (large.clone(), large.slice(10..20));
        drop(large);
        assert_eq!((buffers.state().0, buffers.are_full()), (40_000, false));
        let more = buffers.counted(vec![7; 20_000].into());
        assert!(buffers.are_full(), "what is there already is counted whatever the limit");
        drop((copy, more));
        assert_eq!((buffers.state().0, part.len()), (40_000, 10));
        drop(part);
        assert_eq!(buffers.state(), (0, 50_000));
    }
}
