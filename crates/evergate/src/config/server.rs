//! One entry of `mcpServers`.

use std::time::Duration;

use evergate_runtime::{HttpKind, OnExhausted, Profile, Replay, Restart, Settings};

use super::Server;
use super::reader::{Reader, Severity};

const REPLAY: &[(&str, Replay)] =
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

type SetDuration = fn(Settings, Duration) -> Settings;

/// Keys of other clients that change nothing here, so that nobody is warned about them.
const MEANT_FOR_CLIENTS: &[&str] = &["autoApprove", "alwaysAllow", "description", "icon"];

pub(super) fn read(name: &str, reader: &mut Reader<'_>) -> Option<Server> {
    if !reader.is_object() {
        return None;
    }
    let command = reader.string("command");
    let url = reader.string("url");
    let kind = reader.choice("type", KINDS).or(reader.choice("transport", KINDS));
    let (args, env, headers) =
        (reader.strings("args"), reader.pairs("env"), reader.pairs("headers"));
    let cwd = reader.string("cwd");
    for key in MEANT_FOR_CLIENTS {
        reader.ignore(key);
    }
    let (settings, summary) = match (reader.has("command"), reader.has("url")) {
        (true, true) => {
            reader.error("", "has both a command and a url: remove one of them");
            return None;
        }
        (false, false) => {
            reader.error("", "has neither a command nor a url");
            return None;
        }
        (true, false) => {
            if !matches!(kind, None | Some(Kind::Stdio)) {
                reader.error("type", "must be \"stdio\" for a server with a command");
            }
            let command = command.unwrap_or_default();
            let summary = format!("stdio: {command}");
            let mut settings = Settings::stdio(command, args);
            for (name, value) in env {
                settings = settings.env(name, value);
            }
            (if let Some(cwd) = cwd { settings.cwd(cwd) } else { settings }, summary)
        }
        (false, true) => {
            let Kind::Http(kind) = kind.unwrap_or(Kind::Http(HttpKind::Auto)) else {
                reader.error("type", "is \"stdio\", but the server has a url");
                return None;
            };
            let mut settings = Settings::http(url.clone().unwrap_or_default()).http_kind(kind);
            for (name, value) in headers {
                settings = settings.header(name, value);
            }
            (settings, format!("http: {}", without_secrets(&url.unwrap_or_default())))
        }
    };
    let settings = timing(reader, settings);
    let settings = lifecycle(reader, settings);
    let enabled = reader.flag("enabled").unwrap_or(true);
    let disabled = reader.flag("disabled").unwrap_or(false) || !enabled;
    let unusable = reader.complete(Severity::Warning);
    if unusable.is_none() {
        for problem in settings.problems(name) {
            reader.error(problem.field, &problem.message);
        }
    }
    Some(Server { settings, summary, disabled, unusable })
}

fn timing(reader: &mut Reader<'_>, mut settings: Settings) -> Settings {
    if let Some(timeout) = reader.duration("timeout") {
        settings = settings.timeout(timeout).max_timeout(timeout.max(Duration::from_secs(3600)));
    }
    if reader.flag("required").unwrap_or(false) {
        settings = settings.required();
    }
    if let Some(replay) = reader.choice("replay", REPLAY) {
        settings = settings.replay(replay);
    }
    settings
}

/// Evergate's own section of an entry.
fn lifecycle(reader: &mut Reader<'_>, settings: Settings) -> Settings {
    let mut result = settings.clone();
    reader.own_section("lifecycle", |section| {
        let mut settings = settings;
        let profiles = [
            ("resilient", Profile::Resilient),
            ("strict", Profile::Strict),
            ("best-effort", Profile::BestEffort),
        ];
        if let Some(profile) = section.choice("profile", &profiles) {
            settings = settings.profile(profile);
        }
        let restarts = [
            ("never", Restart::Never),
            ("on_failure", Restart::OnFailure),
            ("always", Restart::Always),
        ];
        if let Some(restart) = section.choice("restart", &restarts) {
            settings = settings.restart(restart);
        }
        let ends = [("keep_probing", OnExhausted::KeepProbing), ("fail", OnExhausted::Fail)];
        if let Some(end) = section.choice("on_exhausted", &ends) {
            settings = settings.on_exhausted(end);
        }
        match section.integer("max_attempts") {
            Some(-1) => settings = settings.max_attempts(None),
            Some(attempts) => match u32::try_from(attempts) {
                Ok(attempts) => settings = settings.max_attempts(Some(attempts)),
                Err(_) => section.error("max_attempts", "must be -1 (no limit), 0 or more"),
            },
            None => {}
        }
        let durations: [(&'static str, SetDuration); 6] = [
            ("hold", Settings::hold),
            ("connect_timeout", Settings::connect_timeout),
            ("close_timeout", Settings::close_timeout),
            ("list_timeout", Settings::list_timeout),
            ("max_timeout", Settings::max_timeout),
            ("stable_after", Settings::stable_after),
        ];
        for (key, set) in durations {
            if let Some(duration) = section.duration(key) {
                settings = set(settings, duration);
            }
        }
        section.own_section("backoff", |backoff| {
            let second = Duration::from_secs(1);
            let initial = backoff.duration("initial").unwrap_or(second);
            let max = backoff.duration("max").unwrap_or((32 * second).max(initial));
            let multiplier = backoff.number("multiplier").unwrap_or(2.0);
            let jitter = backoff.number("jitter").unwrap_or(1.0);
            settings = settings.clone().backoff(initial, max, multiplier, jitter);
        });
        result = settings;
    });
    result
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
