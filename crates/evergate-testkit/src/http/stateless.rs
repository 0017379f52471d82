//! Requests of revision 2026-07-28, each for itself.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde_json::Value;

use crate::fault::{Fault, Incoming};
use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::routes::header;
use crate::http::streamable::SESSION_HEADER;
use crate::http::{header_text, param_headers, streamable_faults};
use crate::jsonrpc::{Message, Outcome, Request};
use crate::server::modern::{Envelope, Eras, MODERN};
use crate::server::{Exchange, Listen, Server};
use crate::session::{Session, Sink};

/// A client that waits for an answer. Dropped before the end, it is counted as one that did not wait.
struct Waiting {
    server: Server,
    ended: bool,
}

// === impl Waiting ===

impl Waiting {
    fn new(context: &Context) -> Self {
        Self { server: context.server.clone(), ended: false }
    }

    fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.ended {
            self.server.count(|tally| tally.abandoned += 1);
        }
    }
}

/// Whether a request without a body means this revision.
pub(crate) fn is_meant(context: &Context, head: &Parts) -> bool {
    let eras = context.server.eras();
    eras == Eras::Modern || context.server.is_modern(&Value::Null, revision(head))
}

/// Answers a message of this revision, or refuses one that should be; `None` if it is not for here.
pub(crate) async fn post(context: &Context, head: &Parts, message: &Message) -> Option<Reply> {
    let server = &context.server;
    match message {
        Message::Request(request) if server.is_modern(&request.params, revision(head)) => {
            let mut reply = answer(context, head, request.clone()).await;
            if server.has_stray_session_ids() {
                let id = HeaderValue::from_static("nobody-should-send-this-back");
                reply.headers_mut().insert(SESSION_HEADER, id);
            }
            Some(reply)
        }
        Message::Request(request) => {
            let refused = server.refuse_legacy(request)?;
            Some(replies::json(StatusCode::BAD_REQUEST, refused.encode(&request.id)))
        }
        // Nothing can be cancelled with it: the stream of a request is what ends with it.
        Message::Notification { params, .. } => {
            let modern = server.is_modern(params, revision(head)) || server.eras() == Eras::Modern;
            modern.then(|| replies::empty(StatusCode::ACCEPTED))
        }
        Message::Response(_) => (server.eras() == Eras::Modern)
            .then(|| replies::rpc_error(StatusCode::BAD_REQUEST, -32600, "Nothing was asked")),
    }
}

fn revision(head: &Parts) -> Option<&str> {
    header(&head.headers, "mcp-protocol-version")
}

async fn answer(context: &Context, head: &Parts, request: Request) -> Reply {
    let fault = context.server.strike(Incoming::Request(&request));
    if let Some(reply) =
        streamable_faults::instead(context, fault.as_ref(), Some(&request.id)).await
    {
        return reply;
    }
    if let Some(refusal) = refusal(context, head, &request) {
        return refusal;
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
    if context.server.needs_stream(&session, &request) {
        let (stream, incoming) = session.open_stream(false);
        let reply = replies::events(context, incoming, false);
        let sink = Sink::Stream(session.clone(), stream);
        let exchange = Exchange::begin(&context.server, &session, sink, request);
        let waiting = Waiting::new(context);
        context.tasks.spawn(async move {
            tokio::select! {
                answer = exchange.run() => {
                    if let Some(answer) = answer {
                        exchange.sink.answer(answer);
                    }
                    waiting.ended();
                }
                // A client that hangs up has cancelled.
                () = exchange.session.unread(stream) => drop(waiting),
            }
            exchange.session.end_stream(stream);
        });
        return reply;
    }
    // In the request's own time, for the same reason.
    let exchange = Exchange::begin(&context.server, &session, Sink::Nowhere, request);
    let waiting = Waiting::new(context);
    let answer = exchange.run().await.unwrap_or_default();
    waiting.ended();
    context.server.count(|tally| tally.answered += 1);
    replies::json(status_of(&answer), answer)
}

/// A stream of changes: first what it will bring, then that, for as long as somebody reads it. One that brings nothing
/// ends at once, as with the TypeScript SDK.
fn listen(context: &Context, request: &Request) -> Reply {
    let server = context.server.clone();
    let listen = Listen::new(request, &server.state());
    let session = server.open_session(context.home, None);
    let (stream, incoming) = session.open_stream(true);
    session.set_protocol(MODERN);
    let sink = Sink::Stream(session.clone(), stream);
    sink.send(listen.acknowledgement());
    if listen.honours_nothing() {
        sink.answer(listen.answer());
        session.end_stream(stream);
    } else {
        // Last: whoever waits for it may have news at once.
        server.update(|_| session.listen(listen));
    }
    context.tasks.spawn(async move {
        let mut changes = server.changes();
        while session.is_listening() && changes.changed().await.is_ok() {}
        server.forget(|other| other.id == session.id);
    });
    replies::events(context, incoming, true)
}

/// Why a request is not worked on, if it is not. The first reason counts.
fn refusal(context: &Context, head: &Parts, request: &Request) -> Option<Reply> {
    let mismatch = |wrong: String| Outcome::error(-32020, &wrong);
    let refused = Server::refuse_envelope(request)
        .or_else(|| contradiction(head, request).map(mismatch))
        .or_else(|| Server::refuse_version(request))
        .or_else(|| wrong_header(context, head, request).map(mismatch));
    if let Some(refused) = refused {
        return Some(replies::json(StatusCode::BAD_REQUEST, refused.encode(&request.id)));
    }
    let refused = context.server.refuse_method(request)?.encode(&request.id);
    Some(replies::json(status_of(&refused), refused))
}

/// A header that says something else than the request, where both speak.
fn contradiction(head: &Parts, request: &Request) -> Option<String> {
    let expected = [
        ("mcp-protocol-version", Envelope::of(&request.params).version()),
        ("mcp-method", request.method.as_str()),
    ];
    let wrong = expected.into_iter().find(|(name, value)| {
        head.headers.contains_key(*name)
            && header_text::text(&head.headers, name).as_deref() != Some(value)
    });
    wrong.map(|(name, _)| format!("{name} says something else than the request"))
}

/// What is wrong with the headers by which others route a request.
fn wrong_header(context: &Context, head: &Parts, request: &Request) -> Option<String> {
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => request.params["name"].as_str(),
        "resources/read" => request.params["uri"].as_str(),
        _ => None,
    };
    let expected = [
        ("mcp-protocol-version", Some(Envelope::of(&request.params).version())),
        ("mcp-method", Some(request.method.as_str())),
        ("mcp-name", name),
    ];
    let wrong = expected.into_iter().find(|(name, value)| {
        value.is_some() && header_text::text(&head.headers, name).as_deref() != *value
    });
    if let Some((name, _)) = wrong {
        return Some(format!("{name} is missing or says something else than the request"));
    }
    let tool = request.tool()?;
    let state = context.server.state();
    let tool = state.catalog.tools.iter().find(|listed| listed["name"] == tool)?;
    let arguments = &request.params["arguments"];
    let wrong = param_headers::wrong(&head.headers, &tool["inputSchema"], arguments)?;
    Some(format!("{wrong} does not say what the arguments say"))
}

fn status_of(answer: &str) -> StatusCode {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    match answer["error"]["code"].as_i64() {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
