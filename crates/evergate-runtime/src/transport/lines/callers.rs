//! Where the calls to a server come from, and so where its answers are best read.
//!
//! An answer that is read on one thread and waited for on another takes a wake-up more than the call itself. So it is read
//! where all calls come from, if they all come from one place. If they come from several, then it is read beside them, on
//! the hub's own runtime: whoever reads has its hands full then, and most of those who wait are elsewhere in any case.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::sharded::Apart;

#[derive(Debug)]
pub(super) struct Callers {
    /// Whether answers may be read elsewhere.
    matter: bool,
    /// The hub's own runtime.
    home: Id,
    /// Every call from elsewhere writes to it, and to nothing else here.
    recent: Apart<Mutex<Recent>>,
    /// Where to read, if not at home.
    place: watch::Sender<Option<Handle>>,
}

/// The calls from elsewhere.
#[derive(Debug, Default)]
struct Recent {
    last: Option<Id>,
    /// How many came from the same place as the last one.
    in_a_row: u32,
    /// Answers are read there.
    is_settled: bool,
}

/// So many calls from one place mean that there is no other. Moving takes less than that many wake-ups.
const ENOUGH: u32 = 1_000;

// === impl Callers ===

impl Callers {
    /// Made at home.
    pub(super) fn new(matter: bool) -> Self {
        let (home, place) = (Handle::current().id(), watch::Sender::new(None));
        Self { matter, home, recent: Apart::default(), place }
    }

    /// Where to read, whenever that changes.
    pub(super) fn place(&self) -> watch::Receiver<Option<Handle>> {
        self.place.subscribe()
    }

    /// Notes that somebody calls from the runtime that this is called on.
    pub(super) fn note(&self) {
        if !self.matter {
            return;
        }
        let here = Handle::current();
        let id = here.id();
        if id == self.home {
            return;
        }
        let mut recent = self.recent.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.last != Some(id) {
            let before = std::mem::take(&mut *recent);
            recent.last = Some(id);
            if before.is_settled {
                self.place.send_replace(None);
            }
        }
        recent.in_a_row = recent.in_a_row.saturating_add(1);
        if recent.in_a_row == ENOUGH {
            recent.is_settled = true;
            self.place.send_replace(Some(here));
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
        let callers = home.block_on(async { Callers::new(true) });
        let place = callers.place();
        let read_at = || place.borrow().as_ref().map(Handle::id);
        let call = |from: &Runtime, times: u32| {
            let _there = from.enter();
            (0..times).for_each(|_| callers.note());
        };
        call(&home, 2 * ENOUGH);
        call(&one, ENOUGH - 1);
        call(&home, 1);
        assert_eq!(read_at(), None, "not yet");
        call(&one, 1);
        assert_eq!(read_at(), Some(one.handle().id()), "calls from home need no place");
        call(&other, 1);
        assert_eq!(read_at(), None, "there is another");
        for _ in 0..ENOUGH {
            call(&one, ENOUGH / 2);
            call(&other, ENOUGH / 2);
        }
        assert_eq!(read_at(), None, "there are two");
        call(&other, ENOUGH);
        assert_eq!(read_at(), Some(other.handle().id()), "the first is gone");
    }
}
