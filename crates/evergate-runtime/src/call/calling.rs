//! A call is counted from the moment it is made.

use std::ops::Deref;
use std::sync::Arc;

use crate::slot::Slot;

/// The slot a call is for. Whoever ends the server or the hub waits until it is dropped.
#[derive(Debug)]
pub(super) struct Calling(Arc<Slot>);

// === impl Calling ===

impl Calling {
    pub(super) fn to(slot: Arc<Slot>) -> Self {
        slot.shared.calls.add();
        slot.retirement.count_call();
        Self(slot)
    }
}

impl Deref for Calling {
    type Target = Arc<Slot>;

    fn deref(&self) -> &Arc<Slot> {
        &self.0
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.retirement.call_ended();
        self.0.shared.calls.remove();
    }
}
