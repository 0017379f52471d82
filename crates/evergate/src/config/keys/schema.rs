//! JSON Schema (2020-12) of a configuration.

use serde_json::{Map, Value, json};

use super::table::TABLE;
use super::{KeyDoc, Kind};

/// The schema of a whole file.
pub(crate) fn schema() -> Value {
    let mut schema = object("", false);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Evergate configuration".into();
    schema["$defs"] = json!({
        "duration": {
            "description": "a number with ms, s, m, h or d",
            "type": "string",
            "pattern": r"^\s*[0-9.]+\s*(ms|s|m|h|d)\s*$",
        },
        "size": {
            "description": "bytes as a number, or with B, KiB, MiB, GiB, KB, MB or GB",
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": r"^\s*[0-9]+\s*(B|KiB|MiB|GiB|KB|MB|GB)?\s*$" },
            ],
        },
        "patterns": {
            "description": "names in which * stands for anything and ? for one character",
            "type": "array",
            "items": { "type": "string", "minLength": 1 },
        },
    });
    schema
}

/// An object with the keys that the table has under a path.
fn object(path: &str, closed: bool) -> Value {
    let below = TABLE.iter().filter(|key| key.parent() == path && !key.is_nameless());
    let properties: Map<String, Value> =
        below.map(|key| (key.name().to_owned(), property(key))).collect();
    let mut object = json!({ "type": "object", "properties": properties });
    if closed {
        object["additionalProperties"] = false.into();
    }
    object
}

/// What may be written for one key.
fn property(key: &KeyDoc) -> Value {
    let mut schema = shape(key);
    schema["description"] = key.about.into();
    if !key.default.is_empty() {
        schema["default"] = default(key);
    }
    schema
}

fn shape(key: &KeyDoc) -> Value {
    let patterns = || json!({ "$ref": "#/$defs/patterns" });
    match key.kind {
        Kind::Text | Kind::Path => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Integer => json!({ "type": "integer", "minimum": -1 }),
        Kind::Count => json!({ "type": "integer", "minimum": 1 }),
        Kind::Number => json!({ "type": "number", "minimum": 0 }),
        Kind::Duration => json!({ "$ref": "#/$defs/duration" }),
        // Below 1000 it is in seconds, else in milliseconds.
        Kind::DurationOrNumber => {
            json!({ "anyOf": [{ "$ref": "#/$defs/duration" }, { "type": "number", "minimum": 0 }] })
        }
        Kind::DurationOrNever => {
            json!({ "anyOf": [{ "$ref": "#/$defs/duration" }, { "const": "never" }] })
        }
        Kind::Rate => {
            json!({ "type": "string", "pattern": "^\\s*[0-9]+\\s*/\\s*[0-9]+(\\.[0-9]+)?(ms|s|m|h)\\s*$" })
        }
        Kind::Size => json!({ "$ref": "#/$defs/size" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Patterns => patterns(),
        Kind::Pairs => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Choices(words) => {
            json!({ "type": "array", "items": { "enum": words }, "minItems": 1 })
        }
        Kind::Section => object(key.path, true),
        Kind::Foreign => {
            let mut entry = object(key.path, false);
            let one = ["command", "url", "httpUrl"].map(|key| json!({ "required": [key] }));
            entry["oneOf"] = json!(one);
            entry
        }
        Kind::Map => {
            json!({ "type": "object", "additionalProperties": nameless(&format!("{}.*", key.path)) })
        }
        Kind::List => json!({ "type": "array", "items": nameless(&format!("{}[]", key.path)) }),
        Kind::PatternsOrSection => json!({ "anyOf": [patterns(), object(key.path, true)] }),
        Kind::Secrets => {
            let text = json!({ "type": "string", "minLength": 1 });
            let one = json!({ "anyOf": [text, object(key.path, true)] });
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        }
        Kind::Ignored => json!({}),
    }
}

/// What the entries of a map or the items of a list look like.
fn nameless(path: &str) -> Value {
    TABLE.iter().find(|key| key.path == path).map_or_else(|| json!({}), property)
}

/// Numbers and flags as such, the rest as text.
fn default(key: &KeyDoc) -> Value {
    let literal = matches!(
        key.kind,
        Kind::Flag | Kind::Integer | Kind::Count | Kind::Number | Kind::Choices(_)
    );
    let parsed = literal.then(|| serde_json::from_str(key.default).ok()).flatten();
    parsed.unwrap_or_else(|| key.default.into())
}
