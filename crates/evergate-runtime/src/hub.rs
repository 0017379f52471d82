//! The hub: every configured server, each with its own driver, none in the way of another.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use rustls::ClientConfig;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::{Catalog, CatalogStore};
use crate::driver::{Dialing, Driver, INPUTS};
use crate::error::UnknownServer;
use crate::handlers::Handlers;
use crate::lifecycle::{Lifecycle, Reason, StateKind};
use crate::observe::{HubEvent, Notification, Status};
use crate::protocol::{self, method};
use crate::retry::ReconnectLimiter;
use crate::server::ServerHandle;
use crate::settings::{Checked, InvalidSettings, LONGEST, Problem, Settings};
use crate::slot::{Commands, Published, Shared, Slot};
use crate::tasks::Tasks;
use crate::transport::{Dialer, HttpClient};

/// Supervised connections to any number of MCP servers. Dropping it cuts everything off; [`Hub::shutdown`] is the
/// orderly way.
#[derive(Debug)]
pub struct Hub {
    slots: IndexMap<Arc<str>, Arc<Slot>>,
    shared: Arc<Shared>,
    handlers: Arc<Handlers>,
    stop: CancellationToken,
}

/// Configures a [`Hub`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct HubBuilder {
    events: broadcast::Sender<HubEvent>,
    servers: Vec<(String, Settings)>,
    handlers: Handlers,
    limiter: ReconnectLimiter,
    dialer: Option<Dialer>,
    tls: Option<Arc<ClientConfig>>,
    seed: Option<u64>,
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

/// How far a slow reader of events or notifications may fall behind before it misses some, and is told so.
const BACKLOG: usize = 1024;

// === impl Hub ===

impl Hub {
    /// Starts configuring.
    pub fn builder() -> HubBuilder {
        HubBuilder {
            events: broadcast::Sender::new(BACKLOG),
            servers: Vec::new(),
            handlers: Handlers::new(),
            limiter: ReconnectLimiter::default(),
            dialer: None,
            tls: None,
            seed: None,
        }
    }

    /// A handle to one server: valid through every reconnect, disable and enable.
    pub fn server(&self, name: &str) -> Result<ServerHandle, UnknownServer> {
        let slot = self.slots.get(name).ok_or_else(|| UnknownServer(name.to_owned()))?;
        Ok(ServerHandle::new(slot.clone()))
    }

    /// Handles to all servers, in the order they were configured.
    pub fn servers(&self) -> impl Iterator<Item = ServerHandle> + '_ {
        self.slots.values().map(|slot| ServerHandle::new(slot.clone()))
    }

    /// What all servers offer, as last listed.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.snapshot()
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
        if !self.handlers.has_roots() {
            return;
        }
        for slot in self.slots.values() {
            let Some(connection) = slot.published.borrow().connection.clone() else { continue };
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
        for slot in self.slots.values().filter(|slot| slot.settings.required) {
            let mut published = slot.published.subscribe();
            let connected = published.wait_for(|now| now.connection.is_some());
            // A time-out shows below, with all the others that are missing.
            let _ = timeout_at(until, connected).await;
        }
        let missing = |slot: &&Arc<Slot>| {
            slot.settings.required && slot.published.borrow().connection.is_none()
        };
        let names: Vec<String> =
            self.slots.values().filter(missing).map(|slot| slot.name.to_string()).collect();
        if names.is_empty() { Ok(()) } else { Err(NotReady { names }) }
    }

    /// Takes no more calls, lets those under way finish until the deadline, then closes everything. Each server's
    /// close is bounded by its own `close_timeout`.
    pub async fn shutdown(self, deadline: Duration) -> ShutdownReport {
        self.shared.closing.cancel();
        self.shared.calls.close();
        // Calls that are left over are counted below.
        let _ = timeout(deadline, self.shared.calls.wait()).await;
        let interrupted_calls = self.shared.calls.len();
        for slot in self.slots.values() {
            slot.commands.disable();
        }
        let patience = self.slots.values().map(|slot| slot.settings.close_timeout).max();
        // A second on top: a killed child still has to be reaped.
        let patience = patience.unwrap_or_default() + Duration::from_secs(2);
        let _ = timeout(patience, self.shared.tasks.ended()).await;
        ShutdownReport { interrupted_calls, unfinished_tasks: self.shared.tasks.running() }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.stop.cancel();
    }
}

// === impl HubBuilder ===

impl HubBuilder {
    /// Adds a server.
    pub fn server(mut self, name: impl Into<String>, settings: Settings) -> Self {
        self.servers.push((name.into(), settings));
        self
    }

    /// What the embedder does for servers.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// Shares a reconnect limit with other hubs.
    pub fn limiter(mut self, limiter: ReconnectLimiter) -> Self {
        self.limiter = limiter;
        self
    }

    /// Opens byte streams in place of TCP.
    pub fn dialer(mut self, dialer: Dialer) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// Replaces the system's certificates and defaults for `https`.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Makes the jitter of every backoff reproducible.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Every transition and catalog change from the very first on.
    pub fn events(&self) -> broadcast::Receiver<HubEvent> {
        self.events.subscribe()
    }

    /// Starts everything and returns at once; servers connect in parallel. Must be called within a tokio runtime.
    pub fn start(self) -> Result<Hub, InvalidSettings> {
        let servers = check_all(self.servers)?;
        let shared = Arc::new(Shared {
            catalog: CatalogStore::new(self.events.clone()),
            events: self.events,
            notifications: broadcast::Sender::new(BACKLOG),
            tasks: Tasks::new(),
            calls: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let handlers = Arc::new(self.handlers);
        let dialing = Dialing {
            client: HttpClient::new(self.dialer, self.tls),
            handlers: handlers.clone(),
            limiter: self.limiter,
        };
        let stop = CancellationToken::new();
        let mut random = self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let mut slots = IndexMap::with_capacity(servers.len());
        for (name, settings) in servers {
            let lifecycle = Lifecycle::new(settings.policy, random.u64(..));
            let (slot, inputs) = new_slot(name, settings, shared.clone());
            if slot.settings.enabled {
                slot.commands.enable();
            }
            let driver =
                Driver::new(slot.clone(), inputs, lifecycle, dialing.clone(), stop.clone());
            shared.tasks.spawn(driver.run());
            slots.insert(slot.name.clone(), slot);
        }
        Ok(Hub { slots, shared, handlers, stop })
    }
}

fn check_all(
    servers: Vec<(String, Settings)>,
) -> Result<Vec<(Arc<str>, Checked)>, InvalidSettings> {
    let mut problems = Vec::new();
    let mut checked = Vec::with_capacity(servers.len());
    let mut names = HashSet::new();
    for (name, settings) in servers {
        if !names.insert(name.clone()) {
            let message = "is used by another server too".into();
            problems.push(Problem { server: name.clone(), field: "name", message });
        }
        match settings.check(&name) {
            Ok(settings) => checked.push((Arc::from(name), settings)),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(InvalidSettings { problems }) }
}

fn new_slot(
    name: Arc<str>,
    settings: Checked,
    shared: Arc<Shared>,
) -> (Arc<Slot>, mpsc::Receiver<Box<crate::driver::Input>>) {
    let (inputs, receiver) = mpsc::channel(INPUTS);
    let status = Status::before_start(name.clone(), settings.enabled);
    let published = Published { status: Arc::new(status), connection: None, candidate: None };
    let slot = Slot {
        name,
        inputs,
        commands: Commands::default(),
        published: watch::Sender::new(published),
        side_state: crate::slot::SideState::default(),
        stderr: crate::transport::StderrTail::default(),
        garbage: Arc::default(),
        permits: Arc::new(Semaphore::new(settings.max_in_flight)),
        held: std::sync::atomic::AtomicUsize::new(0),
        settings: Arc::new(settings),
        shared,
    };
    (Arc::new(slot), receiver)
}

// === impl Status ===

impl Status {
    /// A server that is to be started counts as connecting from the first moment, so that a call made right after
    /// [`HubBuilder::start`] waits instead of failing.
    fn before_start(server: Arc<str>, enabled: bool) -> Self {
        Self {
            server,
            state: if enabled { StateKind::Connecting } else { StateKind::Disabled },
            reason: Reason::Configured,
            since: std::time::SystemTime::now(),
            generation: None,
            degraded: false,
            attempts: 0,
            next_retry_at: None,
            earliest_attempt_at: None,
            last_error: None,
            last_failure: None,
            reconnects: 0,
            discovery_failures: 0,
            rpc_failures: 0,
            transport: None,
            protocol: None,
            pid: None,
            stderr_tail: Vec::new(),
            garbage: 0,
            last_garbage: None,
            stale_events: 0,
            held: 0,
            in_doubt: false,
            returning: false,
        }
    }
}
