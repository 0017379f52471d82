//! One configured server: what handles, calls and the driver share about it.

mod commands;
mod side_state;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use commands::{Commands, Underway};
pub(crate) use side_state::SideState;

use crate::catalog::CatalogStore;
use crate::connection::{Connection, Garbage};
use crate::driver::Input;
use crate::observe::{HubEvent, Notification, Status};
use crate::settings::Checked;
use crate::tasks::Tasks;
use crate::transport::StderrTail;

/// Never leaves the hub's table, whatever its state.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Arc<Checked>,
    pub(crate) inputs: mpsc::Sender<Box<Input>>,
    pub(crate) commands: Commands,
    pub(crate) published: watch::Sender<Published>,
    pub(crate) side_state: SideState,
    pub(crate) stderr: StderrTail,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) held: AtomicUsize,
    pub(crate) shared: Arc<Shared>,
}

/// What all slots of a hub share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) catalog: CatalogStore,
    pub(crate) events: broadcast::Sender<HubEvent>,
    pub(crate) notifications: broadcast::Sender<Notification>,
    pub(crate) tasks: Tasks,
    /// Calls under way, so that a shutdown can let them finish.
    pub(crate) calls: TaskTracker,
    /// No new calls.
    pub(crate) closing: CancellationToken,
}

/// What the driver says of its slot, all at once: whoever sees the state sees the connection that goes with it.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) status: Arc<Status>,
    pub(crate) connection: Option<Arc<Connection>>,
    /// A connection on trial, for callers in doubt about the current one.
    pub(crate) candidate: Option<Arc<Connection>>,
}

// === impl Slot ===

impl Slot {
    /// The published status with the numbers that change without a transition.
    pub(crate) fn status(&self) -> Status {
        let published = self.published.borrow().status.clone();
        self.with_live_numbers(&published)
    }

    pub(crate) fn with_live_numbers(&self, status: &Status) -> Status {
        Status {
            held: self.held.load(Ordering::Relaxed),
            stderr_tail: self.stderr.lines(),
            garbage: self.garbage.count(),
            last_garbage: self.garbage.newest(),
            ..status.clone()
        }
    }
}
