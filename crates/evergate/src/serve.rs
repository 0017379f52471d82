//! The gateway as a process: from a configuration to a listener, and from a signal to an orderly end.

mod carriers;
mod handed_over;
mod itself;
mod keeper;
mod open_files;
mod recorders;
mod reloader;
mod signals;
mod sockets;
mod supervisor;
mod token_watch;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{Held, ServerCatalog};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config, Sources};
use crate::exit_code::Failure;
use crate::front::http1::LAST_REQUESTS;
use crate::front::keys::{KeyEntry, Keyring};
use crate::front::origin_guard::OriginGuard;
use crate::front::session_id::{SessionFacts, SessionKeys};
use crate::front::sessions::Sessions;
use crate::front::{Front, Place, Policy, stdio};
use crate::gateway::Gateway;
use crate::gateway::client::Scope;
use crate::output;
use crate::state::{self, Announced, Control, StateDir, uid_hex};
use crate::tasks::Tasks;
pub(crate) use handed_over::HandedOver;
use recorders::Recorders;
use signals::{Hangups, Signals};
pub(crate) use sockets::DEFAULT_LISTEN;
use sockets::Sockets;
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

/// How long connections may take to end once there is nothing left to answer.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// How long the end may take besides: servers close, files are written. Generous, since a supervisor kills when it is over.
const TO_CLOSE: Duration = Duration::from_secs(30);

/// Serves over HTTP until told to end. `sources` is what to read again when it changes.
pub(crate) async fn http(
    mut config: Config,
    sources: Option<Sources>,
    options: Options,
) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    open_files::raise_limit();
    let sources = sources.map(|sources| (reloader::contents(&sources.files), sources));
    let sockets = Sockets::open(
        &config.gateway,
        options.listen,
        options.handed_over,
        options.allow_unauthenticated,
    )
    .await?;
    let state = open_state(options.state_dir, sources.as_ref().map(|(_, sources)| sources))?;
    let keys = session_keys(&config.gateway, state.as_ref())?;
    let saved = state.as_ref().map(StateDir::load_sessions).unwrap_or_default();
    let (address, admin_address) = (sockets.address(), sockets.admin_address());
    itself::leave_out(&mut config, &[address, admin_address.unwrap_or(address)]);
    let files = sources.as_ref().map_or(&[][..], |(_, sources)| &sources.files);
    let control = match &state {
        Some(_) => Some(control(&config.gateway, admin_address.unwrap_or(address), files)?),
        None => None,
    };
    let place = Place {
        address,
        admin_address,
        config_files: files.iter().map(|file| file.display().to_string()).collect(),
        local_key: control.as_ref().map(|control| control.key.clone()),
    };
    let policy = policy(&config.gateway, &place);
    let (gateway, held) = start(config, state.as_ref())?;
    let recorders = Recorders::start(&gateway);
    let front = Arc::new(Front::new(gateway.clone(), Sessions::new(keys, saved), policy, place));

    let (connections, stop) = (Tasks::default(), CancellationToken::new());
    let (carriers, door) = sockets.serve(&front, &connections, &stop)?;
    look_after(&front, state.as_ref(), &connections, &stop);
    if let Some((loaded, sources)) = sources {
        let reloading = reloader::run(sources, loaded, front.clone(), Hangups::new());
        connections.spawn(stop.clone().run_until_cancelled_owned(reloading));
    }
    // To the very end: a gateway that drains can be looked at, too.
    let _announced = announce(state.as_ref(), control);
    let url = format!("http://{}/mcp", reachable(address));
    output::line(&url)?;
    supervisor::tell(News::Ready(&url));
    // Only now: hundreds of dials would have stood before the first client.
    drop(held);

    tokio::select! {
        () = signals.end() => tracing::info!("told to end: draining"),
        () = front.close_asked.cancelled() => {
            signals.told();
            tracing::info!("asked to close: draining");
        }
    }
    let drain = gateway.config().gateway.drain;
    supervisor::tell(News::Stopping(drain + TO_CLOSE));
    let ending = async {
        if door.is_handed_over {
            // Those who come from now on wait for the next process, and nobody need be refused. Operators may look on.
            door.closed.cancel();
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

/// How the command line finds this gateway, and is let in.
fn control(
    settings: &config::Gateway,
    address: SocketAddr,
    files: &[PathBuf],
) -> Result<Control, Failure> {
    let mut control = Control::new(format!("http://{}", reachable(address)), files)?;
    if !address.ip().is_loopback() {
        control.host = settings.allowed_hosts.first().cloned();
    }
    Ok(control)
}

/// Everything that is done from time to time, until `stop`.
fn look_after(
    front: &Arc<Front>,
    state: Option<&StateDir>,
    tasks: &Tasks,
    stop: &CancellationToken,
) {
    let gateway = &front.gateway;
    tasks.spawn(stop.clone().run_until_cancelled_owned(sweep(front.clone())));
    tasks.spawn(stop.clone().run_until_cancelled_owned(token_watch::run(Arc::clone(gateway))));
    let closing = close_idle_servers(Arc::clone(gateway));
    tasks.spawn(stop.clone().run_until_cancelled_owned(closing));
    tasks.spawn(stop.clone().run_until_cancelled_owned(supervisor::stay_alive()));
    if let Some(state) = state {
        let keeping = keeper::keep_catalogs(state.clone(), Arc::clone(gateway));
        tasks.spawn(stop.clone().run_until_cancelled_owned(keeping));
        let keeping = keeper::keep_sessions(state.clone(), front.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(keeping));
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
    let (gateway, held) = start(config, state.as_ref())?;
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
    // Only now, when nothing is left to do before the client is read.
    drop(held);
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

/// Tells the command line where this gateway is, until the result is dropped. One that is not told still serves.
fn announce(state: Option<&StateDir>, control: Option<Control>) -> Option<Announced> {
    let (state, control) = state.zip(control)?;
    let announced = state.announce(control);
    let warn = |error: &std::io::Error| {
        tracing::warn!(%error, "commands such as `evergate status` will need --url");
    };
    announced.inspect_err(warn).ok()
}

/// Makes the servers ready to begin, with what they offered in an earlier run.
fn start(config: Config, state: Option<&StateDir>) -> Result<(Arc<Gateway>, Held), Failure> {
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
