//! Changing what the server offers.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::http::AnswerStyle;
use crate::server::{Server, State};
use crate::tools;

/// Every revision with a handshake.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

impl Server {
    /// Adds a tool of the test's own: `handler` gets the arguments and returns the whole result
    /// object. `annotations` may be `null`. A tool of that name is replaced.
    pub fn tool(
        &self,
        name: impl Into<String>,
        annotations: Value,
        handler: impl Fn(Value) -> Value + Send + Sync + 'static,
    ) {
        let name = name.into();
        let described = tools::describe(&name, annotations);
        let catalog = &mut self.state().catalog;
        catalog.tools.retain(|tool| tool["name"] != name.as_str());
        catalog.tools.push(described);
        catalog.removed.remove(&name);
        catalog.handlers.insert(name, Arc::new(handler));
    }

    /// Replaces the advertised tools by these tool objects. Built-in tools stay callable. A tool
    /// that is neither built in nor added with [`Server::tool`] answers with its own name.
    pub fn set_tools(&self, tools: Vec<Value>) {
        self.state().catalog.tools = tools;
    }

    /// Advertises these tool objects too.
    pub fn add_tools(&self, tools: impl IntoIterator<Item = Value>) {
        self.state().catalog.tools.extend(tools);
    }

    /// Takes a tool away: it is no longer listed, and calls of it are calls of an unknown tool.
    pub fn remove_tool(&self, name: &str) {
        let catalog = &mut self.state().catalog;
        catalog.tools.retain(|tool| tool["name"] != name);
        catalog.handlers.remove(name);
        catalog.removed.insert(name.into());
    }

    /// Replaces the advertised prompts.
    pub fn set_prompts(&self, prompts: Vec<Value>) {
        self.state().catalog.prompts = prompts;
    }

    /// Replaces the advertised resources.
    pub fn set_resources(&self, resources: Vec<Value>) {
        self.state().catalog.resources = resources;
    }

    /// Answers every list in pages of this size.
    pub fn set_page_size(&self, size: usize) {
        self.state().catalog.page_size = Some(size);
    }

    /// The newest revision that the server negotiates.
    pub fn set_protocol(&self, newest: &str) {
        newest.clone_into(&mut self.state().newest_protocol);
    }

    /// What `initialize` answers as capabilities, instead of everything.
    pub fn set_capabilities(&self, capabilities: Value) {
        self.state().capabilities = Some(capabilities);
    }

    /// What `initialize` answers as instructions.
    pub fn set_instructions(&self, instructions: &str) {
        self.state().instructions = Some(instructions.into());
    }

    /// How streamable HTTP answers requests, on every HTTP face of this server.
    pub fn set_answer_style(&self, style: AnswerStyle) {
        self.state().http.style = style;
    }

    /// Whether streamable HTTP offers a listening stream; if not, `GET` answers 405.
    pub fn set_listening_stream(&self, enabled: bool) {
        self.state().http.listening = enabled;
    }

    /// Demands this token on every HTTP face: a request without it gets 401, counts in
    /// [`Counters::unauthorized`](crate::Counters::unauthorized) and does nothing else. `None`, as
    /// at the beginning, lets everybody in.
    pub fn set_bearer_token(&self, token: Option<&str>) {
        self.state().http.bearer_token = token.map(Into::into);
    }

    /// Whether plain JSON-RPC over HTTP hands out and demands session ids.
    pub fn set_rpc_sessions(&self, enabled: bool) {
        self.state().http.rpc_sessions = enabled;
    }
}

impl State {
    /// The revision for a client that asks for `asked`, and the result of its `initialize`.
    pub(super) fn handshake(&self, asked: &str) -> (String, Value) {
        let newest = self.newest_protocol.as_str();
        // Revisions are dates, so that text order is time order.
        let known = REVISIONS.contains(&asked) && asked <= newest;
        let agreed = if known { asked } else { newest };
        let capabilities = self.capabilities.clone().unwrap_or_else(|| {
            json!({
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "listChanged": true, "subscribe": true },
                "logging": {},
                "completions": {},
            })
        });
        let mut result = json!({
            "protocolVersion": agreed,
            "capabilities": capabilities,
            "serverInfo": { "name": "evergate-testkit", "version": env!("CARGO_PKG_VERSION") },
        });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = json!(instructions);
        }
        (agreed.into(), result)
    }

    pub(crate) fn knows_revision(&self, revision: &str) -> bool {
        REVISIONS.contains(&revision) || revision == self.newest_protocol
    }
}
