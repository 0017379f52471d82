//! Tells whether an entry changed in a way that its connection must be made anew for.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::gateway::Gateway;
use super::reader::Reader;
use super::variables;
use crate::hex::hex;

/// The keys that the runtime's settings are made of.
pub(super) const CONNECTION: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "headers",
    "type",
    "transport",
    "bearer_token_file",
    "timeout",
    "max_timeout",
    "hold",
    "replay",
    "protocol",
    "lifecycle",
];

/// Hexadecimal SHA-256 of these keys with their variables filled in: a new value in the environment counts as a change.
pub(super) fn of_connection(reader: &Reader<'_>, gateway: &Gateway) -> String {
    let mut text = String::new();
    let environment = reader.around().environment;
    for key in CONNECTION {
        if let Some(value) = reader.object().and_then(|entry| entry.get(*key)) {
            text.push_str(key);
            write_canonical(&mut text, value, environment);
        }
    }
    // Other folders make other files of relative paths, and the gateway's limit is the server's.
    text.push_str(&reader.around().folder.to_string_lossy());
    text.push_str(&gateway.max_message_bytes().to_string());
    hex(&Sha256::digest(text.as_bytes()))
}

/// JSON with sorted keys, whatever order the map keeps.
fn write_canonical(text: &mut String, value: &Value, environment: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in entries {
                text.push_str(&quoted(key));
                write_canonical(text, value, environment);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(text, item, environment);
                text.push(',');
            }
            text.push(']');
        }
        Value::String(raw) => {
            // One that is not set stands for itself: setting it is a change.
            let filled = variables::expand(raw, environment).unwrap_or_else(|_| raw.clone());
            text.push_str(&quoted(&filled));
        }
        value => text.push_str(&value.to_string()),
    }
}

/// As `Value` shows it, without its detour over formatting.
fn quoted(text: &str) -> String {
    // Writing text into memory does not fail.
    serde_json::to_string(text).unwrap_or_default()
}
