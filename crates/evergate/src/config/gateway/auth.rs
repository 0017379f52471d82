//! Who may come in (`gateway.auth`), and what session ids are sealed with (`gateway.session_key`).

use std::path::Path;

use serde_json::Value;

use super::Gateway;
use crate::config::pattern::Pattern;
use crate::config::rate::Rate;
use crate::config::reader::{Reader, kind};
use crate::config::secret::Secret;

/// One who may come in.
#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "named as in the file")]
pub(crate) struct Key {
    /// For logs and status.
    pub(crate) name: String,
    pub(crate) key: Secret,
    /// Only these servers; all of them if absent.
    pub(crate) servers: Option<Vec<Pattern>>,
    /// Only these tools, by the names that clients see, such as `docs__search`; all of them if absent.
    pub(crate) tools: Option<Vec<Pattern>>,
    pub(crate) scopes: Scopes,
    /// How often it may have something sent to servers; as often as it likes if absent.
    pub(crate) rate_limit: Option<Rate>,
}

/// What a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Scopes {
    /// The servers.
    pub(crate) mcp: bool,
    /// The admin API, and with it everything that is there to be known of the gateway.
    pub(crate) admin: bool,
    /// The metrics.
    pub(crate) metrics: bool,
}

pub(super) fn read(section: &mut Reader<'_>, gateway: &mut Gateway) {
    let read = section.own_section("auth", |auth| {
        let open = auth.flag("allow_unauthenticated").unwrap_or(false);
        (keys(auth), open)
    });
    if let Some((keys, open)) = read {
        (gateway.auth, gateway.allow_unauthenticated) = (keys, open);
    }
}

fn keys(auth: &mut Reader<'_>) -> Vec<Key> {
    let Some(value) = auth.take("keys") else { return Vec::new() };
    let Some(items) = value.as_array() else {
        auth.error("keys", &format!("must be a list of objects, not {}", kind(value)));
        return Vec::new();
    };
    if items.is_empty() {
        auth.error("keys", "is empty: nobody could come in; leave it out to do without keys");
    }
    let mut keys: Vec<Key> = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("keys[{n}]");
        let Some(key) = auth.nested(&path, "keys[]", item, key).flatten() else { continue };
        if keys.iter().any(|other| other.name == key.name) {
            auth.error(&path, &format!("has the same name as another key: {:?}", key.name));
        }
        if let Some(other) = keys.iter().find(|other| other.key == key.key) {
            let message = format!("has the same secret as the key {:?}", other.name);
            auth.error(&path, &message);
        }
        keys.push(key);
    }
    keys
}

fn key(section: &mut Reader<'_>) -> Option<Key> {
    let name = section.string("name");
    match name.as_deref() {
        None if !section.has("name") => {
            section.error("name", "is missing: it is what logs and status show");
        }
        Some("") => section.error("name", "must not be empty"),
        _ => {}
    }
    let given = section.string("key").map(|text| ("key", text));
    let file = section.path("key_file").and_then(|path| {
        let text = read_file(&path).map_err(|message| section.error("key_file", &message));
        text.ok().map(|text| ("key_file", text))
    });
    match (section.has("key"), section.has("key_file")) {
        (true, true) => section.error("", "has both a key and a key_file: remove one of them"),
        (false, false) => section.error("", "has neither a key nor a key_file"),
        _ => {}
    }
    let secret = given.or(file).and_then(|(key, text)| checked(section, key, &text));
    let (servers, tools) = (section.patterns("servers"), section.patterns("tools"));
    let scopes = scopes(section);
    // Operators can try tools.
    if !scopes.mcp && !scopes.admin && (servers.is_some() || tools.is_some()) {
        section.warning("scopes", "has neither mcp nor admin: servers and tools have no effect");
    }
    let rate_limit = section.rate("rate_limit");
    Some(Key { name: name?, key: secret?, servers, tools, scopes, rate_limit })
}

fn scopes(section: &mut Reader<'_>) -> Scopes {
    const KEY: &str = "scopes";
    let mut scopes = Scopes::default();
    let Some(words) = section.strings(KEY) else { return Scopes { mcp: true, ..scopes } };
    if words.is_empty() {
        section.error(KEY, "is empty: the key would open nothing");
    }
    for (n, word) in words.iter().enumerate() {
        match word.as_str() {
            "mcp" => scopes.mcp = true,
            "admin" => scopes.admin = true,
            "metrics" => scopes.metrics = true,
            other => {
                let message = format!("must be one of mcp, admin, metrics, not {other:?}");
                section.error(&format!("{KEY}[{n}]"), &message);
            }
        }
    }
    scopes
}

/// A text, an object with a file, or a list of those.
pub(super) fn session_keys(section: &mut Reader<'_>) -> Vec<Secret> {
    const KEY: &str = "session_key";
    match section.take(KEY) {
        None => Vec::new(),
        Some(Value::Array(items)) => {
            if items.is_empty() {
                section.error(KEY, "is an empty list; leave it out to have a key made");
            }
            let numbered = items.iter().enumerate();
            numbered
                .filter_map(|(n, item)| session_key(section, &format!("{KEY}[{n}]"), item))
                .collect()
        }
        Some(value) => session_key(section, KEY, value).into_iter().collect(),
    }
}

fn session_key(section: &mut Reader<'_>, key: &str, value: &Value) -> Option<Secret> {
    match value {
        Value::String(_) => {
            let text = section.text(key, value)?;
            checked(section, key, &text)
        }
        Value::Object(_) => section
            .nested(key, "session_key", value, |section| {
                let Some(path) = section.path("file") else {
                    if !section.has("file") {
                        section.error("file", "is missing");
                    }
                    return None;
                };
                let text = read_file(&path).map_err(|message| section.error("file", &message));
                checked(section, "file", &text.ok()?)
            })
            .flatten(),
        value => {
            let message = format!("must be a string or an object with a file, not {}", kind(value));
            section.error(key, &message);
            None
        }
    }
}

fn checked(section: &mut Reader<'_>, key: &str, text: &str) -> Option<Secret> {
    Secret::new(text).map_err(|message| section.error(key, &message)).ok()
}

fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}
