//! The gateway's side of `initialize`.

use std::sync::Arc;

use evergate_runtime::RawJson;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Gateway;
use super::client::{Client, Introduction, Scope};

/// Revisions with a handshake, the newest first.
pub(crate) const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    protocol_version: String,
    #[serde(default)]
    capabilities: Map<String, Value>,
    #[serde(default)]
    client_info: Map<String, Value>,
}

/// Reads what a client says of itself; an unknown revision is answered with the newest.
pub(crate) fn introduction(params: Option<&RawJson>) -> Option<Introduction> {
    let params: InitializeParams = params?.parse().ok()?;
    let known = VERSIONS.iter().find(|version| **version == params.protocol_version);
    Some(Introduction {
        version: (*known.unwrap_or(&VERSIONS[0])).to_owned(),
        capabilities: RawJson::from(Value::Object(params.capabilities)),
        client_info: RawJson::from(Value::Object(params.client_info)),
    })
}

// === impl Introduction ===

impl Introduction {
    /// Of a client that never said anything of itself.
    pub(crate) fn none(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            capabilities: RawJson::empty_object(),
            client_info: RawJson::empty_object(),
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// The result of `initialize`. A client of one server is introduced to that server.
    pub(crate) async fn welcome(self: &Arc<Self>, client: &Arc<Client>) -> RawJson {
        let version = &client.introduction.version;
        if let Scope::One(server) = &client.scope {
            self.first_lists(client).await;
            let shared = self.hub.catalog().server(server).cloned();
            if let Some(entry) = shared.or_else(|| client.private.catalog(server)) {
                let capabilities = entry.capabilities.parse().unwrap_or_default();
                let mut result = json!({
                    "protocolVersion": version,
                    "capabilities": announcing_changes(capabilities),
                    "serverInfo": entry.server_info.parse::<Value>().unwrap_or_else(|_| ourselves()),
                });
                if let Some(instructions) = &entry.instructions {
                    result["instructions"] = json!(instructions);
                }
                return RawJson::from(result);
            }
        }
        let mut result = json!({
            "protocolVersion": version,
            // A server that offers any of these may come at any time.
            "capabilities": {
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "listChanged": true, "subscribe": true },
                "logging": {},
                "completions": {},
            },
            "serverInfo": ourselves(),
        });
        if let Some(instructions) = self.instructions(client) {
            result["instructions"] = json!(instructions);
        }
        RawJson::from(result)
    }

    /// What the servers say on how to use them, each under its name.
    fn instructions(&self, client: &Client) -> Option<String> {
        let config = self.config();
        let catalog = self.hub.catalog();
        let all: Vec<String> = config
            .servers
            .keys()
            .filter(|name| client.may_use(name))
            .filter_map(|name| {
                let shared = catalog.server(name).cloned();
                let entry = shared.or_else(|| client.private.catalog(name))?;
                let text = entry.instructions.as_deref()?.trim();
                (!text.is_empty()).then(|| format!("# {name}\n\n{text}"))
            })
            .collect();
        (!all.is_empty()).then(|| all.join("\n\n"))
    }
}

pub(super) fn ourselves() -> Value {
    json!({ "name": "evergate", "title": "Evergate", "version": env!("CARGO_PKG_VERSION") })
}

/// Lists may change across a restart, whether the server can say so or not.
fn announcing_changes(mut capabilities: Value) -> Value {
    for list in ["tools", "prompts", "resources"] {
        if let Some(declared) = capabilities.get_mut(list).and_then(Value::as_object_mut) {
            declared.insert("listChanged".into(), json!(true));
        }
    }
    capabilities
}

/// Whether this is one of the revisions with a handshake.
pub(crate) fn is_known(version: &str) -> bool {
    VERSIONS.contains(&version)
}

/// Clients are made here and in no other place.
pub(crate) fn scope_of(server: Option<&str>) -> Scope {
    server.map_or(Scope::All, |server| Scope::One(Arc::from(server)))
}
