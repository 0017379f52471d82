//! One entry of `mcpServers`.

use std::path::PathBuf;
use std::time::Duration;

use evergate_runtime::{HttpKind, Protocol, Replay, Settings};
use http::HeaderName;
use http::header::AUTHORIZATION;

use super::finding::Severity;
use super::gateway::Gateway;
use super::launched;
use super::reader::Reader;
use super::tools::{self, ToolRules};
use super::{digest, lifecycle};

/// One entry of `mcpServers`.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// How to reach and treat it. The token of `bearer_token_file` is not in it: that is read when it is needed.
    pub(crate) settings: Settings,
    /// Where it is, fit to be shown.
    pub(crate) summary: String,
    /// What its command starts, if that is known to start something else: the package that `npx` is given.
    pub(crate) launched: Option<String>,
    /// Off by the file's own word.
    pub(crate) disabled: bool,
    /// Why it cannot be used although the file wants it: a variable that is not set.
    pub(crate) unusable: Option<String>,
    /// Nothing is ready without it.
    pub(crate) required: bool,
    pub(crate) isolation: Isolation,
    pub(crate) tools: ToolRules,
    /// Headers of the client's request that are passed on to the server.
    pub(crate) headers_from_client: Vec<HeaderName>,
    /// Holds the token for the `Authorization` header.
    pub(crate) bearer_token_file: Option<PathBuf>,
    /// Changes when the connection must be made anew for the entry to be obeyed.
    pub(crate) connection_digest: String,
}

/// Who shares a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Isolation {
    /// All clients.
    #[default]
    Shared,
    /// Nobody: each client has its own.
    PerClient,
}

const PROTOCOL: &[(&str, Protocol)] =
    &[("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("modern", Protocol::Modern)];
pub(super) const REPLAY: &[(&str, Replay)] =
    &[("safe", Replay::Safe), ("always", Replay::Always), ("never", Replay::Never)];

/// What the word `type` may say about a server. Clients spell it in many ways.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http(HttpKind),
}

const KINDS: &[(&str, Kind)] = &[
    ("stdio", Kind::Stdio),
    ("local", Kind::Stdio),
    // Many files say "http" of a server that speaks the older dialect.
    ("http", Kind::Http(HttpKind::Auto)),
    ("remote", Kind::Http(HttpKind::Auto)),
    ("streamable-http", Kind::Http(HttpKind::Streamable)),
    ("streamable_http", Kind::Http(HttpKind::Streamable)),
    ("streamableHttp", Kind::Http(HttpKind::Streamable)),
    ("streamable", Kind::Http(HttpKind::Streamable)),
    ("sse", Kind::Http(HttpKind::Sse)),
    ("json-rpc", Kind::Http(HttpKind::Plain)),
];

/// Keys of other clients that change nothing here, so that nobody is warned about them.
const MEANT_FOR_CLIENTS: &[&str] = &["autoApprove", "alwaysAllow", "description", "icon"];

/// Headers that belong to one connection or to the protocol: a client's do not fit the server's.
const NOT_FORWARDED: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
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
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

// === impl Server ===

impl Server {
    /// Wanted, and usable.
    pub(crate) fn is_on(&self) -> bool {
        !self.disabled && self.unusable.is_none()
    }

    /// Where it is and what is started there, fit to be shown.
    pub(crate) fn place(&self) -> String {
        match &self.launched {
            Some(launched) => format!("{} {launched}", self.summary),
            None => self.summary.clone(),
        }
    }

    /// A server of which nothing is said but how to reach it.
    pub(crate) fn plain(settings: Settings) -> Self {
        Self {
            settings,
            summary: String::new(),
            launched: None,
            disabled: false,
            unusable: None,
            required: false,
            isolation: Isolation::Shared,
            tools: ToolRules::default(),
            headers_from_client: Vec::new(),
            bearer_token_file: None,
            connection_digest: String::new(),
        }
    }
}

/// Reads one entry. What the gateway section says for all servers is its starting point.
pub(super) fn read(name: &str, reader: &mut Reader<'_>, gateway: &Gateway) -> Option<Server> {
    for key in MEANT_FOR_CLIENTS {
        reader.take(key);
    }
    let (settings, summary, launched) = target(reader);
    let tools = tools::read(reader);
    let isolations = [("shared", Isolation::Shared), ("per_client", Isolation::PerClient)];
    let isolation = reader.choice("isolation", &isolations).unwrap_or_default();
    let headers_from_client = headers_from_client(reader, gateway);
    let bearer_token_file = bearer_token_file(reader, &headers_from_client);
    let settings = settings.max_message_bytes(gateway.max_message_bytes());
    let settings = timing(reader, settings);
    let (settings, required) = lifecycle::read(reader, settings);
    let enabled = reader.flag("enabled").unwrap_or(true);
    let disabled = reader.flag("disabled").unwrap_or(false) || !enabled;
    let unusable = reader.complete(Severity::Warning);
    if unusable.is_none() {
        for problem in settings.problems(name) {
            let inner = reader.object().and_then(|entry| entry.get("lifecycle"));
            let key = problem.field.split('.').next().unwrap_or_default();
            let inner = inner.is_some_and(|inner| inner.get(key).is_some());
            let section = if inner { "lifecycle." } else { "" };
            reader.error(&format!("{section}{}", problem.field), &problem.message);
        }
    }
    if name.contains(&gateway.separator) {
        let message = format!(
            "contains the separator {:?}: the names of its tools will be awkward",
            gateway.separator
        );
        reader.warning("", &message);
    }
    let connection_digest = digest::of_connection(reader, gateway);
    Some(Server {
        settings,
        summary: summary?,
        launched,
        disabled,
        unusable,
        required,
        isolation,
        tools,
        headers_from_client,
        bearer_token_file,
        connection_digest,
    })
}

/// Where the server is, and that fit to be shown, and what is started there. Without the second it is nowhere, and the
/// settings are only good for finding what else is wrong with the entry.
fn target(reader: &mut Reader<'_>) -> (Settings, Option<String>, Option<String>) {
    let command = reader.string("command");
    let (url, streamable) = (reader.string("url"), reader.string("httpUrl"));
    let kind = reader.choice("type", KINDS);
    let kind = kind.or(reader.choice("transport", KINDS));
    let (kind, has_url) = if reader.has("httpUrl") {
        if reader.has("url") {
            reader.warning("url", "has no effect beside httpUrl");
        }
        // Whoever writes it says with it which dialect is meant.
        (kind.or(Some(Kind::Http(HttpKind::Streamable))), true)
    } else {
        (kind, reader.has("url"))
    };
    let args = reader.strings("args").unwrap_or_default();
    let launched = command.as_deref().and_then(|command| launched::name(command, &args));
    let (env, headers) = (reader.pairs("env"), reader.pairs("headers"));
    let cwd = reader.string("cwd");
    let child = |command: String| {
        let settings = Settings::stdio(command, args);
        let settings = env.into_iter().fold(settings, |all, (name, value)| all.env(name, value));
        if let Some(cwd) = cwd { settings.cwd(cwd) } else { settings }
    };
    let url = streamable.or(url).unwrap_or_default();
    let remote = |kind: HttpKind| {
        let settings = Settings::http(url.clone()).http_kind(kind);
        headers.into_iter().fold(settings, |all, (name, value)| all.header(name, value))
    };
    match (reader.has("command"), has_url) {
        (true, true) => {
            reader.error("", "has both a command and a url: remove one of them");
            (remote(HttpKind::Auto), None, None)
        }
        (false, false) => {
            reader.error("", "has neither a command nor a url");
            (child("none".to_owned()), None, None)
        }
        (true, false) => {
            if !matches!(kind, None | Some(Kind::Stdio)) {
                reader.error("type", "must be \"stdio\" for a server with a command");
            }
            let command = command.unwrap_or_default();
            let summary = format!("stdio: {command}");
            (child(command), Some(summary), launched)
        }
        (false, true) => {
            let Kind::Http(kind) = kind.unwrap_or(Kind::Http(HttpKind::Auto)) else {
                reader.error("type", "is \"stdio\", but the server has a url");
                return (remote(HttpKind::Auto), None, None);
            };
            (remote(kind), Some(format!("http: {}", without_secrets(&url))), None)
        }
    }
}

fn timing(reader: &mut Reader<'_>, mut settings: Settings) -> Settings {
    if let Some(timeout) = reader.foreign_duration("timeout") {
        settings = settings.timeout(timeout).max_timeout(timeout.max(Duration::from_secs(3600)));
    }
    if let Some(timeout) = reader.duration("max_timeout") {
        settings = settings.max_timeout(timeout);
    }
    if let Some(hold) = reader.duration("hold") {
        settings = settings.hold(hold);
    }
    if let Some(replay) = reader.choice("replay", REPLAY) {
        settings = settings.replay(replay);
    }
    if let Some(protocol) = reader.choice("protocol", PROTOCOL) {
        settings = settings.protocol(protocol);
    }
    settings
}

fn headers_from_client(reader: &mut Reader<'_>, gateway: &Gateway) -> Vec<HeaderName> {
    const KEY: &str = "headers_from_client";
    let mut headers = Vec::new();
    for (n, text) in reader.strings(KEY).unwrap_or_default().iter().enumerate() {
        let field = format!("{KEY}[{n}]");
        let Ok(header) = HeaderName::try_from(text) else {
            reader.error(&field, &format!("{text:?} is not a header name"));
            continue;
        };
        if NOT_FORWARDED.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-") {
            reader.error(
                &field,
                &format!("{header} belongs to the protocol and cannot be forwarded"),
            );
            continue;
        }
        if !gateway.auth.is_empty() && matches!(header.as_str(), "authorization" | "x-api-key") {
            let message = format!(
                "a client that shows its gateway key in {header} would hand it to this server"
            );
            reader.warning(&field, &message);
        }
        if !headers.contains(&header) {
            headers.push(header);
        }
    }
    if reader.has(KEY) && reader.has("command") {
        reader.error(KEY, "is only for servers with a url");
    }
    headers
}

fn bearer_token_file(reader: &mut Reader<'_>, forwarded: &[HeaderName]) -> Option<PathBuf> {
    const KEY: &str = "bearer_token_file";
    let file = reader.path(KEY);
    if !reader.has(KEY) {
        return None;
    }
    if reader.has("command") {
        reader.error(KEY, "is only for servers with a url");
    }
    let mut fixed = reader.section("headers").into_iter().flatten();
    if fixed.any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        reader.error(KEY, "and headers both set authorization: remove one of them");
    }
    if forwarded.contains(&AUTHORIZATION) {
        reader.error(KEY, "and headers_from_client both set authorization: remove one of them");
    }
    if file.as_ref().is_some_and(|file| !file.exists()) {
        reader.warning(KEY, "there is no such file yet: the server is called without a token");
    }
    file
}

/// A URL as it may be shown: its query and user may hold secrets.
fn without_secrets(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    match plain.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => plain.to_owned(),
    }
}
