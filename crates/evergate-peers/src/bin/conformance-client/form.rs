//! Filling in what a schema asks for.

use serde_json::{Map, Value, json};

/// An object with everything that a schema requires or has a default for.
pub(crate) fn filled_in(schema: &Value) -> Value {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let properties = schema["properties"].as_object();
    let wanted = properties
        .into_iter()
        .flatten()
        .filter(|(name, property)| is_required(name) || property.get("default").is_some());
    Value::Object(wanted.map(|(name, property)| (name.clone(), value(property))).collect())
}

fn value(property: &Value) -> Value {
    if let Some(default) = property.get("default") {
        return default.clone();
    }
    if let Some(first) = property["enum"].get(0) {
        return first.clone();
    }
    match property["type"].as_str() {
        Some("integer" | "number") => 3.into(),
        Some("boolean") => true.into(),
        Some("array") => json!([]),
        Some("object") => filled_in(property),
        _ => "something".into(),
    }
}

/// A text for every argument that a prompt declares.
pub(crate) fn prompt_arguments(declared: &Value) -> Value {
    let names = declared.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str());
    Value::Object(names.map(|name| (name.to_owned(), "something".into())).collect::<Map<_, _>>())
}
