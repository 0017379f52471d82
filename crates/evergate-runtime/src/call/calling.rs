//! A call is counted from the moment it is made.

use std::ops::Deref;

use crate::own::Own;
use crate::slot::Slot;

/// The slot a call is for. Whoever ends the server or the hub waits until it is dropped.
#[derive(Debug)]
pub(super) struct Calling(Own<Slot>);

// === impl Calling ===

impl Calling {
    pub(super) fn to(slot: Own<Slot>) -> Self {
        slot.shared.calls.add();
        slot.retirement.count_call();
        Self(slot)
    }
}

impl Deref for Calling {
    type Target = Own<Slot>;

    fn deref(&self) -> &Own<Slot> {
        &self.0
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.retirement.call_ended();
        self.0.shared.calls.remove();
    }
}
