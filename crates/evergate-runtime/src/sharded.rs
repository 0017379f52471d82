//! One of something for each thread that writes to it: what several write to wanders between processors, and every call
//! would wait for it.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// So many threads have one of their own. If there are more, some share.
pub(crate) const SHARDS: usize = 8;

/// Made when a thread first writes: most threads have nothing to say of most servers.
#[derive(Debug)]
pub struct Sharded<T>([OnceLock<Box<Apart<T>>>; SHARDS]);

/// In memory that nothing else is in: processors fetch two lines of 64 bytes at a time, and who only reads what is beside
/// something that others write to waits for it all the same.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

/// No number yet.
const NONE: usize = usize::MAX;

thread_local! {
    // Every call asks for it many times: nothing is to be done for that but to read it.
    static NUMBER: Cell<usize> = const { Cell::new(NONE) };
}

/// Which of them are this thread's.
pub(crate) fn number() -> usize {
    let number = NUMBER.get();
    if number == NONE { first_number() } else { number }
}

#[cold]
fn first_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let number = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    NUMBER.set(number);
    number
}

// === impl Sharded ===

impl<T: Default> Sharded<T> {
    /// This thread's.
    pub fn own(&self) -> &T {
        let shard = &self.0[number()];
        if let Some(made) = shard.get() {
            return &made.0;
        }
        let made = shard.get_or_init(Box::default);
        // Whoever looks at all of them and misses this one has said before it looked whatever it said.
        fence(Ordering::SeqCst);
        &made.0
    }

    /// Those of all threads.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        fence(Ordering::SeqCst);
        self.0.iter().filter_map(|shard| shard.get().map(|shard| &shard.0))
    }
}

impl Sharded<AtomicUsize> {
    /// What all threads have counted. One may have counted down what another counted up, so only the sum has a meaning.
    pub(crate) fn sum(&self) -> usize {
        let counts = self.all().map(|count| count.load(Ordering::SeqCst));
        counts.fold(0, usize::wrapping_add)
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
        assert_eq!(counts.sum(), 3 * SHARDS * 100);
        assert!(counts.all().count() > 1, "threads have their own");
        // Whoever counts down need not be who counted up.
        for _ in 0..3 * SHARDS * 100 {
            counts.own().fetch_sub(1, Ordering::Relaxed);
        }
        assert_eq!(counts.sum(), 0);
    }
}
