//! The new configuration as TOML, for those who want that. Texts are written as JSON writes them, which TOML reads as well.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::Syntax;
use super::outcome::ORDER;

/// The document in TOML; none if it would not be the same.
pub(crate) fn as_toml(document: &str) -> Option<String> {
    let document: Value = serde_json::from_str(document).ok()?;
    let mut text = String::new();
    for (section, value) in document.as_object()? {
        let section = key(section);
        match (section.as_str(), value.as_object()?) {
            ("mcpServers", servers) => {
                for (name, server) in servers {
                    table(&format!("{section}.{}", key(name)), server.as_object()?, &mut text);
                }
            }
            (_, members) => table(&section, members, &mut text),
        }
    }
    let text = text.trim_start().to_owned();
    (Syntax::Toml.parse(&text).ok()? == document).then_some(text)
}

/// Values first: what follows the name of a table belongs to that.
fn table(name: &str, members: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == key).unwrap_or(99));
    let (tables, values): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(_, value)| value.is_object());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n[{name}]");
    for (member, value) in values {
        let _ = writeln!(text, "{} = {}", key(member), inline(value));
    }
    for (member, value) in tables {
        table(&format!("{name}.{}", key(member)), value.as_object().unwrap_or(&Map::new()), text);
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| format!("{} = {}", key(name), inline(value));
            format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_plain = !name.is_empty() && name.chars().all(plain);
    if is_plain { name.to_owned() } else { json!(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_the_same_in_toml() {
        let document = json!({
            "mcpServers": {
                "a.b": { "args": ["x\n\"${Y}\""], "command": "npx", "env": { "K E": "v", "L": "${M}" }, "disabled": true },
                "c": { "url": "http://c/", "lifecycle": { "connect_timeout": "3s" } },
                "d": { "command": "d" },
            },
            "gateway": { "listen": "127.0.0.1:1", "auth": { "keys": [{ "name": "k", "key": "${K}" }] } },
        });
        insta::assert_snapshot!(as_toml(&document.to_string()).unwrap());
        assert_eq!(
            as_toml(&json!({ "mcpServers": { "a": { "command": null } } }).to_string()),
            None
        );
    }
}
