//! The hub: every configured server, each with its own driver, none in the way of another.

mod builder;
mod held;
mod table;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

pub use builder::HubBuilder;
pub use held::Held;
use table::Table;

use crate::catalog::{Catalog, ServerCatalog};
use crate::driver::{Dialing, Driver};
use crate::error::UnknownServer;
use crate::lifecycle::Lifecycle;
use crate::observe::{HubEvent, Notification};
use crate::protocol::{self, method};
use crate::server::ServerHandle;
use crate::settings::{Checked, InvalidSettings, LONGEST, Problem, Settings};
use crate::slot::{Shared, Slot};

/// Supervised connections to any number of MCP servers. Dropping it cuts everything off; [`Hub::shutdown`] is the
/// orderly way.
#[derive(Debug)]
pub struct Hub {
    table: Table,
    shared: Arc<Shared>,
    dialing: Dialing,
    /// Seeds the jitter of every slot.
    random: Mutex<fastrand::Rng>,
    stop: CancellationToken,
}

/// What a shutdown left undone; both are zero after an orderly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Calls that were cut off because the deadline had passed.
    pub interrupted_calls: usize,
    /// Tasks that had not ended by then.
    pub unfinished_tasks: usize,
}

/// Required servers that did not come up in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("required servers are not connected: {}", names.join(", "))]
#[non_exhaustive]
pub struct NotReady {
    /// Their names.
    pub names: Vec<String>,
}

const TAKEN: &str = "is used by another server too";

// === impl Hub ===

impl Hub {
    /// Starts configuring.
    pub fn builder() -> HubBuilder {
        HubBuilder::new()
    }

    /// A handle to one server: valid through every reconnect, disable and enable, until it is removed or replaced.
    pub fn server(&self, name: &str) -> Result<ServerHandle, UnknownServer> {
        let slot = self.table.get(name).ok_or_else(|| UnknownServer(name.to_owned()))?;
        Ok(ServerHandle::of(slot))
    }

    /// Handles to all servers, in the order they were configured or added.
    pub fn servers(&self) -> Vec<ServerHandle> {
        self.table.live().into_iter().map(ServerHandle::new).collect()
    }

    /// Adds a server and starts it, unless it is disabled. A name that is taken is a problem of the field `name`.
    ///
    /// Once a shutdown has begun nothing is started any more, and every call fails with
    /// [`CallFailure::ShuttingDown`](crate::CallFailure::ShuttingDown).
    pub fn add(&self, name: &str, settings: Settings) -> Result<ServerHandle, InvalidSettings> {
        let settings = check(name, settings)?;
        let added = self.table.add(name, || self.begin(self.open(name, settings, None)));
        added.map(ServerHandle::new).map_err(|_| {
            let problem = Problem { server: name.to_owned(), field: "name", message: TAKEN.into() };
            InvalidSettings { problems: vec![problem] }
        })
    }

    /// Starts a server with other settings in the place of the one of that name, if there is one. What the old one
    /// offered stays in the catalog until the new one is listed.
    ///
    /// The old one takes no more calls: those that wait for it end with
    /// [`CallFailure::Removed`](crate::CallFailure::Removed), those it has are given its `max_timeout` to finish, and
    /// then it is closed. Until then both exist, child processes too. Handles made before go on naming the old one, of
    /// which no event tells any more. After a shutdown has begun this is like [`Self::add`].
    pub fn replace(&self, name: &str, settings: Settings) -> Result<ServerHandle, InvalidSettings> {
        let settings = check(name, settings)?;
        let begin = || self.begin(self.open(name, settings, None));
        Ok(ServerHandle::new(self.table.replace(begin)))
    }

    /// Takes a server out, and what it offered out of the catalog at once. It ends as with [`Self::replace`].
    pub fn remove(&self, name: &str) -> Result<(), UnknownServer> {
        let close = |slot: &Arc<Slot>| self.shared.catalog.disown(name, slot.id);
        let removed = self.table.remove(name, close);
        if removed { Ok(()) } else { Err(UnknownServer(name.to_owned())) }
    }

    /// What all servers offer, as last listed.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.snapshot()
    }

    /// The [`version`](Catalog::version) of the newest, for whoever has one already: this takes no lock.
    pub fn catalog_version(&self) -> u64 {
        self.shared.catalog.version()
    }

    /// Changes when the content of the catalog does.
    pub fn watch_catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.shared.catalog.subscribe()
    }

    /// Every transition and catalog change from now on.
    pub fn events(&self) -> broadcast::Receiver<HubEvent> {
        self.shared.events.subscribe()
    }

    /// Log messages, resource updates and other notifications of all servers from now on.
    pub fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.shared.notifications.subscribe()
    }

    /// Lists every connected server anew.
    pub fn refresh(&self) {
        for server in self.servers() {
            server.refresh();
        }
    }

    /// Tells every connected server that the roots have changed.
    pub fn roots_changed(&self) {
        if !self.dialing.handlers.has_roots() {
            return;
        }
        for slot in self.table.live() {
            let Some(connection) = slot.published.borrow().connection.clone() else { continue };
            // Later revisions ask for them when they need them.
            if connection.peer().version.is_modern() {
                continue;
            }
            self.shared.tasks.spawn(async move {
                let message = protocol::notification(method::ROOTS_CHANGED, None);
                if let Err(error) = connection.notify(message).await {
                    tracing::debug!(%error, "a roots change did not reach the server");
                }
            });
        }
    }

    /// Waits until every required server is connected.
    pub async fn ready(&self, within: Duration) -> Result<(), NotReady> {
        let until = Instant::now() + within.min(LONGEST);
        loop {
            let missing = self.missing();
            let Some(slot) = missing.first() else { return Ok(()) };
            let mut published = slot.published.subscribe();
            let decided = async {
                tokio::select! {
                    _ = published.wait_for(|now| now.connection.is_some()) => {}
                    () = slot.retirement.begun() => {}
                }
            };
            if timeout_at(until, decided).await.is_err() {
                let names = self.missing().iter().map(|slot| slot.name.to_string()).collect();
                return Err(NotReady { names });
            }
        }
    }

    /// Takes no more calls, lets those under way finish until the deadline, then closes everything, servers that were
    /// removed or replaced and are not gone yet included. Each server's close is bounded by its own `close_timeout`.
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        self.shared.closing.begin();
        self.shared.calls.close();
        // Calls that are left over are counted below.
        let _ = timeout(deadline, self.shared.calls.done()).await;
        let interrupted_calls = self.shared.calls.count();
        let slots = self.table.all();
        for slot in &slots {
            slot.commands.disable();
        }
        let patience = slots.iter().map(|slot| slot.settings.close_timeout).max();
        // A second on top: a killed child still has to be reaped.
        let patience = patience.unwrap_or_default() + Duration::from_secs(2);
        let _ = timeout(patience, self.shared.tasks.ended()).await;
        let unfinished_tasks = self.shared.tasks.running();
        self.stop.cancel();
        ShutdownReport { interrupted_calls, unfinished_tasks }
    }

    /// Required servers that are not connected.
    fn missing(&self) -> Vec<Arc<Slot>> {
        let mut slots = self.table.live();
        slots.retain(|slot| slot.settings.required && slot.published.borrow().connection.is_none());
        slots
    }

    /// A new slot that owns the name from now on, and its driver, which has not begun.
    fn open(
        &self,
        name: &str,
        settings: Checked,
        restored: Option<ServerCatalog>,
    ) -> (Arc<Slot>, Driver) {
        let seed = self.random.lock().unwrap_or_else(PoisonError::into_inner).u64(..);
        let lifecycle = Lifecycle::new(settings.policy, seed);
        let (slot, inputs) = Slot::new(name.into(), settings, self.shared.clone());
        self.shared.catalog.own(&slot.name, slot.id);
        if slot.settings.enabled {
            if let Some(restored) = restored {
                self.shared.catalog.restore(&slot.name, slot.id, restored);
            }
            slot.commands.enable();
        } else {
            self.shared.catalog.remove(&slot.name, slot.id);
        }
        let (dialing, stop) = (self.dialing.clone(), self.stop.clone());
        let driver = Driver::new(slot.clone(), inputs, lifecycle, dialing, stop);
        (slot, driver)
    }

    fn begin(&self, (slot, driver): (Arc<Slot>, Driver)) -> Arc<Slot> {
        self.shared.tasks.spawn(driver.run());
        slot
    }
}

fn check(name: &str, settings: Settings) -> Result<Checked, InvalidSettings> {
    settings.check(name).map_err(|problems| InvalidSettings { problems })
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.closing.begin();
        self.stop.cancel();
    }
}
