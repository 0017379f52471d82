//! What an embedder says about one server, and the checked form the runtime works with.
//!
//! [`Settings`] takes anything; `check` turns it into [`Checked`], in which no invalid value can exist, or lists
//! every problem at once.

mod check;
mod header_source;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use check::{Checked, Endpoint, LONGEST, is_reserved};
pub use check::{InvalidSettings, Problem};
pub(crate) use header_source::HeaderSource;

use url::{ParseError, Url};

use crate::connection::Protocol;
use crate::lifecycle::{OnExhausted, Restart};
use crate::retry::Replay;
use crate::transport::MemoryConnector;

/// How to reach one server and how to treat it. Every setting has a default that suits a long-lived agent.
///
/// ```
/// use std::time::Duration;
/// use evergate_runtime::Settings;
///
/// let files = Settings::stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."])
///     .env("LOG_LEVEL", "warn");
/// let docs = Settings::http("https://docs.example/mcp")
///     .header("authorization", "Bearer …")
///     .timeout(Duration::from_secs(30));
/// ```
#[derive(Clone)]
pub struct Settings {
    pub(crate) target: Target,
    pub(crate) enabled: bool,
    pub(crate) required: bool,
    pub(crate) timeout: Duration,
    pub(crate) max_timeout: Duration,
    pub(crate) hold: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) list_timeout: Duration,
    pub(crate) header_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) refresh_every: Option<Duration>,
    pub(crate) ping_every: Option<Duration>,
    pub(crate) backoff: (Duration, Duration, f64, f64),
    pub(crate) cooldown: (Duration, Duration),
    pub(crate) max_attempts: Option<u32>,
    pub(crate) on_exhausted: OnExhausted,
    pub(crate) restart: Restart,
    pub(crate) stable_after: Duration,
    pub(crate) failure_threshold: u32,
    pub(crate) replay: Replay,
    pub(crate) replay_tools: Vec<(String, Replay)>,
    pub(crate) max_message_bytes: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_held: usize,
    pub(crate) max_subscriptions: usize,
    pub(crate) rate_limit: (u32, Duration),
    pub(crate) protocol: Protocol,
}

/// How much is made of keeping a server up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Started again whenever it ends. The default.
    #[default]
    Resilient,
    /// Required, and left alone once it has ended: a failure must be seen.
    Strict,
    /// Nice to have: not required, and left alone once it has ended.
    BestEffort,
}

/// Where the server is.
#[derive(Clone)]
pub(crate) enum Target {
    Stdio {
        command: OsString,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        cwd: Option<PathBuf>,
    },
    Http {
        /// Read once; settings are checked several times.
        url: Result<Url, ParseError>,
        headers: Vec<(String, String)>,
        source: Option<HeaderSource>,
        kind: HttpKind,
    },
    Memory(MemoryConnector),
}

/// Which way of speaking MCP over HTTP to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpKind {
    /// Find out: streamable HTTP, else HTTP+SSE, else plain JSON-RPC. What worked is remembered until it fails.
    #[default]
    Auto,
    /// Streamable HTTP (2025-03-26 and later).
    Streamable,
    /// HTTP+SSE (2024-11-05).
    Sse,
    /// JSON-RPC over POST, no streams.
    Plain,
}

// === impl Settings ===

impl Settings {
    /// A child process that speaks MCP on its standard input and output.
    pub fn stdio<C, A>(command: C, args: A) -> Self
    where
        C: Into<OsString>,
        A: IntoIterator,
        A::Item: Into<OsString>,
    {
        Self::new(Target::Stdio {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
        })
    }

    /// A server at a URL. How it speaks is found out; see [`Settings::http_kind`].
    pub fn http(url: impl Into<String>) -> Self {
        let (headers, source, kind) = (Vec::new(), None, HttpKind::Auto);
        let url = Url::parse(&url.into());
        Self::new(Target::Http { url, headers, source, kind })
    }

    /// A server in this process, reached over an in-memory byte stream: for tests and embedded servers.
    pub fn memory(connector: MemoryConnector) -> Self {
        Self::new(Target::Memory(connector))
    }

    fn new(target: Target) -> Self {
        let seconds = Duration::from_secs;
        Self {
            target,
            enabled: true,
            required: false,
            timeout: seconds(60),
            max_timeout: seconds(60 * 60),
            // Below the 60 s at which common clients give up, so that they see our typed error and not their own.
            hold: seconds(45),
            connect_timeout: seconds(30),
            list_timeout: seconds(10),
            header_timeout: seconds(30),
            close_timeout: seconds(5),
            refresh_every: Some(seconds(5 * 60)),
            // Half an hour is a common time for servers to forget a session after.
            ping_every: Some(seconds(1500)),
            backoff: (seconds(1), seconds(32), 2.0, 1.0),
            cooldown: (seconds(60), seconds(5 * 60)),
            max_attempts: Some(5),
            on_exhausted: OnExhausted::KeepProbing,
            restart: Restart::Always,
            stable_after: seconds(10),
            failure_threshold: 3,
            replay: Replay::Safe,
            replay_tools: Vec::new(),
            // As large as the largest message the official Rust SDK takes.
            max_message_bytes: 16 * 1024 * 1024,
            max_in_flight: 1024,
            max_held: 1024,
            max_subscriptions: 1024,
            rate_limit: (3, seconds(60)),
            protocol: Protocol::Auto,
        }
    }

    /// Everything that [`HubBuilder::start`](crate::HubBuilder::start) would find wrong with these settings.
    pub fn problems(&self, server: &str) -> Vec<Problem> {
        self.clone().check(server).err().unwrap_or_default()
    }

    /// Sets `required` and `restart` to what the profile says.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        (self.required, self.restart) = match profile {
            Profile::Resilient => (false, Restart::Always),
            Profile::Strict => (true, Restart::Never),
            Profile::BestEffort => (false, Restart::Never),
        };
        self
    }

    /// An environment variable for the child, on top of our own environment. Ignored by servers at a URL.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        if let Target::Stdio { env, .. } = &mut self.target {
            env.push((name.into(), value.into()));
        }
        self
    }

    /// The child's working directory. Ignored by servers at a URL.
    #[must_use]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        if let Target::Stdio { cwd, .. } = &mut self.target {
            *cwd = Some(directory.into());
        }
        self
    }

    /// A header for every request to the server, through every reconnect. Never logged. Ignored by child processes.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Target::Http { headers, .. } = &mut self.target {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Asked for headers before every request to the server, on top of those of [`Settings::header`] and in place of
    /// those of the same name: for tokens that expire. Must not block. Never logged. What a header cannot carry, and
    /// what belongs to the protocol, is left out. Ignored by child processes.
    #[must_use]
    pub fn header_source(
        mut self,
        source: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static,
    ) -> Self {
        if let Target::Http { source: asked, .. } = &mut self.target {
            *asked = Some(HeaderSource::new(source));
        }
        self
    }

    /// Fixes how to speak to a server at a URL.
    #[must_use]
    pub fn http_kind(mut self, wanted: HttpKind) -> Self {
        if let Target::Http { kind, .. } = &mut self.target {
            *kind = wanted;
        }
        self
    }

    /// Starts switched off.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }

    /// [`Hub::ready`](crate::Hub::ready) waits for this server.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// How long a call may take, waiting and resending included (60 s). Progress from the server starts it over, up
    /// to [`Settings::max_timeout`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a call may take however much progress it reports (1 h).
    #[must_use]
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = timeout;
        self
    }

    /// The part of its timeout that a call may spend waiting for a connection (45 s).
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// How long one attempt to connect may take, handshake included (30 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one page of a listing may take (10 s).
    #[must_use]
    pub fn list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// How long the server may take to send response headers where no work is behind them: notifications, answers
    /// to its own requests, opening a stream (30 s). Calls are bounded by their own timeout.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// How long closing a connection may take (5 s). A child is asked to end, then told, then killed within it.
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// How often to list the catalog without being told that it changed (5 min); `None` is never.
    #[must_use]
    pub fn refresh_every(mut self, interval: Option<Duration>) -> Self {
        self.refresh_every = interval;
        self
    }

    /// A connection over which nothing was sent for so long is pinged (25 min), so that the server does not forget its
    /// session, and so that its loss is found and made up for before a call meets it; `None` is never.
    #[must_use]
    pub fn ping_every(mut self, interval: Option<Duration>) -> Self {
        self.ping_every = interval;
        self
    }

    /// What [`Settings::ping_every`] set.
    pub fn pinged_every(&self) -> Option<Duration> {
        self.ping_every
    }

    /// Delays between quick reconnect attempts (1 s doubling to 32 s, full jitter). See [`crate::Backoff`].
    #[must_use]
    pub fn backoff(
        mut self,
        initial: Duration,
        max: Duration,
        multiplier: f64,
        jitter: f64,
    ) -> Self {
        self.backoff = (initial, max, multiplier, jitter);
        self
    }

    /// Delays between slow probes once the quick attempts are spent (60 s doubling to 5 min).
    #[must_use]
    pub fn cooldown(mut self, initial: Duration, max: Duration) -> Self {
        self.cooldown = (initial, max);
        self
    }

    /// Quick attempts in a row (5); `None` is without limit.
    #[must_use]
    pub fn max_attempts(mut self, attempts: Option<u32>) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// What happens when they are spent (keep probing).
    #[must_use]
    pub fn on_exhausted(mut self, what: OnExhausted) -> Self {
        self.on_exhausted = what;
        self
    }

    /// What happens when a connection ends by itself (always start again).
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// How long a connection must hold before backoff starts over (10 s).
    #[must_use]
    pub fn stable_after(mut self, duration: Duration) -> Self {
        self.stable_after = duration;
        self
    }

    /// Failures in a row, of calls or of listings, that condemn a connection (3).
    #[must_use]
    pub fn failure_threshold(mut self, failures: u32) -> Self {
        self.failure_threshold = failures;
        self
    }

    /// Which requests with an unknown outcome may be sent again.
    #[must_use]
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// The same for one tool; wins over [`Settings::replay`].
    #[must_use]
    pub fn replay_tool(mut self, tool: impl Into<String>, replay: Replay) -> Self {
        self.replay_tools.push((tool.into(), replay));
        self
    }

    /// The largest line, event or body taken from the server (16 MiB).
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Calls that may be with the server at once (1024). Further ones wait.
    #[must_use]
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.max_in_flight = calls;
        self
    }

    /// Calls that may wait for the server at once (1024). Further ones fail at once.
    #[must_use]
    pub fn max_held(mut self, calls: usize) -> Self {
        self.max_held = calls;
        self
    }

    /// After so many rate-limit answers in a row (3) nothing is sent to the server for this long (60 s), or for as long as
    /// it asks, up to an hour: calls fail at once with [`CallFailure::RateLimited`](crate::CallFailure::RateLimited). Then
    /// one call finds out whether it is over. A rate-limit answer is HTTP 429, or a JSON-RPC error or a tool's error that
    /// says so in words. `0` answers is never.
    #[must_use]
    pub fn rate_limit(mut self, answers: u32, pause: Duration) -> Self {
        self.rate_limit = (answers, pause);
        self
    }

    /// Which revisions to look for.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Resource subscriptions kept for this server (1024).
    #[must_use]
    pub fn max_subscriptions(mut self, subscriptions: usize) -> Self {
        self.max_subscriptions = subscriptions;
        self
    }
}

impl std::fmt::Debug for Settings {
    /// Of the target only what is no secret: headers, arguments and environment may hold some.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let target = match &self.target {
            Target::Stdio { command, .. } => format!("stdio {}", command.display()),
            Target::Http { kind, .. } => format!("http ({kind:?})"),
            Target::Memory(_) => "memory".into(),
        };
        f.debug_struct("Settings")
            .field("target", &target)
            .field("enabled", &self.enabled)
            .field("required", &self.required)
            .field("timeout", &self.timeout)
            .field("max_timeout", &self.max_timeout)
            .field("hold", &self.hold)
            .field("connect_timeout", &self.connect_timeout)
            .field("list_timeout", &self.list_timeout)
            .field("close_timeout", &self.close_timeout)
            .field("backoff", &self.backoff)
            .field("max_attempts", &self.max_attempts)
            .field("on_exhausted", &self.on_exhausted)
            .field("restart", &self.restart)
            .field("stable_after", &self.stable_after)
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}
