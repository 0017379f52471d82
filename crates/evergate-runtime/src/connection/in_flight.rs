//! Requests that wait for their answers. Each thread has a table for those that it makes, and an id tells which table it is
//! in: who sends and who is answered on one thread meets nobody else there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

use super::call_watch::CallWatch;
use super::deliveries::Reply;
use super::handshake::FIRST_ID;
use crate::sharded::{self, Apart, SHARDS};
use crate::transport::{SendFailure, TransportError};

/// Of one connection.
#[derive(Debug, Default)]
pub(super) struct InFlight([Apart<Mutex<Table>>; SHARDS]);

#[derive(Debug, Default)]
struct Table {
    /// In order, so that no number need be hashed.
    waiting: BTreeMap<u64, Waiting>,
    /// The runtime on which the last of those was made that are answered by their id.
    place: Option<Handle>,
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
    pub(super) reply: Option<Reply>,
}

/// From one id to the next. The remainder of an id divided by it is the number of its table.
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
        let Some(error) = table.broken.clone() else {
            table.note_place();
            return table.add(waiting);
        };
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

    /// The number of the table that it waits in, if it does.
    pub(super) fn table_of(id: u64) -> usize {
        (id % ID_STEP) as usize
    }

    /// Where most of those are who wait in a table.
    pub(super) fn place(&self, table: usize) -> Option<Handle> {
        self.0[table].0.lock().unwrap_or_else(PoisonError::into_inner).place.clone()
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
        let table = &self.0[Self::table_of(id)].0;
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

    fn note_place(&mut self) {
        let here = Handle::try_current().ok();
        if self.place.as_ref().map(Handle::id) != here.as_ref().map(Handle::id) {
            self.place = here;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;
    use crate::transport::{Answer, SendFailure};

    type Answered = oneshot::Receiver<Result<Answer, SendFailure>>;

    /// One for each table, and who waits for it.
    fn one_each(in_flight: &InFlight) -> Vec<(Arc<CallWatch>, Answered)> {
        let ids = FIRST_ID..FIRST_ID + ID_STEP;
        ids.map(|id| {
            let (sender, reply) = oneshot::channel();
            let watch = Arc::new(CallWatch::new(id, None));
            let waiting = Waiting { watch: watch.clone(), reply: Some(sender) };
            assert!(!in_flight.add_unless_broken(waiting), "it is alone in its table");
            (watch, reply)
        })
        .collect()
    }

    #[test]
    fn every_request_is_found_by_its_id_and_all_of_them_together() {
        let in_flight = InFlight::default();
        let all = one_each(&in_flight);
        assert_eq!(in_flight.watches(|_| true).len(), SHARDS);
        assert!(in_flight.watches(|waiting| waiting.reply.is_none()).is_empty());
        for (watch, _) in &all {
            assert!(in_flight.watch(watch.id()).is_some());
            let found = in_flight.remove(watch.id());
            assert!(found.is_some_and(|found| Arc::ptr_eq(&found.watch, watch)));
            assert!(in_flight.remove(watch.id()).is_none());
        }
        drop(one_each(&in_flight));
        assert_eq!(in_flight.take_all().len(), SHARDS);
    }

    #[test]
    fn the_end_of_the_connection_reaches_every_table() {
        let in_flight = InFlight::default();
        let all = one_each(&in_flight);
        in_flight.cut_off();
        drop(in_flight.take_all());
        let late = one_each(&in_flight);
        let cut_off = |watch: &CallWatch| watch.is_cut_off().now_or_never().is_some();
        assert!(all.iter().chain(&late).all(|(watch, _)| cut_off(watch)));
        in_flight.set_broken(&TransportError::Closed);
        assert!(in_flight.broken().is_some());
        for (_, mut reply) in one_each(&in_flight) {
            assert!(matches!(reply.try_recv(), Ok(Err(_))), "it is told at once");
        }
    }
}
