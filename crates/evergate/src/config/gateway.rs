//! The `gateway` section: how clients reach Evergate, and what they may do.
//!
//! A variable that is not set is an error here: a gateway without its key must not start.

mod auth;
mod listen;
mod recording;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use auth::{Key, Scopes};
pub(crate) use listen::parse as parse_listen;
pub(crate) use recording::{Audit, Otlp};

use super::duration::LONGEST as LONGEST_DURATION;
use super::reader::Reader;
use super::secret::Secret;

/// How clients reach Evergate.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    /// Where to listen, if the file says so.
    pub(crate) listen: Option<SocketAddr>,
    /// Where the admin API, the dashboard and the metrics are, if not there too.
    pub(crate) admin_listen: Option<SocketAddr>,
    /// Between the name of a server and the name of its tool.
    pub(crate) separator: String,
    pub(crate) naming: Naming,
    /// Who may come in. Anybody, if empty and the address allows it.
    pub(crate) auth: Vec<Key>,
    /// Listen on an address that others can reach although there are no keys.
    pub(crate) allow_unauthenticated: bool,
    /// Values of the `Host` header that are taken besides those of the address.
    pub(crate) allowed_hosts: Vec<String>,
    /// Values of the `Origin` header that are taken besides those of this machine.
    pub(crate) allowed_origins: Vec<String>,
    /// What session ids are sealed with: the first seals, all open.
    pub(crate) session_keys: Vec<Secret>,
    /// A session nobody used for so long is forgotten.
    pub(crate) session_idle: Duration,
    pub(crate) max_sessions: usize,
    /// The largest request of a client.
    pub(crate) max_body_bytes: usize,
    /// The largest result of a server.
    pub(crate) max_result_bytes: usize,
    /// What may be held for clients in all: requests, results, streams.
    pub(crate) max_buffered_bytes: usize,
    /// Where results above the threshold are written instead of being sent.
    pub(crate) payload_dir: Option<PathBuf>,
    pub(crate) payload_threshold: usize,
    /// Make a session for a client that did not ask for one.
    pub(crate) lenient: bool,
    /// How long calls in flight may go on at the end.
    pub(crate) drain: Duration,
    /// How long the first list of tools waits for servers that are still connecting.
    pub(crate) startup_wait: Duration,
    /// Until then an answer may come as plain JSON.
    pub(crate) stream_after: Duration,
    /// How often a waiting client is told that its call is alive.
    pub(crate) keep_alive: Duration,
    /// A client's own connection to a server is closed after so long without use.
    pub(crate) per_client_idle: Duration,
    /// So many calls are remembered for operators to look at.
    pub(crate) recent_calls: usize,
    /// With their arguments.
    pub(crate) record_arguments: bool,
    /// Where traces go.
    pub(crate) otlp: Otlp,
    /// Where every call is written down.
    pub(crate) audit: Option<Audit>,
}

/// How tools are named for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Naming {
    /// The server's name, the separator, the tool's name.
    #[default]
    Prefix,
    /// The tool's name alone.
    Bare,
}

/// Longer separators would leave too little of the 64 characters that clients allow a name.
const LONGEST_SEPARATOR: usize = 8;

/// Results up to this size can be written to `payload_dir`.
const LARGEST_PAYLOAD: usize = 256 << 20;

/// What fits into memory many times over.
const MOST_RECENT_CALLS: usize = 100_000;

// === impl Gateway ===

impl Default for Gateway {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        Self {
            listen: None,
            admin_listen: None,
            separator: "__".to_owned(),
            naming: Naming::Prefix,
            auth: Vec::new(),
            allow_unauthenticated: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            session_keys: Vec::new(),
            session_idle: minutes(6 * 60),
            max_sessions: 10_000,
            max_body_bytes: 4 << 20,
            max_result_bytes: 16 << 20,
            max_buffered_bytes: 256 << 20,
            payload_dir: None,
            payload_threshold: 512 << 10,
            lenient: false,
            drain: Duration::from_secs(30),
            startup_wait: Duration::from_secs(5),
            stream_after: Duration::from_millis(250),
            // Proxies and clients commonly give up on a silent stream after 30 s or 60 s.
            keep_alive: Duration::from_secs(15),
            per_client_idle: minutes(30),
            recent_calls: 1000,
            record_arguments: false,
            otlp: Otlp::default(),
            audit: None,
        }
    }
}

impl Gateway {
    /// Whether it may listen there: an address that others can reach needs keys.
    pub(crate) fn may_listen_on(&self, address: SocketAddr) -> Result<(), String> {
        if address.ip().is_loopback() || !self.auth.is_empty() || self.allow_unauthenticated {
            return Ok(());
        }
        Err(format!(
            "{address} can be reached from other machines, and gateway.auth.keys is empty: add a key, listen on \
             127.0.0.1, set gateway.auth.allow_unauthenticated to true, or give --allow-unauthenticated"
        ))
    }

    /// The largest message of a server that says nothing else. What is to be written to a folder must arrive first.
    pub(super) fn max_message_bytes(&self) -> usize {
        match self.payload_dir {
            Some(_) => self.max_result_bytes.max(LARGEST_PAYLOAD),
            None => self.max_result_bytes,
        }
    }
}

/// Reads the section. What is wrong keeps its default, and is reported.
pub(super) fn read(section: &mut Reader<'_>) -> Gateway {
    let mut gateway = Gateway::default();
    section.refuse_unset_variables();
    gateway.listen = address(section, "listen");
    gateway.admin_listen = address(section, "admin_listen");
    if gateway.admin_listen.is_some_and(|admin| admin.port() != 0 && Some(admin) == gateway.listen)
    {
        section.error(
            "admin_listen",
            "is the same address as listen: leave it out to have all at one",
        );
    }
    if let Some(separator) = section.string("separator") {
        if is_separator(&separator) {
            gateway.separator = separator;
        } else {
            section.error("separator", "must be 1 to 8 characters of A-Z a-z 0-9 _ . -");
        }
    }
    let namings = [("prefix", Naming::Prefix), ("bare", Naming::Bare)];
    set(&mut gateway.naming, section.choice("naming", &namings));
    auth::read(section, &mut gateway);
    gateway.allowed_hosts = listen::hosts(section);
    gateway.allowed_origins = listen::origins(section);
    gateway.session_keys = auth::session_keys(section);
    set(&mut gateway.max_sessions, section.count("max_sessions"));
    set(&mut gateway.max_body_bytes, section.size("max_body_bytes"));
    set(&mut gateway.max_result_bytes, section.size("max_result_bytes"));
    set(&mut gateway.max_buffered_bytes, section.size("max_buffered_bytes"));
    for (key, limit) in [
        ("max_sessions", gateway.max_sessions),
        ("max_body_bytes", gateway.max_body_bytes),
        ("max_result_bytes", gateway.max_result_bytes),
        ("max_buffered_bytes", gateway.max_buffered_bytes),
    ] {
        if limit == 0 {
            section.error(key, "must be at least 1");
        }
    }
    gateway.payload_dir = section.path("payload_dir");
    set(&mut gateway.payload_threshold, section.size("payload_threshold"));
    if section.has("payload_threshold") && gateway.payload_dir.is_none() {
        section.warning("payload_threshold", "has no effect without payload_dir");
    }
    set(&mut gateway.lenient, section.flag("lenient"));
    set(&mut gateway.recent_calls, section.count("recent_calls"));
    if gateway.recent_calls > MOST_RECENT_CALLS {
        section.error("recent_calls", "must not be more than 100000");
    }
    set(&mut gateway.record_arguments, section.flag("record_arguments"));
    gateway.otlp = recording::otlp(section);
    gateway.audit = recording::audit(section);
    for (key, field) in [
        ("session_idle", &mut gateway.session_idle),
        ("keep_alive", &mut gateway.keep_alive),
        ("per_client_idle", &mut gateway.per_client_idle),
    ] {
        set(field, section.positive(key));
    }
    // Not waiting at all is a choice here.
    for (key, field) in [
        ("drain", &mut gateway.drain),
        ("startup_wait", &mut gateway.startup_wait),
        ("stream_after", &mut gateway.stream_after),
    ] {
        let duration = section.duration(key);
        if duration.is_some_and(|duration| duration > LONGEST_DURATION) {
            section.error(key, "must not be more than a year");
        }
        set(field, duration);
    }
    // Only a warning: the command line may name another address, or allow this one. Serving is refused there.
    // Keys that are given but cannot be used were reported already.
    let auth = section.object().and_then(|section| section.get("auth"));
    let has_keys = auth.is_some_and(|auth| auth.get("keys").is_some());
    for (key, address) in [("listen", gateway.listen), ("admin_listen", gateway.admin_listen)] {
        if let Some(address) = address
            && !has_keys
            && let Err(message) = gateway.may_listen_on(address)
        {
            section.warning(key, &message);
        }
    }
    gateway
}

fn address(section: &mut Reader<'_>, key: &'static str) -> Option<SocketAddr> {
    let text = section.string(key)?;
    listen::parse(&text).map_err(|message| section.error(key, &message)).ok()
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn is_separator(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=LONGEST_SEPARATOR).contains(&text.len()) && text.chars().all(fine)
}
