//! What all threads share and each of them counts for itself.
//!
//! To clone an `Arc` is to write to memory that whoever else clones it writes to as well. Where several threads do so for
//! every call, that memory wanders between processors, and each time a call waits for it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::sharded::{self, SHARDS};

/// An [`Arc`] whose copies are counted apart from those of other threads, if it was taken from [`PerThread::own`].
#[derive(Debug)]
pub struct Own<T>(Arc<Alone<T>>);

/// In memory of its own, as the count before it.
#[derive(Debug)]
#[repr(align(64))]
struct Alone<T>(Arc<T>);

/// Something, and what each thread has of it.
#[derive(Debug)]
pub struct PerThread<T> {
    shared: Arc<T>,
    own: [OnceLock<Own<T>>; SHARDS],
}

// === impl Own ===

impl<T> Own<T> {
    /// Counted by nobody else so far.
    pub fn new(shared: Arc<T>) -> Self {
        Self(Arc::new(Alone(shared)))
    }
}

impl<T> Clone for Own<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Own<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0.0
    }
}

// === impl PerThread ===

impl<T> PerThread<T> {
    /// Cheap: a thread that takes none has none.
    pub fn new(shared: Arc<T>) -> Self {
        Self { shared, own: [const { OnceLock::new() }; SHARDS] }
    }

    /// This thread's.
    pub fn own(&self) -> &Own<T> {
        self.own[sharded::number()].get_or_init(|| Own::new(self.shared.clone()))
    }
}

impl<T> Deref for PerThread<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_counted_apart_and_what_they_hold_is_the_same() {
        let things = PerThread::new(Arc::new(7));
        let own = things.own().clone();
        assert_eq!(Arc::strong_count(&things), 2, "one for this thread");
        let copies: Vec<_> = (0..10).map(|_| things.own().clone()).collect();
        assert_eq!(Arc::strong_count(&things), 2, "whatever the number of copies");
        assert!(copies.iter().all(|copy| Arc::ptr_eq(copy, &own) && ***copy == 7));
        let weak = Arc::downgrade(&things);
        drop((things, copies));
        assert!(weak.upgrade().is_some(), "one is left");
        drop(own);
        assert!(weak.upgrade().is_none());
    }
}
