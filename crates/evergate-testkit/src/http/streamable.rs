//! Streamable HTTP (revisions 2025-03-26 to 2025-11-25).

use std::future::pending;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use tokio::sync::oneshot;

use crate::fault::{ArmedFault, Fault, Incoming};
use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::routes::{Posted, accepts, header};
use crate::http::{stateless, streamable_faults};
use crate::jsonrpc::{Message, Request};
use crate::server::Exchange;
use crate::session::{Session, Sink, StreamId};

pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// Since this revision an SSE answer begins with an event that only carries an id.
const PRIMING_SINCE: &str = "2025-11-25";

pub(crate) async fn post(context: Context, head: &Parts, posted: Posted) -> Reply {
    if !accepts(&head.headers, "application/json") || !accepts(&head.headers, "text/event-stream") {
        let why = "Not Acceptable: Client must accept both application/json and text/event-stream";
        return replies::rpc_error(StatusCode::NOT_ACCEPTABLE, -32000, why);
    }
    count_received(&context, &posted);
    let Posted { mut messages, is_batch } = posted;
    if let [message] = &messages[..]
        && let Some(reply) = stateless::post(&context, head, message).await
    {
        return reply;
    }
    if let [Message::Request(request)] = &messages[..]
        && request.method == "initialize"
    {
        return initialize(&context, request).await;
    }
    let fault = messages.iter().find_map(|message| strike(&context, message));
    // A fault that stands for the whole HTTP exchange comes before any check of it.
    let first_id = messages.iter().find_map(request_id);
    if let Some(reply) = streamable_faults::instead(&context, fault.as_ref(), first_id).await {
        return reply;
    }
    let session = match session_of(&context, head, first_id) {
        Ok(session) => session,
        Err(reply) => return *reply,
    };
    if is_batch {
        return post_batch(&context, &session, messages).await;
    }
    match messages.pop() {
        Some(Message::Request(request)) => answer_request(&context, &session, request, fault).await,
        Some(message) => {
            take_silently(&context, &session, message);
            streamable_faults::accept(&context, fault.as_ref()).await
        }
        None => replies::empty(StatusCode::BAD_REQUEST),
    }
}

/// The listening stream, or the resumption of any stream.
pub(crate) async fn get(context: Context, head: &Parts) -> Reply {
    if stateless::is_meant(&context, head) {
        return replies::not_allowed("POST");
    }
    let fault = context.server.strike(Incoming::Verb("GET"));
    if let Some(reply) = streamable_faults::instead(&context, fault.as_ref(), None).await {
        return reply;
    }
    if !context.server.state().http.listening {
        return replies::not_allowed("POST, DELETE");
    }
    if !accepts(&head.headers, "text/event-stream") {
        let why = "Not Acceptable: Client must accept text/event-stream";
        return replies::rpc_error(StatusCode::NOT_ACCEPTABLE, -32000, why);
    }
    let session = match session_of(&context, head, None) {
        Ok(session) => session,
        Err(reply) => return *reply,
    };
    let Some(last_event_id) = header(&head.headers, "last-event-id") else {
        if let Some(armed) = fault {
            return streamable_faults::listen(&context, &session, &armed.fault).await;
        }
        let (_, incoming) = session.open_stream(true);
        return replies::events(&context, incoming, true);
    };
    match session.resume_stream(last_event_id) {
        Some(incoming) => replies::events(&context, incoming, true),
        None => replies::rpc_error(StatusCode::NOT_FOUND, -32000, "Unknown event id"),
    }
}

pub(crate) async fn delete(context: Context, head: &Parts) -> Reply {
    if stateless::is_meant(&context, head) {
        return replies::not_allowed("POST");
    }
    let fault = context.server.strike(Incoming::Verb("DELETE"));
    if matches!(fault.as_ref().map(|armed| &*armed.fault), Some(Fault::HangInDelete)) {
        return pending().await;
    }
    if let Some(reply) = streamable_faults::instead(&context, fault.as_ref(), None).await {
        return reply;
    }
    let session = match session_of(&context, head, None) {
        Ok(session) => session,
        Err(reply) => return *reply,
    };
    context.server.forget(|other| other.id == session.id);
    context.server.count(|tally| tally.sessions_deleted += 1);
    replies::empty(StatusCode::OK)
}

async fn initialize(context: &Context, request: &Request) -> Reply {
    let fault = context.server.strike(Incoming::Request(request));
    if let Some(reply) =
        streamable_faults::instead(context, fault.as_ref(), Some(&request.id)).await
    {
        return reply;
    }
    let session = context.server.open_session(context.home, None);
    let answer = context.server.handshake(&session, request);
    let mut reply =
        streamable_faults::answer_initialize(context, &session, request, fault, answer).await;
    if let Ok(id) = HeaderValue::from_str(&session.id) {
        reply.headers_mut().insert(SESSION_HEADER, id);
    }
    reply
}

async fn answer_request(
    context: &Context,
    session: &Arc<Session>,
    request: Request,
    fault: Option<ArmedFault>,
) -> Reply {
    if let Some(armed) = fault {
        return streamable_faults::answer(context, session, request, armed).await;
    }
    if context.server.needs_stream(session, &request) {
        let (stream, reply) = open_answer(context, session);
        let sink = Sink::Stream(session.clone(), stream);
        let exchange = Exchange::begin(&context.server, session, sink, request);
        context.tasks.spawn(async move {
            if let Some(answer) = exchange.run().await {
                exchange.sink.answer(answer);
            }
            exchange.session.end_stream(stream);
        });
        return reply;
    }
    match run_apart(context, session, request).await {
        Some(answer) => answer_json(context, answer),
        // Cancelled: the specification wants no answer, HTTP wants a response.
        None => replies::empty(StatusCode::ACCEPTED),
    }
}

/// Opens an SSE answer with all that the session's revision puts before the messages.
pub(crate) fn open_answer(context: &Context, session: &Session) -> (StreamId, Reply) {
    let (stream, incoming) = session.open_stream(false);
    if session.protocol().as_str() >= PRIMING_SINCE {
        session.prime(stream, context.server.state().http.retry_ms);
    }
    (stream, replies::events(context, incoming, false))
}

/// Executes a request in a task of its own: a client that goes away does not cancel it.
pub(crate) async fn run_apart(
    context: &Context,
    session: &Arc<Session>,
    request: Request,
) -> Option<String> {
    let (done, answer) = oneshot::channel();
    let exchange = Exchange::begin(&context.server, session, Sink::Nowhere, request);
    context.tasks.spawn(async move { drop(done.send(exchange.run().await)) });
    match answer.await {
        Ok(answer) => answer,
        // The server died. A dead server sends no response, not even an empty one.
        Err(_) => pending().await,
    }
}

pub(crate) fn answer_json(context: &Context, answer: String) -> Reply {
    context.server.count(|tally| tally.answered += 1);
    replies::json(StatusCode::OK, answer)
}

/// Only revision 2025-03-26 has batches.
async fn post_batch(context: &Context, session: &Arc<Session>, messages: Vec<Message>) -> Reply {
    if session.protocol() != "2025-03-26" {
        return replies::rpc_error(StatusCode::BAD_REQUEST, -32600, "Batches are not supported");
    }
    let mut answers = Vec::new();
    for message in messages {
        match message {
            Message::Request(request) => {
                answers.extend(run_apart(context, session, request).await);
            }
            message => take_silently(context, session, message),
        }
    }
    if answers.is_empty() {
        return replies::empty(StatusCode::ACCEPTED);
    }
    answer_json(context, format!("[{}]", answers.join(",")))
}

/// The session that a request names, or what to answer instead.
fn session_of(
    context: &Context,
    head: &Parts,
    id: Option<&str>,
) -> Result<Arc<Session>, Box<Reply>> {
    if let Some(revision) = header(&head.headers, "mcp-protocol-version")
        && !context.server.state().knows_revision(revision)
    {
        let why = format!("Bad Request: Unsupported protocol version: {revision}");
        return Err(Box::new(replies::rpc_error(StatusCode::BAD_REQUEST, -32000, &why)));
    }
    let Some(session_id) = header(&head.headers, SESSION_HEADER) else {
        let why = "Bad Request: Mcp-Session-Id header is required";
        return Err(Box::new(replies::rpc_error(StatusCode::BAD_REQUEST, -32000, why)));
    };
    let found = context.server.find_session(session_id);
    found.map_err(|shape| Box::new(replies::session_loss(&shape, id)))
}

fn take_silently(context: &Context, session: &Session, message: Message) {
    match message {
        Message::Notification { method, params, .. } => {
            context.server.receive_notification(session, &method, &params);
        }
        Message::Response(response) => context.server.receive_response(response),
        Message::Request(_) => {}
    }
}

pub(crate) fn count_received(context: &Context, posted: &Posted) {
    for message in &posted.messages {
        match message {
            Message::Request(Request { method, raw_params, .. })
            | Message::Notification { method, raw_params, .. } => {
                context.server.count_received(method, raw_params);
            }
            Message::Response(_) => {}
        }
    }
}

pub(crate) fn strike(context: &Context, message: &Message) -> Option<ArmedFault> {
    match message {
        Message::Request(request) => context.server.strike(Incoming::Request(request)),
        Message::Notification { method, .. } => {
            context.server.strike(Incoming::Notification(method))
        }
        Message::Response(_) => None,
    }
}

pub(crate) fn request_id(message: &Message) -> Option<&str> {
    match message {
        Message::Request(request) => Some(&request.id),
        _ => None,
    }
}
