//! What people ask of a slot. Never queued: a thousand toggles leave the last one, and whether there was a disable
//! before it.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

use crate::lifecycle::Event;

/// Filled from anywhere without waiting, emptied by the driver.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    wanted: AtomicU8,
    /// Being carried out by the driver.
    in_hand: AtomicU8,
    changed: Notify,
}

/// A command the driver has not carried out yet; a call made after it should see its effect all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Underway {
    Nothing,
    /// It is about to be switched off.
    Stop,
    /// It is about to be started, if it is not running.
    Start,
    /// What runs is about to be replaced.
    Restart,
}

// Applied in this order.
const DISABLE: u8 = 1;
const ENABLE: u8 = 2;
const RESTART: u8 = 4;
const DEMAND: u8 = 8;

// === impl Commands ===

impl Commands {
    pub(crate) fn enable(&self) {
        self.add(ENABLE);
    }

    /// Overrules whatever was asked before.
    pub(crate) fn disable(&self) {
        self.wanted.store(DISABLE, Ordering::Release);
        self.changed.notify_one();
    }

    pub(crate) fn restart(&self) {
        self.add(RESTART);
    }

    pub(crate) fn demand(&self) {
        self.add(DEMAND);
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn underway(&self) -> Underway {
        let wanted = match self.wanted.load(Ordering::Acquire) {
            0 => self.in_hand.load(Ordering::Acquire),
            wanted => wanted,
        };
        if wanted & RESTART != 0 || wanted & (DISABLE | ENABLE) == DISABLE | ENABLE {
            Underway::Restart
        } else if wanted & ENABLE != 0 {
            Underway::Start
        } else if wanted & DISABLE != 0 {
            Underway::Stop
        } else {
            Underway::Nothing
        }
    }

    /// Takes the commands to carry out; [`Self::done`] follows when their effect is published.
    pub(crate) fn take(&self) -> impl Iterator<Item = Event> + use<> {
        // Set before and after the swap, so that no reader finds both empty.
        self.in_hand.store(self.wanted.load(Ordering::Acquire), Ordering::Release);
        let wanted = self.wanted.swap(0, Ordering::AcqRel);
        self.in_hand.store(wanted, Ordering::Release);
        let events = [
            (DISABLE, Event::Disable),
            (ENABLE, Event::Enable),
            (RESTART, Event::Restart),
            (DEMAND, Event::Demand),
        ];
        let asked = events.into_iter().filter(move |(flag, _)| wanted & flag != 0);
        asked.map(|(_, event)| event)
    }

    pub(crate) fn done(&self) {
        self.in_hand.store(0, Ordering::Release);
    }

    fn add(&self, flag: u8) {
        self.wanted.fetch_or(flag, Ordering::AcqRel);
        self.changed.notify_one();
    }
}
