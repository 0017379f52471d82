//! One account of the memory that the gateway holds for others: requests on their way, results that wait to be sent, and
//! streams that can be taken up again.
//!
//! Each of those has a limit of its own, but there may be many of each at once. When all of them together are too much,
//! new requests are refused until some of it is given back; what is under way goes on.
//!
//! Only what is large, or may add up, is counted: a small request on its way costs a look at one number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// One per process.
#[derive(Debug)]
pub(crate) struct Buffers {
    used: AtomicUsize,
    limit: AtomicUsize,
}

/// Bytes that give back their place in the account with the last of their copies and parts, wherever those are.
struct Counted {
    bytes: Bytes,
    buffers: Arc<Buffers>,
}

/// Smaller ones are not worth counting: as many as there are requests at once are less than a large one.
const WORTH_COUNTING: usize = 16 * 1024;

// === impl Buffers ===

impl Buffers {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit: AtomicUsize::new(limit) })
    }

    /// For what belongs to no gateway.
    pub(crate) fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many bytes are held, and how many may be.
    pub(crate) fn state(&self) -> (usize, usize) {
        (self.used.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed))
    }

    /// Nothing new may be taken on.
    pub(crate) fn are_full(&self) -> bool {
        self.are_full_but_for(0)
    }

    /// The same, were it not for something of this size that may have been counted already: alone it is never too much.
    pub(crate) fn are_full_but_for(&self, bytes: usize) -> bool {
        let (used, limit) = self.state();
        let own = if bytes < WORTH_COUNTING { 0 } else { bytes };
        used.saturating_sub(own) >= limit
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
