//! Servers that are there and have not begun: whoever starts a hub may have something to do first.

use std::fmt;
use std::sync::Arc;

use crate::driver::Driver;
use crate::slot::Slot;
use crate::tasks::Tasks;

/// Servers that wait for their beginning, which is when this is dropped: nobody can forget them. They may be removed or
/// replaced meanwhile, and the hub may be shut down or dropped; then they begin nothing.
#[must_use = "servers begin when this is dropped"]
pub struct Held {
    drivers: Vec<Driver>,
    tasks: Tasks,
}

// === impl Held ===

impl Held {
    pub(super) fn new(tasks: Tasks, servers: usize) -> Self {
        Self { drivers: Vec::with_capacity(servers), tasks }
    }

    pub(super) fn hold(&mut self, (slot, driver): (Arc<Slot>, Driver)) -> Arc<Slot> {
        self.drivers.push(driver);
        slot
    }
}

impl fmt::Debug for Held {
    /// How many, not all that a driver knows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("servers", &self.drivers.len()).finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for driver in self.drivers.drain(..) {
            self.tasks.spawn(driver.run());
        }
    }
}
