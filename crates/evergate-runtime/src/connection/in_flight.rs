//! Requests that wait for their answers. Each thread has a table for those that it makes, and an id tells which table it is
//! in: who sends and who is answered on one thread meets nobody else there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::call_watch::CallWatch;
use super::handshake::FIRST_ID;
use crate::sharded::{self, Apart, SHARDS};
use crate::transport::{Answer, SendFailure, TransportError};

/// Of one connection.
#[derive(Debug, Default)]
pub(super) struct InFlight([Apart<Mutex<Table>>; SHARDS]);

#[derive(Debug, Default)]
struct Table {
    /// In order, so that no number need be hashed.
    waiting: BTreeMap<u64, Waiting>,
    /// The connection is being ended: whoever still comes must not wait.
    is_cut_off: bool,
    /// Set when no answer can come any more.
    broken: Option<TransportError>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) watch: Arc<CallWatch>,
    /// Absent where the answer comes as the response to the request's own POST.
    pub(super) reply: Option<oneshot::Sender<Result<Answer, SendFailure>>>,
}

/// From one id to the next; what is left of an id after as many of these as go into it is the number of its table.
pub(super) const ID_STEP: u64 = SHARDS as u64;
const _: () = assert!(FIRST_ID.is_multiple_of(ID_STEP));

/// What makes an id one of this thread's.
pub(super) fn own_part() -> u64 {
    sharded::number() as u64
}

// === impl InFlight ===

impl InFlight {
    /// Says whether others wait in the same table.
    pub(super) fn add(&self, waiting: Waiting) -> bool {
        self.of(waiting.watch.id()).add(waiting)
    }

    /// The same, unless no answer can come any more.
    pub(super) fn add_unless_broken(&self, waiting: Waiting) -> bool {
        let mut table = self.of(waiting.watch.id());
        let Some(error) = table.broken.clone() else { return table.add(waiting) };
        drop(table);
        if let Some(reply) = waiting.reply {
            // Whoever gave up does not mind.
            let _ = reply.send(Err(SendFailure::broken(false, error)));
        }
        false
    }

    pub(super) fn remove(&self, id: u64) -> Option<Waiting> {
        self.of(id).waiting.remove(&id)
    }

    pub(super) fn watch(&self, id: u64) -> Option<Arc<CallWatch>> {
        self.of(id).waiting.get(&id).map(|waiting| waiting.watch.clone())
    }

    /// All that are chosen. One that is added meanwhile may be missing.
    pub(super) fn watches(&self, chosen: impl Fn(&Waiting) -> bool) -> Vec<Arc<CallWatch>> {
        let mut watches = Vec::new();
        for table in self.tables() {
            let chosen = table.waiting.values().filter(|waiting| chosen(waiting));
            watches.extend(chosen.map(|waiting| waiting.watch.clone()));
        }
        watches
    }

    /// Tells all of them, and whoever still comes, that the connection is being ended.
    pub(super) fn cut_off(&self) {
        for mut table in self.tables() {
            table.is_cut_off = true;
        }
        for watch in self.watches(|_| true) {
            watch.cut_off();
        }
    }

    pub(super) fn set_broken(&self, error: &TransportError) {
        for mut table in self.tables() {
            table.broken = Some(error.clone());
        }
    }

    /// Why no answer can come any more, if that is so.
    pub(super) fn broken(&self) -> Option<TransportError> {
        self.of(own_part()).broken.clone()
    }

    /// Takes all of them out.
    pub(super) fn take_all(&self) -> Vec<Waiting> {
        let taken = self.tables().map(|mut table| std::mem::take(&mut table.waiting));
        taken.flat_map(BTreeMap::into_values).collect()
    }

    fn tables(&self) -> impl Iterator<Item = MutexGuard<'_, Table>> {
        self.0.iter().map(|table| table.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn of(&self, id: u64) -> MutexGuard<'_, Table> {
        let table = &self.0[(id % ID_STEP) as usize].0;
        table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Table ===

impl Table {
    fn add(&mut self, waiting: Waiting) -> bool {
        if self.is_cut_off {
            waiting.watch.cut_off();
        }
        self.waiting.insert(waiting.watch.id(), waiting);
        self.waiting.len() > 1
    }
}
