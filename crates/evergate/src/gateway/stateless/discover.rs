//! What there is, for clients that have not met anybody (2026-07-28: `server/discover`).

use std::sync::Arc;

use evergate_runtime::RawJson;
use serde_json::{Value, json};

use super::{CacheHint, REMOVED, SERVER_INFO, VERSION, complete};
use crate::gateway::client::{Client, Scope};
use crate::gateway::error_body::{self, plain};
use crate::gateway::{Answer, Gateway};

/// The extension by which a server may answer later, and be asked how far it is.
pub(in crate::gateway) const TASKS: &str = "io.modelcontextprotocol/tasks";

// === impl Gateway ===

impl Gateway {
    pub(in crate::gateway) async fn discover(self: &Arc<Self>, client: &Arc<Client>) -> RawJson {
        let welcome: Value = self.welcome(client).await.parse().unwrap_or_default();
        let mut result = json!({
            "supportedVersions": [VERSION],
            "capabilities": self.stateless_capabilities(client, &welcome["capabilities"]),
            "_meta": { SERVER_INFO: welcome["serverInfo"] },
        });
        if let Some(instructions) = welcome.get("instructions") {
            result["instructions"] = instructions.clone();
        }
        complete(RawJson::from(result), Some(CacheHint::default()))
    }

    /// Why a method cannot be used by a client without a session, if it cannot.
    pub(in crate::gateway) async fn not_offered(
        self: &Arc<Self>,
        client: &Arc<Client>,
        method: &str,
    ) -> Option<Answer> {
        let unknown = || {
            let message = format!("{method} is not known here");
            Some(Answer::Error(plain(error_body::METHOD_NOT_FOUND, message)))
        };
        if REMOVED.contains(&method) {
            return unknown();
        }
        // Of all servers together one that offers this may come at any time.
        let Scope::One(server) = &client.scope else { return None };
        let needed = match method.split('/').next() {
            Some(list @ ("tools" | "prompts" | "resources")) => list,
            Some("completion") => "completions",
            _ => return None,
        };
        self.first_lists(client).await;
        // Of one that was never there nothing is known.
        let offers = self.declares(client, server, needed).unwrap_or(true);
        if offers { None } else { unknown() }
    }

    /// Those of a handshake, in the words of this revision.
    fn stateless_capabilities(&self, client: &Client, declared: &Value) -> Value {
        let mut capabilities = declared.clone();
        if let Some(fields) = capabilities.as_object_mut() {
            // The tasks of earlier revisions are others.
            fields.remove("tasks");
        }
        let with_extensions = self.servers_with(client, "extensions");
        let catalog = self.hub.catalog();
        let has_tasks = with_extensions.iter().any(|server| {
            let entry = catalog.server(server);
            let capabilities = entry.and_then(|entry| entry.capabilities.parse::<Value>().ok());
            capabilities.is_some_and(|declared| declared["extensions"].get(TASKS).is_some())
        });
        if has_tasks {
            capabilities["extensions"][TASKS] = json!({});
        }
        capabilities
    }
}
