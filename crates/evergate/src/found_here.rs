//! What each thread has found in a table that all of them share, so that it need not reach for the table again: many calls
//! on as many threads would wait for its lock, and count on and off what they found.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evergate_runtime::{Own, Sharded};

use crate::hash::HashMap;

/// Beside the table. Whoever takes something out of that must [forget](Self::forget) it here, afterwards.
#[derive(Debug)]
pub(crate) struct FoundHere<K, V>(Sharded<Mutex<HashMap<K, Own<V>>>>);

// === impl FoundHere ===

impl<K: Eq + Hash, V> FoundHere<K, V> {
    /// `look` looks in the table.
    pub(crate) fn find<Q>(
        &self,
        key: &Q,
        look: impl FnOnce() -> Option<(K, Arc<V>)>,
    ) -> Option<Own<V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut found = locked(self.0.own());
        if let Some(found) = found.get(key) {
            return Some(found.clone());
        }
        // While it is locked: who takes it out of the table in this moment finds it here.
        let (key, value) = look()?;
        let own = Own::new(value);
        found.insert(key, own.clone());
        Some(own)
    }

    /// It is no longer in the table.
    pub(crate) fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        for found in self.0.all() {
            let forgotten = locked(found).remove(key);
            // Not while it is locked: it may be the last.
            drop(forgotten);
        }
    }
}

impl<K, V> Default for FoundHere<K, V> {
    fn default() -> Self {
        Self(Sharded::default())
    }
}

fn locked<T>(found: &Mutex<T>) -> MutexGuard<'_, T> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_asked_once_and_again_after_it_was_forgotten() {
        let found = FoundHere::<String, u32>::default();
        let there = |value: u32| move || Some(("a".to_owned(), Arc::new(value)));
        assert!(found.find("a", || None).is_none(), "that it is not there is not remembered");
        assert_eq!(found.find("a", there(1)).map(|own| **own), Some(1));
        assert_eq!(found.find("a", there(2)).map(|own| **own), Some(1));
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| found.find("a", there(1)).is_some());
            assert!(elsewhere.join().unwrap());
        });
        found.forget("a");
        assert!(found.0.all().all(|found| locked(found).is_empty()), "on every thread");
        assert_eq!(found.find("a", there(2)).map(|own| **own), Some(2));
    }
}
