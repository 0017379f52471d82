//! The gateway as a process: from a configuration to a listener, and from a signal to an orderly end.

mod carriers;
mod handed_over;
mod keeper;
mod open_files;
mod recorders;
mod reloader;
mod signals;
mod supervisor;
mod token_watch;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::ServerCatalog;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config, Sources};
use crate::exit_code::Failure;
use crate::front::keys::{KeyEntry, Keyring};
use crate::front::listener::{Door, LAST_REQUESTS};
use crate::front::origin_guard::OriginGuard;
use crate::front::session_id::{SessionFacts, SessionKeys};
use crate::front::sessions::Sessions;
use crate::front::{Face, Front, Place, Policy, listener, stdio};
use crate::gateway::Gateway;
use crate::gateway::client::Scope;
use crate::output;
use crate::state::{self, Announced, Control, StateDir, uid_hex};
use crate::tasks::Tasks;
use carriers::Carriers;
pub(crate) use handed_over::HandedOver;
use recorders::Recorders;
use signals::{Hangups, Signals};
use supervisor::News;

/// What the command line says about serving.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) allow_unauthenticated: bool,
    /// Goes before any address.
    pub(crate) handed_over: HandedOver,
}

/// Unless somebody says otherwise.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// How long connections may take to end once there is nothing left to answer.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// How long the end may take besides: servers close, files are written. Generous, since a supervisor kills when it is over.
const TO_CLOSE: Duration = Duration::from_secs(30);

/// Serves over HTTP until told to end. `sources` is what to read again when it changes.
pub(crate) async fn http(
    config: Config,
    sources: Option<Sources>,
    options: Options,
) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    open_files::raise_limit();
    let sources = sources.map(|sources| (reloader::contents(&sources.files), sources));
    let HandedOver { mcp, admin } = options.handed_over;
    let said = options.listen.or(config.gateway.listen);
    let address = address_of(mcp.as_ref(), said)?.unwrap_or(DEFAULT_LISTEN);
    let admin_address = address_of(admin.as_ref(), config.gateway.admin_listen)?;
    if !options.allow_unauthenticated {
        for address in [Some(address), admin_address].into_iter().flatten() {
            config.gateway.may_listen_on(address).map_err(Failure::usage)?;
        }
    }
    let state = open_state(options.state_dir, sources.as_ref().map(|(_, sources)| sources))?;
    let keys = session_keys(&config.gateway, state.as_ref())?;
    let saved = state.as_ref().map(StateDir::load_sessions).unwrap_or_default();
    let are_handed_over = (mcp.is_some(), admin.is_some());
    let tcp = match mcp {
        Some(socket) => socket,
        None => bind(address).await?,
    };
    let admin = match (admin, admin_address) {
        (None, Some(address)) => Some(bind(address).await?),
        (handed_over, _) => handed_over,
    };
    let address = tcp.local_addr()?;
    let admin_address = admin.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
    let files = sources.as_ref().map_or(&[][..], |(_, sources)| &sources.files);
    let control = match &state {
        Some(_) => Some(control(admin_address.unwrap_or(address), files, &config.gateway)?),
        None => None,
    };
    let place = Place {
        address,
        admin_address,
        config_files: files.iter().map(|file| file.display().to_string()).collect(),
        local_key: control.as_ref().map(|control| control.key.clone()),
    };
    let policy = policy(&config.gateway, &place);
    let gateway = start(config, state.as_ref())?;
    let recorders = Recorders::start(&gateway);
    let front = Arc::new(Front::new(gateway.clone(), Sessions::new(keys, saved), policy, place));

    let (connections, stop) = (Tasks::default(), CancellationToken::new());
    // Whoever comes in no more may still be answered: a door closes first, or with everything else.
    let door = |is_handed_over| Door { closed: stop.child_token(), is_handed_over };
    let public = door(are_handed_over.0);
    let carriers = Carriers::start(&tcp, &front, &connections, &public)?;
    drop(tcp);
    if let Some(admin) = admin {
        let (front, tasks, door) = (front.clone(), connections.clone(), door(are_handed_over.1));
        let admin = TcpListener::from_std(admin)?;
        let serving =
            listener::serve(admin, Face::Admin, front, tasks, listener::Places::default(), door);
        connections.spawn(serving);
    }
    connections.spawn(stop.clone().run_until_cancelled_owned(sweep(front.clone())));
    connections.spawn(stop.clone().run_until_cancelled_owned(token_watch::run(gateway.clone())));
    let closing = close_idle_servers(gateway.clone());
    connections.spawn(stop.clone().run_until_cancelled_owned(closing));
    if let Some(state) = &state {
        let keeping = keeper::keep_catalogs(state.clone(), gateway.clone());
        connections.spawn(stop.clone().run_until_cancelled_owned(keeping));
        let keeping = keeper::keep_sessions(state.clone(), front.clone());
        connections.spawn(stop.clone().run_until_cancelled_owned(keeping));
    }
    if let Some((loaded, sources)) = sources {
        let reloading = reloader::run(sources, loaded, front.clone(), Hangups::new());
        connections.spawn(stop.clone().run_until_cancelled_owned(reloading));
    }
    connections.spawn(stop.clone().run_until_cancelled_owned(supervisor::stay_alive()));
    // To the very end: a gateway that drains can be looked at, too.
    let _announced = announce(state.as_ref(), control);
    let url = format!("http://{}/mcp", reachable(address));
    output::line(&url)?;
    supervisor::tell(News::Ready(&url));

    tokio::select! {
        () = signals.end() => tracing::info!("told to end: draining"),
        () = front.close_asked.cancelled() => tracing::info!("asked to close: draining"),
    }
    let drain = gateway.config().gateway.drain;
    supervisor::tell(News::Stopping(drain + TO_CLOSE));
    let ending = async {
        if public.is_handed_over {
            // Those who come from now on wait for the next process, and nobody need be refused. Operators may look on.
            public.closed.cancel();
            tokio::time::sleep(LAST_REQUESTS).await;
        }
        if let Some(state) = &state {
            // Now: servers that are switched off offer nothing any more.
            keeper::save_catalogs(state, &gateway).await;
        }
        let report = gateway.shutdown(drain).await;
        if report.interrupted_calls > 0 {
            tracing::warn!(
                calls = report.interrupted_calls,
                "calls were cut off: the drain time is over"
            );
        }
        stop.cancel();
        connections.ended(LAST_BYTES).await;
        drop(carriers);
        recorders.end().await;
        if let Some(state) = &state {
            keeper::save_sessions(state, &front).await;
        }
    };
    tokio::select! {
        () = ending => Ok(()),
        () = signals.end() => Err(Failure::internal("ended at once by a second signal")),
    }
}

/// Serves one client on standard input and output until its input ends.
pub(crate) async fn pipes(
    config: Config,
    scope: Scope,
    sources: Option<Sources>,
    state_dir: Option<PathBuf>,
) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let sources = sources.map(|sources| (reloader::contents(&sources.files), sources));
    let state = open_state(state_dir, sources.as_ref().map(|(_, sources)| sources))?;
    let gateway = start(config, state.as_ref())?;
    let recorders = Recorders::start(&gateway);
    let (beside, stop) = (Tasks::default(), CancellationToken::new());
    beside.spawn(stop.clone().run_until_cancelled_owned(token_watch::run(gateway.clone())));
    beside.spawn(stop.clone().run_until_cancelled_owned(close_idle_servers(gateway.clone())));
    if let Some(state) = &state {
        let keeping = keeper::keep_catalogs(state.clone(), gateway.clone());
        beside.spawn(stop.clone().run_until_cancelled_owned(keeping));
    }
    if let Some((loaded, sources)) = sources {
        let reloading = reloader::run_quietly(sources, loaded, gateway.clone(), Hangups::new());
        beside.spawn(stop.clone().run_until_cancelled_owned(reloading));
    }
    let drain = gateway.config().gateway.drain;
    let ending = CancellationToken::new();
    let serving = stdio::serve(
        gateway.clone(),
        scope,
        tokio::io::stdin(),
        tokio::io::stdout(),
        drain,
        ending.clone(),
    );
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        () = signals.end() => {
            ending.cancel();
            tokio::select! {
                served = &mut serving => served,
                () = signals.end() => return Err(Failure::internal("ended at once by a second signal")),
            }
        }
    };
    stop.cancel();
    let closing = async {
        if let Some(state) = &state {
            keeper::save_catalogs(state, &gateway).await;
        }
        gateway.shutdown(Duration::ZERO).await;
        beside.ended(LAST_BYTES).await;
        recorders.end().await;
    };
    tokio::select! {
        () = closing => Ok(served?),
        () = signals.end() => Err(Failure::internal("ended at once by a signal")),
    }
}

/// Of a socket that was handed over, else what was said.
fn address_of(
    handed_over: Option<&std::net::TcpListener>,
    said: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, Failure> {
    Ok(handed_over.map(std::net::TcpListener::local_addr).transpose()?.or(said))
}

async fn bind(address: SocketAddr) -> Result<std::net::TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound
        .and_then(TcpListener::into_std)
        .map_err(|error| Failure::unavailable(format!("cannot listen on {address}: {error}")))
}

/// The directory that was given, else the usual one for these files, else none.
fn open_state(
    given: Option<PathBuf>,
    sources: Option<&Sources>,
) -> Result<Option<StateDir>, Failure> {
    if let Some(path) = given {
        return StateDir::open(path).map(Some).map_err(Failure::config);
    }
    // Without a file there is nothing that a later run would have in common with this one.
    let files = sources.map_or(&[][..], |sources| &sources.files);
    let Some(path) = state::default_dir(files) else { return Ok(None) };
    match StateDir::open(path) {
        Ok(state) => Ok(Some(state)),
        Err(error) => {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::warn!(error, "nothing will be remembered across a restart: give --state-dir");
            Ok(None)
        }
    }
}

/// Keys from the configuration, else from the state directory, else new ones that end with the process.
fn session_keys(
    settings: &config::Gateway,
    state: Option<&StateDir>,
) -> Result<SessionKeys, Failure> {
    if !settings.session_keys.is_empty() {
        let texts: Vec<&str> = settings.session_keys.iter().map(config::Secret::expose).collect();
        return SessionKeys::new(&texts).map_err(Failure::config);
    }
    let texts = match state {
        Some(state) => state.session_key_texts().map_err(Failure::config)?,
        None => vec![uid_hex(&SessionFacts::new_uid()) + &uid_hex(&SessionFacts::new_uid())],
    };
    SessionKeys::new(&texts).map_err(Failure::config)
}

fn policy(settings: &config::Gateway, place: &Place) -> Policy {
    let texts = |patterns: &Option<Vec<config::Pattern>>| {
        let patterns = patterns.as_ref()?;
        Some(patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect())
    };
    let keys = settings.auth.iter().map(|key| KeyEntry {
        name: key.name.clone(),
        secret: key.key.expose().to_owned(),
        servers: texts(&key.servers),
        tools: texts(&key.tools),
        scopes: key.scopes,
        rate_limit: key.rate_limit,
    });
    let guard = |address| {
        OriginGuard::new(
            address,
            !settings.auth.is_empty(),
            &settings.allowed_hosts,
            &settings.allowed_origins,
        )
    };
    let mut keyring = Keyring::new(keys);
    if let Some(local) = &place.local_key {
        keyring = keyring.with_local(local.expose());
    }
    Policy { keyring, guard: guard(place.address), admin_guard: place.admin_address.map(guard) }
}

/// What the command line is to know of this process.
fn control(
    address: SocketAddr,
    files: &[PathBuf],
    settings: &config::Gateway,
) -> Result<Control, Failure> {
    let mut control = Control::new(format!("http://{}", reachable(address)), files)?;
    if !address.ip().is_loopback() {
        control.host = settings.allowed_hosts.first().cloned();
    }
    Ok(control)
}

/// Tells the command line where this gateway is, until the result is dropped. One that is not told still serves.
fn announce(state: Option<&StateDir>, control: Option<Control>) -> Option<Announced> {
    let (state, control) = state.zip(control)?;
    let announced = state.announce(control);
    let warn = |error: &std::io::Error| {
        tracing::warn!(%error, "commands such as `evergate status` will need --url");
    };
    announced.inspect_err(warn).ok()
}

/// Starts the servers, with what they offered in an earlier run.
fn start(config: Config, state: Option<&StateDir>) -> Result<Arc<Gateway>, Failure> {
    for finding in &config.findings {
        tracing::warn!("{finding}");
    }
    for (server, why) in
        config.servers.iter().filter_map(|(name, s)| Some((name, s.unusable.as_ref()?)))
    {
        tracing::warn!(server, why, "a server is left out");
    }
    let mut restored = BTreeMap::new();
    for (name, (connection, saved)) in state.map(StateDir::load_catalogs).unwrap_or_default() {
        let known = config.servers.get(&name).filter(|server| {
            // Another command or address is another server.
            server.connection_digest == connection
        });
        if known.is_none() {
            continue;
        }
        match ServerCatalog::from_saved(&saved) {
            Ok(catalog) => drop(restored.insert(name, catalog)),
            Err(error) => tracing::warn!(server = name, %error, "a saved catalog cannot be used"),
        }
    }
    Gateway::start(config, restored).map_err(Failure::config)
}

/// Looks after sessions that nobody uses any more.
async fn sweep(front: Arc<Front>) {
    loop {
        tokio::time::sleep(part_of(front.gateway.config().gateway.session_idle)).await;
        front.sessions.sweep(&front.gateway);
    }
}

/// Looks after servers that clients have for themselves and no longer use.
async fn close_idle_servers(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(part_of(gateway.config().gateway.per_client_idle)).await;
        gateway.close_idle_servers();
    }
}

/// How often to look for what was idle for so long.
fn part_of(idle: Duration) -> Duration {
    (idle / 4).clamp(Duration::from_millis(100), Duration::from_secs(15))
}

/// An address that can be put into a client: nobody can connect to "all addresses".
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
