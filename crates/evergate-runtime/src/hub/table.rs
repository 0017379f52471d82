//! Which server answers to which name. A short lock, never held across an await.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use indexmap::IndexMap;

use crate::own::{Own, PerThread};
use crate::slot::Slot;

/// The slots of a hub, in the order they came.
#[derive(Debug, Default)]
pub(super) struct Table(RwLock<Slots>);

#[derive(Debug, Default)]
struct Slots {
    live: IndexMap<Arc<str>, PerThread<Slot>>,
    /// Taken out, and perhaps not closed yet.
    retired: Vec<Weak<Slot>>,
}

/// The name is taken.
pub(super) struct Taken;

// === impl Table ===

impl Table {
    pub(super) fn get(&self, name: &str) -> Option<Own<Slot>> {
        self.read().live.get(name).map(|slot| slot.own().clone())
    }

    pub(super) fn live(&self) -> Vec<Arc<Slot>> {
        self.read().live.values().map(|slot| Arc::clone(slot)).collect()
    }

    /// Those that were taken out and are not gone too.
    pub(super) fn all(&self) -> Vec<Arc<Slot>> {
        let slots = self.read();
        let retired = slots.retired.iter().filter_map(Weak::upgrade);
        slots.live.values().map(|slot| Arc::clone(slot)).chain(retired).collect()
    }

    /// `open` is called while the table is locked, so that whoever finds a slot finds all that belongs to it.
    pub(super) fn add(
        &self,
        name: &str,
        open: impl FnOnce() -> Arc<Slot>,
    ) -> Result<Arc<Slot>, Taken> {
        let mut slots = self.write();
        if slots.live.contains_key(name) {
            return Err(Taken);
        }
        let slot = open();
        slots.live.insert(slot.name.clone(), PerThread::new(slot.clone()));
        Ok(slot)
    }

    /// The same, in place of whatever had the name.
    pub(super) fn replace(&self, open: impl FnOnce() -> Arc<Slot>) -> Arc<Slot> {
        let mut slots = self.write();
        let slot = open();
        if let Some(old) = slots.live.insert(slot.name.clone(), PerThread::new(slot.clone())) {
            slots.retire(&old);
        }
        slot
    }

    /// `close` is called while the table is locked.
    pub(super) fn remove(&self, name: &str, close: impl FnOnce(&Arc<Slot>)) -> bool {
        let mut slots = self.write();
        let Some(old) = slots.live.shift_remove(name) else { return false };
        slots.retire(&old);
        close(&old);
        true
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Slots ===

impl Slots {
    fn retire(&mut self, slot: &Arc<Slot>) {
        slot.retirement.begin();
        self.retired.retain(|old| old.strong_count() > 0);
        self.retired.push(Arc::downgrade(slot));
    }
}
