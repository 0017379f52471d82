//! Requests of revision 2026-07-28, each for itself.

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use serde_json::Value;

use crate::fault::Incoming;
use crate::http::AnswerStyle;
use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::routes::header;
use crate::http::streamable_faults;
use crate::jsonrpc::{Outcome, Request};
use crate::server::modern::{self, MODERN};
use crate::server::{Exchange, Server};
use crate::session::{Session, Sink};
use crate::tools;

pub(crate) async fn post(context: &Context, head: &Parts, request: Request) -> Reply {
    let fault = context.server.strike(Incoming::Request(&request));
    if let Some(reply) =
        streamable_faults::instead(context, fault.as_ref(), Some(&request.id)).await
    {
        return reply;
    }
    if let Some(wrong) = wrong_header(head, &request) {
        return refused(&Outcome::error(-32020, &wrong), &request);
    }
    if let Some(refusal) = Server::refuse_modern(&request) {
        return refused(&refusal, &request);
    }
    if request.method == "subscriptions/listen" {
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
        context.tasks.spawn(async move {
            if let Some(answer) = exchange.run().await {
                exchange.sink.answer(answer);
            }
            exchange.session.end_stream(stream);
        });
        return reply;
    }
    // In the request's own time: a client that hangs up has cancelled.
    let exchange = Exchange::begin(&context.server, &session, Sink::Nowhere, request);
    let answer = exchange.run().await.unwrap_or_default();
    context.server.count(|tally| tally.answered += 1);
    replies::json(status_of(&answer), answer)
}

/// A stream of changes: first what it will bring, then that, for as long as somebody reads it.
fn listen(context: &Context, request: &Request) -> Reply {
    let session = context.server.open_session(context.home, None);
    session.set_protocol(MODERN);
    session.listen(&request.id);
    let (stream, incoming) = session.open_stream(true);
    Sink::Stream(session.clone(), stream).send(modern::acknowledgement(request));
    // Last: whoever waits for them may have news at once.
    for uri in modern::wanted_resources(request) {
        context.server.update(|_| session.subscribe(&uri));
    }
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
        Some(-32020 | -32021 | -32022) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
