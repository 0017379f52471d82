//! From what was said to what can be obeyed. All problems are found before any is reported.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use url::{ParseError, Url};

use super::{HeaderSource, HttpKind, Settings, Target};
use crate::connection::Protocol;
use crate::lifecycle::Policy;
use crate::retry::{Backoff, Replay};
use crate::transport::MemoryConnector;

/// Settings that hold.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(crate) endpoint: Endpoint,
    pub(crate) policy: Policy,
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
    pub(crate) replay: Replay,
    pub(crate) replay_tools: HashMap<String, Replay>,
    pub(crate) max_message_bytes: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_held: usize,
    pub(crate) max_subscriptions: usize,
    /// Rate-limit answers in a row, zero for never, and how long nothing is sent then.
    pub(crate) rate_limit: (u32, Duration),
    pub(crate) protocol: Protocol,
}

/// A reachable place.
#[derive(Clone)]
pub(crate) enum Endpoint {
    Stdio {
        command: OsString,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        cwd: Option<PathBuf>,
    },
    Http {
        url: Url,
        headers: HeaderMap,
        source: Option<HeaderSource>,
        kind: HttpKind,
    },
    Memory(MemoryConnector),
}

/// One thing wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The server it concerns.
    pub server: String,
    /// The setting it concerns.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Everything wrong with the settings of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidSettings {
    /// In the order of the servers; never empty.
    pub problems: Vec<Problem>,
}

/// Collects problems under one server's name.
struct Problems<'a> {
    server: &'a str,
    found: Vec<Problem>,
}

/// Keeps every sum of a time and a setting within what a clock can show.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Headers that belong to the protocol; setting them would break a session.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a header belongs to the protocol.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    // Arguments of a tool, as its schema says.
    RESERVED_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("mcp-param-")
}

// === impl Settings ===

impl Settings {
    pub(crate) fn check(self, server: &str) -> Result<Checked, Vec<Problem>> {
        let mut problems = Problems { server, found: Vec::new() };
        problems.check_name();
        let exclusive = !matches!(self.target, Target::Http { .. });
        let endpoint = problems.endpoint(self.target);
        if let Some(Endpoint::Http { kind: HttpKind::Sse | HttpKind::Plain, .. }) = &endpoint
            && self.protocol == Protocol::Modern
        {
            problems.add("protocol", "revisions without a handshake need streamable HTTP");
        }
        let positive = [
            ("timeout", self.timeout),
            ("hold", self.hold),
            ("connect_timeout", self.connect_timeout),
            ("list_timeout", self.list_timeout),
            ("header_timeout", self.header_timeout),
            ("close_timeout", self.close_timeout),
            ("refresh_every", self.refresh_every.unwrap_or(LONGEST)),
            ("ping_every", self.ping_every.unwrap_or(LONGEST)),
            ("rate_limit.pause", self.rate_limit.1),
        ];
        for (field, duration) in positive {
            if duration.is_zero() {
                problems.add(field, "must be more than zero");
            }
        }
        let (initial, max, ..) = self.backoff;
        let bounded = positive.into_iter().chain([
            ("max_timeout", self.max_timeout),
            ("stable_after", self.stable_after),
            ("backoff", initial.max(max)),
            ("cooldown", self.cooldown.0.max(self.cooldown.1)),
        ]);
        for (field, duration) in bounded {
            if duration > LONGEST {
                problems.add(field, "must not be more than a year");
            }
        }
        if self.max_timeout < self.timeout {
            problems.add("max_timeout", "must not be below timeout");
        }
        let counts = [
            ("failure_threshold", self.failure_threshold as usize),
            ("max_message_bytes", self.max_message_bytes),
            ("max_in_flight", self.max_in_flight),
            ("max_held", self.max_held),
            ("max_subscriptions", self.max_subscriptions),
        ];
        for (field, count) in counts {
            if count == 0 {
                problems.add(field, "must be at least 1");
            }
        }
        let (initial, max, multiplier, jitter) = self.backoff;
        let backoff = problems.backoff("backoff", Backoff::new(initial, max, multiplier, jitter));
        let (initial, max) = self.cooldown;
        // A fifth of jitter: enough to spread slow probes, little enough to keep their rhythm readable.
        let cooldown = problems.backoff("cooldown", Backoff::new(initial, max, 2.0, 0.2));
        let (Some(endpoint), Some(backoff), Some(cooldown), true) =
            (endpoint, backoff, cooldown, problems.found.is_empty())
        else {
            return Err(problems.found);
        };
        Ok(Checked {
            endpoint,
            policy: Policy {
                backoff,
                cooldown,
                max_attempts: self.max_attempts,
                on_exhausted: self.on_exhausted,
                restart: self.restart,
                stable_after: self.stable_after,
                trial: self.timeout,
                failure_threshold: self.failure_threshold,
                exclusive,
            },
            enabled: self.enabled,
            required: self.required,
            timeout: self.timeout,
            max_timeout: self.max_timeout,
            hold: self.hold.min(self.timeout),
            connect_timeout: self.connect_timeout,
            list_timeout: self.list_timeout,
            header_timeout: self.header_timeout,
            close_timeout: self.close_timeout,
            refresh_every: self.refresh_every,
            ping_every: self.ping_every,
            replay: self.replay,
            replay_tools: self.replay_tools.into_iter().collect(),
            max_message_bytes: self.max_message_bytes,
            max_in_flight: self.max_in_flight.min(tokio::sync::Semaphore::MAX_PERMITS),
            max_held: self.max_held,
            max_subscriptions: self.max_subscriptions,
            rate_limit: self.rate_limit,
            protocol: self.protocol,
        })
    }
}

// === impl Checked ===

impl Checked {
    /// The operator's word for requests of an unknown outcome.
    pub(crate) fn replay_for(&self, tool: Option<&str>) -> Replay {
        tool.and_then(|tool| self.replay_tools.get(tool)).copied().unwrap_or(self.replay)
    }
}

// === impl Endpoint ===

impl std::fmt::Debug for Endpoint {
    /// Only what is safe to show.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { command, .. } => write!(f, "stdio {}", command.display()),
            Self::Http { url, .. } => write!(f, "{}", url.origin().ascii_serialization()),
            Self::Memory(_) => f.write_str("memory"),
        }
    }
}

// === impl Problems ===

impl Problems<'_> {
    fn add(&mut self, field: &'static str, message: impl Into<String>) {
        self.found.push(Problem { server: self.server.into(), field, message: message.into() });
    }

    fn check_name(&mut self) {
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.server.is_empty() || self.server.len() > 64 || !self.server.chars().all(fine) {
            self.add("name", "must be 1 to 64 characters of A-Z a-z 0-9 - _ .");
        }
    }

    fn endpoint(&mut self, target: Target) -> Option<Endpoint> {
        match target {
            Target::Memory(connector) => Some(Endpoint::Memory(connector)),
            Target::Stdio { command, args, env, cwd } => {
                let has_nul = |text: &OsString| text.as_encoded_bytes().contains(&0);
                if command.is_empty() {
                    self.add("command", "must not be empty");
                }
                if has_nul(&command) || args.iter().any(has_nul) {
                    self.add("command", "must not contain a NUL character, nor may its arguments");
                }
                for (name, value) in &env {
                    let bytes = name.as_encoded_bytes();
                    if bytes.is_empty() || bytes.contains(&b'=') || has_nul(name) || has_nul(value)
                    {
                        self.add(
                            "env",
                            format!("{:?} is not a valid variable", name.display().to_string()),
                        );
                    }
                }
                Some(Endpoint::Stdio { command, args, env, cwd })
            }
            Target::Http { url, headers, source, kind } => {
                let headers = self.headers(headers);
                self.url(url).map(|url| Endpoint::Http { url, headers, source, kind })
            }
        }
    }

    fn url(&mut self, url: Result<Url, ParseError>) -> Option<Url> {
        let url = match url {
            Ok(url) => url,
            Err(error) => {
                self.add("url", format!("is not a URL: {error}"));
                return None;
            }
        };
        if !matches!(url.scheme(), "http" | "https") {
            self.add("url", format!("must be http or https, not {}", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.add("url", "must not hold a user or password: use an authorization header");
        }
        Some(url)
    }

    fn headers(&mut self, headers: Vec<(String, String)>) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            let Ok(header) = HeaderName::try_from(&name) else {
                self.add("headers", format!("{name:?} is not a header name"));
                continue;
            };
            if is_reserved(&header) {
                self.add("headers", format!("{name} belongs to the protocol and cannot be set"));
            }
            match HeaderValue::try_from(value) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    map.append(header, value);
                }
                Err(_) => self.add(
                    "headers",
                    format!("the value of {name} has characters a header cannot carry"),
                ),
            }
        }
        map
    }

    fn backoff(
        &mut self,
        field: &'static str,
        backoff: Result<Backoff, crate::retry::InvalidBackoff>,
    ) -> Option<Backoff> {
        backoff.map_err(|error| self.add(field, error.to_string())).ok()
    }
}

// === impl InvalidSettings ===

impl std::fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid settings")?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidSettings {}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.server, self.field, self.message)
    }
}
