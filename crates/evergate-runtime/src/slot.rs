//! One configured server: what handles, calls and the driver share about it.

mod commands;
mod keep_alive;
mod permits;
mod rate_gate;
mod retirement;
mod side_state;
mod subscription;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{broadcast, mpsc, watch};

pub(crate) use commands::{Commands, Underway};
pub(crate) use keep_alive::keep_alive;
use permits::Permits;
pub(crate) use rate_gate::Probe;
use rate_gate::RateGate;
use retirement::Retirement;
use side_state::SideState;
pub(crate) use subscription::follow;

use crate::catalog::CatalogStore;
use crate::connection::{Connection, Garbage};
use crate::driver::{INPUTS, Input};
use crate::ending::Ending;
use crate::entrusted::Entrusted;
use crate::lifecycle::{Reason, StateKind};
use crate::observe::{HubEvent, Notification, Status, Witness};
use crate::own::Own;
use crate::settings::Checked;
use crate::sharded::Sharded;
use crate::tally::Tally;
use crate::tasks::Tasks;
use crate::transport::StderrTail;

/// In the hub's table, whatever its state, until somebody removes or replaces it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: SlotId,
    pub(crate) name: Arc<str>,
    pub(crate) settings: Arc<Checked>,
    pub(crate) inputs: mpsc::Sender<Box<Input>>,
    pub(crate) commands: Commands,
    pub(crate) published: watch::Sender<Published>,
    pub(crate) side_state: SideState,
    pub(crate) stderr: StderrTail,
    pub(crate) entrusted: Entrusted,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) permits: Permits,
    pub(crate) held: AtomicUsize,
    /// Of those that are held, those that wait for others to end.
    pub(crate) queued: AtomicUsize,
    pub(crate) in_flight: Sharded<AtomicUsize>,
    /// What the driver published last, as each thread has it.
    current: Sharded<Mutex<Option<Own<Connection>>>>,
    pub(crate) rate: RateGate,
    pub(crate) retirement: Retirement,
    pub(crate) shared: Arc<Shared>,
}

/// Tells slots apart that have, or had, the same name; their generations may be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotId(u64);

/// What all slots of a hub share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) catalog: CatalogStore,
    pub(crate) events: broadcast::Sender<HubEvent>,
    pub(crate) witness: Witness,
    pub(crate) notifications: broadcast::Sender<Notification>,
    pub(crate) tasks: Tasks,
    /// Calls under way, so that a shutdown can let them finish.
    pub(crate) calls: Tally,
    /// No new calls.
    pub(crate) closing: Ending,
    /// Slots made so far.
    pub(crate) slots: AtomicU64,
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
    pub(crate) fn new(
        name: Arc<str>,
        settings: Checked,
        shared: Arc<Shared>,
    ) -> (Arc<Self>, mpsc::Receiver<Box<Input>>) {
        let (inputs, receiver) = mpsc::channel(INPUTS);
        let status = Status::before_start(name.clone(), &settings);
        let published = Published { status: Arc::new(status), connection: None, candidate: None };
        let slot = Self {
            id: SlotId(shared.slots.fetch_add(1, Ordering::Relaxed)),
            name,
            inputs,
            commands: Commands::default(),
            published: watch::Sender::new(published),
            side_state: SideState::default(),
            stderr: StderrTail::default(),
            entrusted: Entrusted::to(&settings.endpoint),
            garbage: Arc::default(),
            permits: Permits::new(settings.max_in_flight),
            held: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            in_flight: Sharded::default(),
            current: Sharded::default(),
            rate: RateGate::new(&settings),
            retirement: Retirement::default(),
            settings: Arc::new(settings),
            shared,
        };
        (Arc::new(slot), receiver)
    }

    /// Nothing may be opened any more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.shared.closing.has_begun() || self.retirement.has_begun()
    }

    /// The connection that serves calls, without a look at what other threads look at too.
    pub(crate) fn connection(&self) -> Option<Own<Connection>> {
        let mut current = self.current.own().lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_none() {
            // While it is locked: what is published meanwhile takes it away again.
            *current = self.published.borrow().connection.clone().map(Own::new);
        }
        current.clone()
    }

    /// For the driver alone.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Published)) {
        self.published.send_modify(change);
        for current in self.current.all() {
            let before = current.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Not while it is locked: it may be the last.
            drop(before);
        }
    }

    /// The published status with the numbers that change without a transition.
    pub(crate) fn status(&self) -> Status {
        let published = self.published.borrow().status.clone();
        self.with_live_numbers(&published)
    }

    pub(crate) fn with_live_numbers(&self, status: &Status) -> Status {
        let (stderr_tail, stderr_lines) = self.stderr.lines();
        Status {
            held: self.held.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            in_flight: self.in_flight.sum(),
            rate_limited: self.rate.status(),
            stderr_tail,
            stderr_lines,
            garbage: self.garbage.count(),
            last_garbage: self.garbage.newest().map(|text| self.entrusted.hide(&text)),
            ..status.clone()
        }
    }
}

// === impl Status ===

impl Status {
    /// A server that is to be started counts as connecting from the first moment, so that a call made right after
    /// it was configured waits instead of failing.
    fn before_start(server: Arc<str>, settings: &Checked) -> Self {
        Self {
            server,
            state: if settings.enabled { StateKind::Connecting } else { StateKind::Disabled },
            reason: Reason::Configured,
            since: SystemTime::now(),
            generation: None,
            connected_since: None,
            degraded: false,
            attempts: 0,
            next_retry_at: None,
            earliest_attempt_at: None,
            last_error: None,
            last_error_at: None,
            last_failure: None,
            reconnects: 0,
            discovery_failures: 0,
            rpc_failures: 0,
            failure_threshold: settings.policy.failure_threshold,
            transport: None,
            protocol: None,
            pid: None,
            stderr_tail: Vec::new(),
            stderr_lines: 0,
            garbage: 0,
            last_garbage: None,
            stale_events: 0,
            held: 0,
            queued: 0,
            max_held: settings.max_held,
            in_flight: 0,
            max_in_flight: settings.max_in_flight,
            rate_limited: None,
            in_doubt: false,
            returning: false,
        }
    }
}
