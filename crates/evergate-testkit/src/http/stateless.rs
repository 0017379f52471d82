//! Requests of revision 2026-07-28, each for itself.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde_json::Value;

use crate::fault::{Fault, Incoming};
use crate::http::AnswerStyle;
use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::routes::header;
use crate::http::streamable::SESSION_HEADER;
use crate::http::streamable_faults;
use crate::jsonrpc::{Outcome, Request};
use crate::server::modern::MODERN;
use crate::server::{Exchange, Listen, Server};
use crate::session::{Session, Sink};
use crate::tools;

/// A client that hangs up has cancelled, and that is counted.
struct Unanswered {
    server: Server,
    id: Value,
    answered: bool,
}

pub(crate) async fn post(context: &Context, head: &Parts, request: Request) -> Reply {
    let mut reply = answer(context, head, request).await;
    if context.server.has_stray_session_ids() {
        let id = HeaderValue::from_static("nobody-should-send-this-back");
        reply.headers_mut().insert(SESSION_HEADER, id);
    }
    reply
}

async fn answer(context: &Context, head: &Parts, request: Request) -> Reply {
    let fault = context.server.strike(Incoming::Request(&request));
    if let Some(reply) =
        streamable_faults::instead(context, fault.as_ref(), Some(&request.id)).await
    {
        return reply;
    }
    if let Some(wrong) = wrong_header(head, &request) {
        return refused(&Outcome::error(-32020, &wrong), &request);
    }
    if let Some(refusal) = context.server.refuse_modern(&request) {
        return refused(&refusal, &request);
    }
    if request.method == "subscriptions/listen" {
        if let Some(Fault::DelayAnswer(delay)) = fault.as_ref().map(|armed| &*armed.fault) {
            tokio::time::sleep(*delay).await;
        }
        return listen(context, &request);
    }
    let session = Arc::new(Session::new(String::new(), context.home, None));
    session.set_protocol(MODERN);
    if let Some(armed) = fault {
        return streamable_faults::answer(context, &session, request, armed).await;
    }
    let style = context.server.state().http.style;
    if style == AnswerStyle::Sse || tools::needs_stream(&request) {
        let (stream, incoming) = session.open_stream(false);
        let reply = replies::events(context, incoming, false);
        let sink = Sink::Stream(session.clone(), stream);
        let exchange = Exchange::begin(&context.server, &session, sink, request);
        let gone = session.hung_up(stream);
        context.tasks.spawn(async move {
            let mut unanswered = Unanswered::new(&exchange);
            let answer = tokio::select! {
                answer = exchange.run() => answer,
                () = gone => return,
            };
            unanswered.answered = true;
            if let Some(answer) = answer {
                exchange.sink.answer(answer);
            }
            exchange.session.end_stream(stream);
        });
        return reply;
    }
    // In the request's own time, which ends when the client hangs up.
    let exchange = Exchange::begin(&context.server, &session, Sink::Nowhere, request);
    let mut unanswered = Unanswered::new(&exchange);
    let answer = exchange.run().await.unwrap_or_default();
    unanswered.answered = true;
    context.server.count(|tally| tally.answered += 1);
    replies::json(status_of(&answer), answer)
}

/// A stream of changes: first what it will bring, then that, for as long as somebody reads it. One that brings nothing
/// ends at once, as with the TypeScript SDK.
fn listen(context: &Context, request: &Request) -> Reply {
    let server = &context.server;
    server.forget(Session::is_over);
    let listen = Listen::new(request, &server.state());
    let session = server.open_session(context.home, None);
    let (stream, incoming) = session.open_stream(true);
    session.set_protocol(MODERN);
    let sink = Sink::Stream(session.clone(), stream);
    sink.send(listen.acknowledgement());
    if listen.honours_nothing() {
        sink.answer(listen.answer());
        session.end_stream(stream);
        return replies::events(context, incoming, false);
    }
    // Last: whoever waits for it may have news at once.
    server.update(|_| session.listen(listen));
    replies::events(context, incoming, true)
}

/// What is wrong with the headers by which others route a request.
fn wrong_header(head: &Parts, request: &Request) -> Option<String> {
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => request.params["name"].as_str(),
        "resources/read" => request.params["uri"].as_str(),
        _ => None,
    };
    let expected = [
        (
            "mcp-protocol-version",
            request.params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str(),
        ),
        ("mcp-method", Some(request.method.as_str())),
        ("mcp-name", name),
    ];
    let wrong = expected.into_iter().find(|(header_name, value)| {
        // Names that need encoding are not what this server is for.
        value.is_some_and(|value| {
            value.is_ascii() && header(&head.headers, header_name) != Some(value)
        })
    });
    wrong.map(|(name, _)| format!("{name} is missing or says something else than the request"))
}

fn refused(outcome: &Outcome, request: &Request) -> Reply {
    let answer = outcome.encode(&request.id);
    replies::json(status_of(&answer), answer)
}

fn status_of(answer: &str) -> StatusCode {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    match answer["error"]["code"].as_i64() {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

// === impl Unanswered ===

impl Unanswered {
    fn new(exchange: &Exchange) -> Self {
        let id = serde_json::from_str(&exchange.request.id).unwrap_or_default();
        Self { server: exchange.server.clone(), id, answered: false }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.answered {
            self.server.count(|tally| tally.cancelled.push(self.id.take()));
        }
    }
}
