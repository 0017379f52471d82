//! What each client wants to read.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::toml_insert;
use crate::import::Client;

/// Where a client is to be pointed.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) way: Way,
}

/// How it gets there.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// To a gateway that is running; with a key from this variable.
    Url { url: String, key: Option<String> },
    /// To one that it starts itself.
    Process { program: PathBuf, args: Vec<String> },
}

/// A value whose members are in the order in which people write them.
pub(super) struct Ordered<'a>(pub(super) &'a Value);

const ORDER: &[&str] = &["type", "command", "args", "url", "httpUrl", "headers"];

/// The key of the client's file under which servers are.
pub(super) fn section(client: Client) -> &'static str {
    match client {
        Client::VsCode => "servers",
        Client::Codex => "mcp_servers",
        Client::Zed => "context_servers",
        _ => "mcpServers",
    }
}

// === impl Ordered ===

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(members) = self.0 else { return self.0.serialize(serializer) };
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by_key(|(key, _)| {
            ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len())
        });
        serializer.collect_map(members.into_iter().map(|(key, value)| (key, Ordered(value))))
    }
}

// === impl Target ===

impl Target {
    /// The entry itself.
    pub(crate) fn entry(&self, client: Client) -> Value {
        let (url, key) = match &self.way {
            Way::Process { program, args } => {
                return json!({ "command": program.display().to_string(), "args": args });
            }
            Way::Url { url, key } => (url, key.as_deref()),
        };
        let mut entry = match client {
            Client::Claude | Client::VsCode | Client::GhAw => json!({ "type": "http", "url": url }),
            Client::Gemini => json!({ "httpUrl": url }),
            Client::DockerAgent => json!({ "url": url, "transport_type": "streamable" }),
            _ => json!({ "url": url }),
        };
        let Some(key) = key else { return entry };
        let reference = match client {
            Client::Cursor | Client::VsCode => format!("${{env:{key}}}"),
            Client::Gemini => format!("${key}"),
            Client::DockerAgent => format!("${{env.{key}}}"),
            _ => format!("${{{key}}}"),
        };
        if client == Client::Codex {
            entry["bearer_token_env_var"] = json!(key);
        } else {
            entry["headers"] = json!({ "Authorization": format!("Bearer {reference}") });
        }
        entry
    }

    /// The entry as it would be in a file that has nothing else.
    pub(crate) fn shown(&self, client: Client) -> String {
        let entry = self.entry(client);
        match client {
            Client::Codex => toml_insert::table(section(client), &self.name, &entry),
            Client::DockerAgent => self.toolset(&entry),
            client => {
                let document = json!({ section(client): { self.name.as_str(): entry } });
                serde_json::to_string_pretty(&Ordered(&document)).unwrap_or_default() + "\n"
            }
        }
    }

    /// A toolset of an agent. JSON texts are YAML texts.
    fn toolset(&self, entry: &Value) -> String {
        let mut text =
            format!("toolsets:\n  - type: mcp\n    name: {}\n    remote:\n", json!(self.name));
        for key in ["url", "transport_type"] {
            // Writing to a string cannot fail, also below.
            let _ = writeln!(text, "      {key}: {}", entry[key]);
        }
        if let Some(header) = entry.get("headers").and_then(|headers| headers.get("Authorization"))
        {
            let _ = writeln!(text, "      headers:\n        Authorization: {header}");
        }
        text
    }
}
