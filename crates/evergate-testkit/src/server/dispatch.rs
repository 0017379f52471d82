//! Doing what a message asks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::conformance;
use crate::fault::Fault;
use crate::http::AnswerStyle;
use crate::jsonrpc::{Outcome, Request};
use crate::server::Server;
use crate::server::modern::{self, MODERN};
use crate::session::{InFlight, Session, Sink};
use crate::tools;

/// One request from its arrival to its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) server: Server,
    pub(crate) session: Arc<Session>,
    pub(crate) sink: Sink,
    pub(crate) request: Request,
    in_flight: InFlight,
}

// === impl Exchange ===

impl Exchange {
    pub(crate) fn begin(
        server: &Server,
        session: &Arc<Session>,
        sink: Sink,
        request: Request,
    ) -> Self {
        let in_flight = session.begin(&request.id);
        Self { server: server.clone(), session: session.clone(), sink, request, in_flight }
    }

    /// Executes the request. `None` if the client cancelled it, which gets no answer.
    pub(crate) async fn run(&self) -> Option<String> {
        self.in_flight.cancelled.run_until_cancelled(self.run_uncancelled()).await
    }

    /// The answer, as late as the fault wants it.
    pub(crate) async fn run_under(&self, fault: Option<&Fault>) -> Option<String> {
        match fault {
            Some(Fault::DelayAnswer(delay)) => self.run_then_wait(*delay).await,
            Some(Fault::LateAnswer(delay)) => Some(self.run_past_cancellation(*delay).await),
            _ => self.run().await,
        }
    }

    /// Executes the request and keeps the answer for a while. A cancellation still counts.
    async fn run_then_wait(&self, delay: Duration) -> Option<String> {
        let running = async {
            let answer = self.run_uncancelled().await;
            tokio::time::sleep(delay).await;
            answer
        };
        self.in_flight.cancelled.run_until_cancelled(running).await
    }

    /// Executes the request, waits for its cancellation and a while longer, and then has an
    /// answer that nobody wants.
    async fn run_past_cancellation(&self, delay: Duration) -> String {
        let answer = self.run_uncancelled().await;
        self.in_flight.cancelled.cancelled().await;
        tokio::time::sleep(delay).await;
        answer
    }

    /// Executes the request as if nobody could cancel it.
    async fn run_uncancelled(&self) -> String {
        let mut outcome = self.server.execute(&self.session, &self.sink, &self.request).await;
        if self.session.protocol() == MODERN {
            outcome = modern::complete(outcome, &self.request);
        }
        outcome.encode(&self.request.id)
    }
}

// === impl Server ===

impl Server {
    /// Answers `initialize` and settles the session's revision.
    pub(crate) fn handshake(&self, session: &Session, request: &Request) -> String {
        let asked = request.params["protocolVersion"].as_str().unwrap_or_default();
        let (agreed, result) = self.state().handshake(asked);
        session.set_protocol(&agreed);
        session.set_client_capabilities(request.params["capabilities"].clone());
        self.count(|tally| tally.handshakes += 1);
        Outcome::ok(&result).encode(&request.id)
    }

    pub(crate) fn receive_notification(&self, session: &Session, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => self.count(|tally| tally.initialized += 1),
            "notifications/cancelled" => {
                let id = params["requestId"].clone();
                session.cancel(&id.to_string());
                session.unlisten(&id.to_string());
                self.count(|tally| tally.cancelled.push(id));
            }
            _ => {}
        }
    }

    async fn execute(&self, session: &Session, sink: &Sink, request: &Request) -> Outcome {
        let params = &request.params;
        let fixtures = self.state().catalog.fixtures;
        if fixtures && let Some(outcome) = conformance::execute(self, session, sink, request).await
        {
            return outcome;
        }
        match request.method.as_str() {
            "server/discover" if session.protocol() == MODERN => {
                Outcome::ok(&self.state().discover())
            }
            "ping" => Outcome::ok(&json!({})),
            "tools/list" => self.state().catalog.list("tools", params),
            "prompts/list" => self.state().catalog.list("prompts", params),
            "resources/list" => self.state().catalog.list("resources", params),
            "resources/templates/list" => self.state().catalog.list("resourceTemplates", params),
            "tools/call" => self.call_tool(session, sink, params).await,
            "prompts/get" => self.state().catalog.get_prompt(params),
            "resources/read" => self.state().catalog.read_resource(text(params, "uri")),
            "resources/subscribe" => {
                self.update(|_| session.subscribe(text(params, "uri")));
                Outcome::ok(&json!({}))
            }
            "resources/unsubscribe" => {
                self.update(|_| session.unsubscribe(text(params, "uri")));
                Outcome::ok(&json!({}))
            }
            "completion/complete" => {
                let typed = text(&params["argument"], "value");
                let values: Vec<_> =
                    ["alice", "bob"].into_iter().filter(|value| value.starts_with(typed)).collect();
                let total = values.len();
                Outcome::ok(&json!({
                    "completion": { "values": values, "total": total, "hasMore": false },
                }))
            }
            "logging/setLevel" => {
                self.count(|tally| tally.log_level = Some(text(params, "level").into()));
                Outcome::ok(&json!({}))
            }
            method => Outcome::error(-32601, &format!("Method not found: {method}")),
        }
    }

    async fn call_tool(&self, session: &Session, sink: &Sink, params: &Value) -> Outcome {
        let name = text(params, "name");
        let (handler, built_in, advertised) = {
            let state = self.state();
            let catalog = &state.catalog;
            let built_in = tools::is_built_in(name) && !catalog.removed.contains(name);
            (catalog.handlers.get(name).cloned(), built_in, catalog.advertises_tool(name))
        };
        if handler.is_none() && !built_in && !advertised {
            return Outcome::error(-32602, &format!("Unknown tool: {name}"));
        }
        self.count_call(name, params["arguments"]["call_id"].as_str());
        match handler {
            Some(handler) => Outcome::ok(&handler(params["arguments"].clone())),
            None if built_in => tools::run(self, session, sink, name, params).await,
            None => Outcome::text(name),
        }
    }

    /// Whether something may come before the answer, so that HTTP must answer with a stream.
    pub(crate) fn needs_stream(&self, session: &Session, request: &Request) -> bool {
        let state = self.state();
        if state.http.style == AnswerStyle::Sse {
            return true;
        }
        if state.catalog.fixtures {
            return conformance::needs_stream(request, session.protocol() == MODERN);
        }
        tools::needs_stream(request)
    }

    pub(crate) fn count_call(&self, tool: &str, call_id: Option<&str>) {
        let hook = self.state().on_call.clone();
        if let Some(hook) = hook {
            hook(tool, call_id);
        }
        self.count(|tally| {
            tally.calls += 1;
            if let Some(call_id) = call_id {
                *tally.executions.entry(call_id.into()).or_default() += 1;
            }
        });
    }
}

fn text<'a>(params: &'a Value, key: &str) -> &'a str {
    params.get(key).and_then(Value::as_str).unwrap_or_default()
}
