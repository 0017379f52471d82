//! Everything that the official conformance suite expects a server to offer, by name, in both eras.
//!
//! The suite's own reference server is not part of its npm package. This one offers the same, after the requirements
//! that every scenario states. What a fixture asks its client for is written once ([`asking`]): in revision 2026-07-28
//! it becomes an `input_required` result and rounds, before that real requests to the client.

use serde_json::{Value, json};

use crate::jsonrpc::{Outcome, Request};
use crate::server::modern::{Envelope, MODERN};
use crate::server::{ListKind, Server};
use crate::session::{Session, Sink};

mod asking;
mod contents;
mod elicitations;
mod offer;
mod prompts;
mod resources;
mod sealed_state;
mod telling;
mod tools;

use asking::Asking;
pub(crate) use telling::{is_as_severe, is_level};

/// How long a client that polls a stream waits before it comes back.
const RETRY_MS: u64 = 500;

// === impl Server ===

impl Server {
    /// A server with the fixtures of the official conformance suite instead of the built-in tools.
    ///
    /// Over HTTP it serves local clients only: requests whose `Host` or `Origin` is another machine get 403.
    pub fn conformance() -> Self {
        let server = Self::new();
        server.update(|state| {
            state.catalog = offer::catalog();
            state.http.local_only = true;
            state.http.retry_ms = Some(RETRY_MS);
        });
        server
    }

    fn toggle(&self, kind: ListKind, item: Value) {
        self.update(|state| {
            let list = match kind {
                ListKind::Tools => &mut state.catalog.tools,
                ListKind::Prompts => &mut state.catalog.prompts,
                ListKind::Resources => &mut state.catalog.resources,
            };
            let before = list.len();
            list.retain(|other| other["name"] != item["name"]);
            if list.len() == before {
                list.push(item);
            }
        });
        self.notify_list_changed(kind);
    }
}

/// Answers what the fixtures answer; `None` for what every server does alike.
pub(crate) async fn execute(
    server: &Server,
    session: &Session,
    sink: &Sink,
    request: &Request,
) -> Option<Outcome> {
    let params = &request.params;
    let name = params["name"].as_str().unwrap_or_default();
    let outcome = match request.method.as_str() {
        "tools/call" => {
            let known = server.state().catalog.advertises_tool(name);
            if !known {
                return Some(Outcome::error(-32602, &format!("Unknown tool: {name}")));
            }
            let call = tools::Call { server, session, sink, name, params };
            call.run(Asking::begin(server, session, sink, request)).await
        }
        "prompts/get" => {
            prompts::get(name, params, Asking::begin(server, session, sink, request)).await
        }
        "resources/read" => {
            let uri = params["uri"].as_str().unwrap_or_default();
            Ok(resources::read(uri, session.protocol() == MODERN))
        }
        _ => return None,
    };
    Some(outcome.unwrap_or_else(|refusal| refusal))
}

/// Whether anything may come before the answer, so that HTTP must answer with a stream.
pub(crate) fn needs_stream(request: &Request, modern: bool) -> bool {
    let name = request.params["name"].as_str().unwrap_or_default();
    if !modern {
        // Nearly all of them talk while they run.
        return request.tool().is_some() || request.method == "prompts/get";
    }
    match name {
        "test_tool_with_progress" => !request.params["_meta"]["progressToken"].is_null(),
        "test_tool_with_logging" | "test_logging_tool" => {
            Envelope::of(&request.params).log_level().is_some()
        }
        "test_streaming_elicitation" => true,
        _ => false,
    }
}

/// A tool or a prompt that is there every other time.
fn now_and_then(name: &str) -> Value {
    json!({ "name": name, "description": "There every other time" })
}
