//! Where the calls to a server come from, and so where its answers are best read.
//!
//! An answer that is read on one thread and waited for on another takes a wake-up more than the call itself. So it is read
//! where all calls come from, if they all come from one place. If they come from several, then it is read beside them, on
//! the hub's own runtime: whoever reads has its hands full then, and most of those who wait are elsewhere in any case.

use tokio::runtime::{Handle, Id};

#[derive(Debug)]
pub(super) struct Callers {
    /// Whether answers may be read elsewhere.
    matter: bool,
    /// The hub's own runtime, whose calls do not count.
    home: Id,
    last: Option<Id>,
    /// How many came from the same place as the last one.
    in_a_row: usize,
    /// Where to read, if not at home.
    place: Option<Handle>,
}

/// So many calls from one place mean that there is no other. Moving takes less than that many wake-ups.
const ENOUGH: usize = 1_000;

// === impl Callers ===

impl Callers {
    /// Made at home.
    pub(super) fn new(matter: bool) -> Self {
        let home = Handle::current().id();
        Self { matter, home, last: None, in_a_row: 0, place: None }
    }

    /// Where to read, if not at home.
    pub(super) fn place(&self) -> Option<&Handle> {
        self.place.as_ref()
    }

    /// Notes that so many were called from a runtime.
    pub(super) fn note(&mut self, from: &Handle, calls: usize) {
        let id = from.id();
        if !self.matter || id == self.home {
            return;
        }
        if self.last != Some(id) {
            (self.last, self.in_a_row, self.place) = (Some(id), 0, None);
        }
        self.in_a_row = self.in_a_row.saturating_add(calls);
        if self.in_a_row >= ENOUGH && self.place.is_none() {
            self.place = Some(from.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn answers_are_read_where_all_calls_come_from() {
        let (home, one, other) = (runtime(), runtime(), runtime());
        let mut callers = home.block_on(async { Callers::new(true) });
        let mut read_at = |from: &Runtime, calls| {
            callers.note(from.handle(), calls);
            callers.place().map(Handle::id)
        };
        read_at(&home, 2 * ENOUGH);
        read_at(&one, ENOUGH - 1);
        assert_eq!(read_at(&home, 1), None, "not yet");
        assert_eq!(read_at(&one, 1), Some(one.handle().id()), "calls from home need no place");
        assert_eq!(read_at(&other, 1), None, "there is another");
        for _ in 0..ENOUGH {
            assert_eq!(read_at(&one, ENOUGH / 2), None, "there are two");
            assert_eq!(read_at(&other, ENOUGH / 2), None, "there are two");
        }
        assert_eq!(read_at(&other, ENOUGH), Some(other.handle().id()), "the first is gone");
    }
}
