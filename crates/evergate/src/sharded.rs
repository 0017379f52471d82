//! One of something for each thread that writes to it: what several write to wanders between processors, and every call
//! would wait for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many threads have one of their own. If there are more, some share.
const SHARDS: usize = 8;

/// Made when a thread first writes: most threads have nothing to say of most servers.
#[derive(Debug)]
pub(crate) struct Sharded<T>([OnceLock<Box<Apart<T>>>; SHARDS]);

/// In memory that nothing else is written to: processors fetch two lines of 64 bytes at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

thread_local! {
    static NUMBER: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

// === impl Sharded ===

impl<T: Default> Sharded<T> {
    /// This thread's.
    pub(crate) fn own(&self) -> &T {
        // At the end of a thread any will do.
        let number = NUMBER.try_with(|number| *number).unwrap_or_default();
        &self.0[number].get_or_init(Box::default).0
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|shard| shard.get().map(|shard| &shard.0))
    }
}

impl<T> Default for Sharded<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; SHARDS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_add_is_found_together() {
        let counts = Sharded::<AtomicUsize>::default();
        assert_eq!(counts.all().count(), 0);
        std::thread::scope(|scope| {
            for _ in 0..3 * SHARDS {
                scope.spawn(|| {
                    for _ in 0..100 {
                        counts.own().fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let sum: usize = counts.all().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 3 * SHARDS * 100);
        assert!(counts.all().count() > 1, "threads have their own");
    }
}
