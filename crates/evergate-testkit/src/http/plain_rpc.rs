//! Plain JSON-RPC over HTTP: one JSON body in, one JSON body out, no streams.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::routes::{Posted, accepts, header};
use crate::http::streamable::{self, SESSION_HEADER, count_received, request_id, strike};
use crate::http::streamable_faults;
use crate::jsonrpc::{Message, Request};
use crate::session::Session;

pub(crate) async fn post(context: Context, head: &Parts, posted: Posted) -> Reply {
    if accepts(&head.headers, "text/event-stream") {
        let why = "Not Acceptable: only application/json is served here";
        return replies::text(StatusCode::NOT_ACCEPTABLE, why);
    }
    count_received(&context, &posted);
    let fault = posted.messages.iter().find_map(|message| strike(&context, message));
    let first_id = posted.messages.iter().find_map(request_id);
    if let Some(reply) = streamable_faults::instead(&context, fault.as_ref(), first_id).await {
        return reply;
    }
    let wants_sessions = context.server.state().http.rpc_sessions;
    let mut answers = Vec::new();
    for message in posted.messages {
        let session = match &message {
            Message::Request(request) if request.method == "initialize" => {
                return initialize(&context, request, wants_sessions);
            }
            _ if wants_sessions => {
                let id = header(&head.headers, SESSION_HEADER).unwrap_or_default();
                match context.server.find_session(id) {
                    Ok(session) => session,
                    Err(shape) => return replies::session_loss(&shape, request_id(&message)),
                }
            }
            _ => nobody(&context),
        };
        match message {
            Message::Request(request) => match fault.clone() {
                Some(armed) if !posted.is_batch => {
                    let reply =
                        streamable_faults::answer_in_json(&context, &session, request, armed);
                    return reply.await;
                }
                _ => answers.extend(streamable::run_apart(&context, &session, request).await),
            },
            Message::Notification { method, params, .. } => {
                context.server.receive_notification(&session, &method, &params);
            }
            Message::Response(response) => context.server.receive_response(response),
        }
    }
    match (answers.pop(), posted.is_batch) {
        (None, _) => replies::empty(StatusCode::NO_CONTENT),
        (Some(answer), false) => streamable::answer_json(&context, answer),
        (Some(answer), true) => {
            answers.push(answer);
            streamable::answer_json(&context, format!("[{}]", answers.join(",")))
        }
    }
}

fn initialize(context: &Context, request: &Request, wants_sessions: bool) -> Reply {
    let session = if wants_sessions {
        context.server.open_session(context.home, None)
    } else {
        nobody(context)
    };
    let mut reply = streamable::answer_json(context, context.server.handshake(&session, request));
    if wants_sessions && let Ok(id) = HeaderValue::from_str(&session.id) {
        reply.headers_mut().insert(SESSION_HEADER, id);
    }
    reply
}

/// A session for the time of one request, which nobody can find again.
fn nobody(context: &Context) -> Arc<Session> {
    Arc::new(Session::new(String::new(), context.home, None))
}
