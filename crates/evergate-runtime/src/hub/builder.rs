//! What an embedder says about a hub before it starts.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use rustls::ClientConfig;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::held::Held;
use super::table::Table;
use super::{Hub, TAKEN};
use crate::catalog::{CatalogStore, ServerCatalog};
use crate::driver::Dialing;
use crate::ending::Ending;
use crate::handlers::Handlers;
use crate::observe::{Happening, HubEvent, Witness};
use crate::retry::ReconnectLimiter;
use crate::settings::{Checked, InvalidSettings, Problem, Settings};
use crate::slot::Shared;
use crate::tally::Tally;
use crate::tasks::Tasks;
use crate::transport::{Dialer, HttpClient};

/// Configures a [`Hub`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct HubBuilder {
    events: broadcast::Sender<HubEvent>,
    servers: Vec<(String, Settings)>,
    restored: HashMap<String, ServerCatalog>,
    handlers: Handlers,
    limiter: ReconnectLimiter,
    witness: Witness,
    dialer: Option<Dialer>,
    tls: Option<Arc<ClientConfig>>,
    answers_follow_calls: bool,
    seed: Option<u64>,
}

/// How far a slow reader of events or notifications may fall behind before it misses some, and is told so.
const BACKLOG: usize = 1024;

// === impl HubBuilder ===

impl HubBuilder {
    pub(super) fn new() -> Self {
        Self {
            events: broadcast::Sender::new(BACKLOG),
            servers: Vec::new(),
            restored: HashMap::new(),
            handlers: Handlers::new(),
            limiter: ReconnectLimiter::default(),
            witness: Witness::default(),
            dialer: None,
            tls: None,
            answers_follow_calls: false,
            seed: None,
        }
    }

    /// Adds a server.
    pub fn server(mut self, name: impl Into<String>, settings: Settings) -> Self {
        self.servers.push((name.into(), settings));
        self
    }

    /// What an earlier process saw a server offer: in the catalog from the first moment, until this process has listed
    /// the server itself. Listing the same changes nothing. Ignored for a server that is not configured, or disabled.
    pub fn restore(mut self, server: &str, catalog: ServerCatalog) -> Self {
        self.restored.insert(server.to_owned(), catalog);
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

    /// Gives every server, when it is added, somebody who is told of everything that happens to it, at the moment it does:
    /// more than events say, and without exception. Called by the server's own task, so it must be quick. One that was
    /// replaced or removed goes on telling its own until it is gone, so that it is not taken for the next of that name.
    pub fn witness<T>(mut self, of: impl Fn(&str) -> T + Send + Sync + 'static) -> Self
    where
        T: Fn(Happening) + Send + Sync + 'static,
    {
        self.witness = Witness::new(of);
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

    /// Has what a child process answers read on the runtime from which all of its calls come, if they come from one only and
    /// that is not this one: a wake-up less for each. For those who drive such runtimes as long as the hub lives: where
    /// nobody does, answers stay unread.
    pub fn answers_follow_calls(mut self) -> Self {
        self.answers_follow_calls = true;
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
        let (hub, held) = self.start_held()?;
        drop(held);
        Ok(hub)
    }

    /// The same, but these servers begin only when what comes with the hub is dropped: for whoever has a door to open
    /// that hundreds of dials would stand before. Until then they count as connecting, and calls wait for them.
    pub fn start_held(mut self) -> Result<(Hub, Held), InvalidSettings> {
        let servers = check_all(self.servers)?;
        let random = self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let hub = Hub {
            table: Table::default(),
            shared: Arc::new(Shared {
                catalog: CatalogStore::new(self.events.clone()),
                events: self.events,
                witness: self.witness,
                notifications: broadcast::Sender::new(BACKLOG),
                tasks: Tasks::new(),
                calls: Tally::default(),
                closing: Ending::default(),
                slots: std::sync::atomic::AtomicU64::new(0),
            }),
            dialing: Dialing {
                client: HttpClient::new(self.dialer, self.tls),
                handlers: Arc::new(self.handlers),
                limiter: self.limiter,
                answers_follow_calls: self.answers_follow_calls,
            },
            random: Mutex::new(random),
            stop: CancellationToken::new(),
        };
        let mut held = Held::new(hub.shared.tasks.clone(), servers.len());
        for (name, settings) in servers {
            let restored = self.restored.remove(&name);
            hub.table.replace(|| held.hold(hub.open(&name, settings, restored)));
        }
        Ok((hub, held))
    }
}

fn check_all(servers: Vec<(String, Settings)>) -> Result<Vec<(String, Checked)>, InvalidSettings> {
    let mut problems = Vec::new();
    let mut checked = Vec::with_capacity(servers.len());
    let mut names = HashSet::with_capacity(servers.len());
    for (name, settings) in servers {
        if !names.insert(name.clone()) {
            let message = TAKEN.into();
            problems.push(Problem { server: name.clone(), field: "name", message });
        }
        match settings.check(&name) {
            Ok(settings) => checked.push((name, settings)),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(InvalidSettings { problems }) }
}
