//! What people ask of a slot. Never queued: a thousand toggles leave the last one, and whether there was a disable
//! before it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::lifecycle::Event;

/// Filled from anywhere without waiting, emptied by the driver.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    wanted: Mutex<Wanted>,
    changed: Notify,
}

/// Applied in the order of the fields.
#[derive(Debug, Default)]
struct Wanted {
    disable: bool,
    enable: bool,
    restart: bool,
    demand: bool,
}

// === impl Commands ===

impl Commands {
    pub(crate) fn enable(&self) {
        self.change(|wanted| wanted.enable = true);
    }

    pub(crate) fn disable(&self) {
        self.change(|wanted| *wanted = Wanted { disable: true, ..Wanted::default() });
    }

    pub(crate) fn restart(&self) {
        self.change(|wanted| wanted.restart = true);
    }

    pub(crate) fn demand(&self) {
        self.change(|wanted| wanted.demand = true);
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn take(&self) -> impl Iterator<Item = Event> + use<> {
        let Wanted { disable, enable, restart, demand } =
            std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        [
            disable.then_some(Event::Disable),
            enable.then_some(Event::Enable),
            restart.then_some(Event::Restart),
            demand.then_some(Event::Demand),
        ]
        .into_iter()
        .flatten()
    }

    fn change(&self, edit: impl FnOnce(&mut Wanted)) {
        edit(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }
}
