//! The forms that users are asked to fill in.

use serde_json::{Value, json};

/// A form of texts, all of them required.
pub(super) fn texts(names: &[&str]) -> Value {
    form(names, "string")
}

/// A form with one box to tick.
pub(super) fn confirmation() -> Value {
    form(&["ok"], "boolean")
}

fn form(names: &[&str], of: &str) -> Value {
    let fields = names.iter().map(|name| ((*name).to_owned(), json!({ "type": of })));
    let fields: serde_json::Map<_, _> = fields.collect();
    json!({ "type": "object", "properties": fields, "required": names })
}

/// Every type with a default (SEP-1034).
pub(super) fn defaults() -> Value {
    let states = ["active", "inactive", "pending"];
    json!({ "type": "object", "required": [], "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": states, "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

/// Every way to choose from a list (SEP-1330).
pub(super) fn choices() -> Value {
    let plain = ["option1", "option2", "option3"];
    let labels = ["Option 1", "Option 2", "Option 3"];
    let titled: Vec<Value> = labels
        .iter()
        .zip(["value1", "value2", "value3"])
        .map(|(title, value)| json!({ "const": value, "title": title }))
        .collect();
    json!({ "type": "object", "required": [], "properties": {
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": { "type": "string", "enum": plain, "enumNames": labels },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } },
    } })
}
