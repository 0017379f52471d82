//! The gateway itself: servers on one side, clients on the other, names in between. It knows no HTTP.
//!
//! # A request's way
//!
//! 1. `front` (HTTP), `front/stdio`: a client's message arrives, its [`client::Client`] is found.
//! 2. [`dispatch`]: what the method asks for, and who owns the name in it ([`view`], [`merged`], [`names`]).
//! 3. [`forward`]: the call to the owner, on its shared connection or one of the client's own ([`isolation`]).
//! 4. `evergate-runtime`: waits, sends, recovers.
//! 5. Back through [`forward`]: the result as it is, or an error from [`error_body`].
//!
//! Beside that way: [`news`] tells clients what changed and what servers say unasked; [`reload`] changes the servers;
//! [`remembered`] tells servers again what clients asked of them for good.

pub(crate) mod buffers;
pub(crate) mod client;
mod clients;
mod dispatch;
pub(crate) mod error_body;
pub(crate) mod event_log;
mod forward;
pub(crate) mod handshake;
mod isolation;
pub(crate) mod log_level;
mod merged;
mod names;
mod news;
pub(crate) mod outlet;
pub(crate) mod params;
mod patience;
mod payload;
mod reload;
mod remembered;
mod resources;
pub(crate) mod server_settings;
mod startup;
pub(crate) mod stateless;
mod subscriptions;
mod uri_template;
mod view;
pub(crate) mod withdrawal;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, Guard};
use evergate_runtime::{
    Attribution, Catalog, Ending, Handlers, Held, Hub, HubEvent, InvalidSettings, PerThread,
    RawJson, ReconnectLimiter, RpcError, ServerCatalog, ServerHandle, ServerRequest,
    ShutdownReport, StateKind,
};
use futures_util::future::join_all;
use http::HeaderMap;
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::config::{Config, Isolation, Server};
use crate::front::request::Headers;
use crate::observed::{self, Observed};
use crate::tasks::Tasks;
use crate::telemetry;
use buffers::Buffers;
use client::{Client, Kind, Scope, Uid, everything};
use clients::Clients;
use isolation::PastFailures;
use stateless::{Parked, Principals};
use subscriptions::Subscriptions;
use view::Views;

pub(crate) use dispatch::{Answer, ClientRequest, Pieces, RequestContext, goes_to_server};
pub(crate) use isolation::is_troubled;

/// How long after its call a server may still ask because of it.
const MAY_STILL_ASK: Duration = Duration::from_secs(60);

/// How long calls that were cut off may take to say so.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// One per process.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) tasks: Tasks,
    pub(crate) clients: Clients,
    /// The memory that is held for clients.
    pub(crate) buffers: PerThread<Buffers>,
    /// No new requests.
    pub(crate) draining: Ending,
    /// Where servers live, whichever thread asks for them.
    background: Handle,
    hub: Hub,
    config: ArcSwap<Config>,
    /// Whether any server is to see headers of clients: else nobody keeps them.
    passes_headers: AtomicBool,
    /// Counts configurations, so that what was derived from one can be told from what was derived from the next.
    revision: AtomicU64,
    reloaded: Notify,
    /// The newest configuration, if it was not taken: when, and why.
    rejected: Mutex<Option<(SystemTime, String)>>,
    views: Views,
    subscriptions: Subscriptions,
    /// Room for subscriptions that are made in time, at each server: one that is slow keeps nobody else waiting.
    subscribing: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Calls that wait for their callers.
    parked: Parked,
    principals: Principals,
    limiter: ReconnectLimiter,
    /// Of connections that clients had for themselves.
    pub(crate) past_failures: PastFailures,
    /// What operators are told.
    pub(crate) observed: PerThread<Observed>,
    first_events: Mutex<Option<Receiver<HubEvent>>>,
    started: Instant,
    started_at: SystemTime,
    /// Since when each shared server is there.
    added: Mutex<HashMap<String, Instant>>,
    /// What clients of an earlier run have seen last.
    baseline: Arc<Catalog>,
}

// === impl Gateway ===

impl Gateway {
    /// Returns at once; shared servers begin when the second part is dropped. `restored` is what they offered in an
    /// earlier run.
    pub(crate) fn start(
        config: Config,
        restored: BTreeMap<String, ServerCatalog>,
    ) -> Result<(Arc<Self>, Held), InvalidSettings> {
        let limiter = ReconnectLimiter::default();
        let myself: Arc<OnceLock<Weak<Self>>> = Arc::default();
        let observed = Arc::new(Observed::new());
        let mut builder = Hub::builder()
            .limiter(limiter.clone())
            // Calls come from threads that live longer.
            .answers_follow_calls()
            .handlers(shared_handlers(myself.clone()))
            .witness(observed.witness());
        let mut added = HashMap::new();
        for (name, server) in shared(&config) {
            builder = builder.server(name, server_settings::of(server));
            added.insert(name.to_owned(), Instant::now());
        }
        for (name, catalog) in restored {
            builder = builder.restore(&name, catalog);
        }
        // Before anything can happen.
        let (events, first_events) = (builder.events(), builder.events());
        let (hub, held) = builder.start_held()?;
        let baseline = hub.catalog();
        let gateway = Arc::new(Self {
            tasks: Tasks::default(),
            clients: Clients::default(),
            buffers: Buffers::new(config.gateway.max_buffered_bytes),
            draining: Ending::default(),
            background: Handle::current(),
            hub,
            passes_headers: AtomicBool::new(passes_headers(&config)),
            config: ArcSwap::from_pointee(config),
            revision: AtomicU64::new(1),
            reloaded: Notify::new(),
            rejected: Mutex::default(),
            views: Views::default(),
            subscriptions: Subscriptions::default(),
            subscribing: Mutex::default(),
            parked: Parked::default(),
            principals: Principals::default(),
            limiter,
            past_failures: PastFailures::default(),
            observed: PerThread::new(observed),
            first_events: Mutex::new(Some(first_events)),
            started: Instant::now(),
            started_at: SystemTime::now(),
            added: Mutex::new(added),
            baseline,
        });
        // Set once, here.
        let _ = myself.set(Arc::downgrade(&gateway));
        gateway.tasks.spawn(news::spread(gateway.clone()));
        gateway.tasks.spawn(observed::record(gateway.clone(), events));
        Ok((gateway, held))
    }

    /// What happens to shared servers, from the very first on; for the first who asks.
    pub(crate) fn first_events(&self) -> Option<Receiver<HubEvent>> {
        self.first_events.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    /// The same for a moment, not across an await: nobody counts who looks at it, so calls on several threads do not get into
    /// each other's way.
    pub(crate) fn config_now(&self) -> Guard<Arc<Config>> {
        self.config.load()
    }

    /// Takes the headers of a client's request, if any server is to see some of them; those that say where it stands in
    /// a trace are for all servers.
    pub(crate) fn to_pass_on(&self, headers: &Headers) -> Option<Arc<HeaderMap>> {
        if self.passes_headers() {
            return Some(Arc::new(headers.to_map()));
        }
        telemetry::is_in(headers).then(|| Arc::new(headers.to_map_of(telemetry::carries)))
    }

    pub(crate) fn passes_headers(&self) -> bool {
        self.passes_headers.load(Ordering::Relaxed)
    }

    /// How many bytes are held for clients, and how many may be.
    pub(crate) fn buffered(&self) -> (usize, usize) {
        self.buffers.state()
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// A server this client may use: the shared one, or the client's own.
    pub(crate) fn server_for(
        self: &Arc<Self>,
        client: &Arc<Client>,
        name: &str,
    ) -> Option<ServerHandle> {
        let config = self.config_now();
        let server = config.servers.get(name).filter(|server| server.unusable.is_none())?;
        if !client.may_use(name) {
            return None;
        }
        match server.isolation {
            Isolation::Shared => self.hub.server(name).ok(),
            Isolation::PerClient if server.disabled => None,
            Isolation::PerClient => client.private.server(self, client, name, server),
        }
    }

    /// A new client, or one from before a restart: everything that concerns clients concerns it from now on.
    pub(crate) fn attach(self: &Arc<Self>, client: &Arc<Client>, restored: bool) {
        let known = if restored {
            self.baseline_view(client).digests()
        } else {
            self.view(client).digests()
        };
        client.announce(known);
        self.clients.add(client);
        // What changed before it was added, nobody has told it.
        news::tell_changes(client, &self.view(client));
        if client.ended.has_begun() {
            // Its end came first.
            self.detach(client);
        }
    }

    /// The client is gone: nothing it had is kept.
    pub(crate) fn detach(self: &Arc<Self>, client: &Arc<Client>) {
        client.end();
        self.clients.remove(client);
        self.parked.forget(&client.uid);
        for (server, uri) in self.subscriptions.forget(&client.uid) {
            let Ok(handle) = self.hub.server(&server) else { continue };
            let gateway = self.clone();
            self.tasks.spawn(async move {
                if let Err(error) = handle.unsubscribe(&uri).await {
                    tracing::debug!(%server, error = error.chain(), "could not unsubscribe");
                }
                // Somebody may have come meanwhile, and been heard before this.
                if gateway.subscriptions.is_wanted(&server, &uri) {
                    gateway.subscribe_in_time(handle, uri);
                }
            });
        }
        if !matches!(client.kind, Kind::Listener(_)) {
            client.private.close_all(self);
        }
    }

    /// Takes no more requests, lets those under way finish, and ends every server.
    pub(crate) async fn shutdown(self: &Arc<Self>, drain: Duration) -> ShutdownReport {
        self.draining.begin();
        // Nobody could come back to them.
        self.parked.clear();
        let until = Instant::now() + drain;
        self.calls_end(until).await;
        let left = until.saturating_duration_since(Instant::now());
        let clients = self.clients.with_servers();
        let own = clients.iter().map(|client| client.private.shutdown(left));
        let (report, _) = tokio::join!(self.hub.shutdown(left), join_all(own));
        // Those that were cut off know what became of them, and are to say it.
        self.calls_end(Instant::now() + LAST_ANSWERS).await;
        for client in self.clients.all() {
            client.end();
        }
        self.tasks.ended(Duration::from_secs(10)).await;
        report
    }

    async fn calls_end(&self, until: Instant) {
        while self.clients.calls_under_way() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Closes what clients have for themselves and do not use, and gives up calls whose callers do not come back.
    pub(crate) fn close_idle_servers(self: &Arc<Self>) {
        self.parked.sweep();
        self.forget_idle_principals();
        let idle = self.config().gateway.per_client_idle;
        for client in self.clients.with_servers() {
            client.private.close_idle(self, &client, idle);
        }
    }

    /// What each client wants to hear of: servers and URIs.
    pub(crate) fn subscriptions_by_client(&self) -> HashMap<Uid, Vec<(String, String)>> {
        self.subscriptions.by_client()
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Required servers that are not connected.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        let config = self.config();
        let required = config.servers.iter().filter(|(_, server)| {
            server.required && !server.disabled && server.isolation == Isolation::Shared
        });
        let down = required.filter(|(name, _)| {
            let handle = self.hub.server(name);
            !handle.is_ok_and(|handle| handle.status().state == StateKind::Connected)
        });
        down.map(|(name, _)| name.clone()).collect()
    }

    /// What is hidden from a client that may use everything, because another server had the name first.
    pub(crate) fn name_warnings(&self) -> Vec<String> {
        let anybody = Client::observer();
        self.view(&anybody).warnings().collect()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// A question of a shared server that cannot be tied to a call. If only one client could be meant, it is meant.
    async fn unattributed(&self, request: ServerRequest) -> Result<RawJson, RpcError> {
        let mut candidates = self.clients.all();
        candidates.retain(|client| client.may_be_meant() && client.may_use(&request.server));
        // Roots are told by whoever has some. With anything else, who could answer says nothing about who is meant.
        if request.method == "roots/list" {
            candidates.retain(|client| {
                matches!(client.kind, Kind::Session) && client.answers(&request.method)
            });
        }
        match (&candidates[..], request.attribution) {
            (_, Attribution::Ambiguous) => Err(ambiguous("several clients have calls in flight")),
            ([client], _) => client.ask(&request, None, None).await,
            ([], _) => {
                let message = format!("no client that offers {} is connected", request.method);
                Err(RpcError::with(error_body::METHOD_NOT_FOUND, message))
            }
            _ => Err(ambiguous("several clients share this connection")),
        }
    }
}

fn ambiguous(why: &str) -> RpcError {
    let message = format!(
        "{why}, and nothing says which of them is asked: with isolation = \"per_client\" each has a connection of its own"
    );
    RpcError::with(error_body::INVALID_REQUEST, message)
}

/// The servers all clients share, disabled ones included: they may be enabled later.
fn shared(config: &Config) -> impl Iterator<Item = (&str, &Server)> {
    let usable = config
        .servers
        .iter()
        .filter(|(_, server)| server.unusable.is_none() && server.isolation == Isolation::Shared);
    usable.map(|(name, server)| (name.as_str(), server))
}

fn passes_headers(config: &Config) -> bool {
    config.servers.values().any(|server| !server.headers_from_client.is_empty())
}

/// The servers a client has for itself.
fn own_servers<'a>(
    config: &'a Config,
    client: &'a Client,
) -> impl Iterator<Item = (&'a str, &'a Server)> {
    let own = config.servers.iter().filter(|(name, server)| {
        server.isolation == Isolation::PerClient
            && !server.disabled
            && server.unusable.is_none()
            && client.may_use(name)
    });
    own.map(|(name, server)| (name.as_str(), server))
}

/// Declares whatever some client may be able to do; whether the client in question can is found out when it is asked.
fn shared_handlers(gateway: Arc<OnceLock<Weak<Gateway>>>) -> Handlers {
    Handlers::new().declare(everything()).on_any(move |request| {
        let gateway = gateway.get().and_then(Weak::upgrade);
        async move {
            match gateway {
                Some(gateway) => gateway.unattributed(request).await,
                None => Err(RpcError::with(error_body::INTERNAL, "the gateway is not ready")),
            }
        }
    })
}

// === impl Client ===

impl Client {
    /// Whether what no call is behind may be about this client. Of one without a session only calls are known, and a
    /// server may still be at one that was given up a moment ago.
    fn may_be_meant(&self) -> bool {
        match self.kind {
            Kind::Session => true,
            Kind::Principal { .. } => {
                self.idle_since().is_none_or(|since| since.elapsed() < MAY_STILL_ASK)
            }
            Kind::Listener(_) => false,
        }
    }

    /// Whether a server is in the client's scope and its key allows it.
    fn may_use(&self, server: &str) -> bool {
        self.sees(server) && self.may_use_server(server)
    }

    /// Whether a server is in the client's scope.
    fn sees(&self, server: &str) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::One(only) => **only == *server,
        }
    }
}
