//! The HTTP transport of revision 2024-11-05: one SSE stream per session, and an address to post
//! messages to.

use std::pin::pin;

use http::StatusCode;
use http::request::Parts;
use tokio::sync::mpsc;

use crate::fault::{Fault, Incoming};
use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::routes::Posted;
use crate::http::streamable::{count_received, request_id, strike};
use crate::http::streamable_faults;
use crate::jsonrpc::Message;
use crate::one_stream;
use crate::server::Exchange;
use crate::session::{OUTBOX_LIMIT, Outgoing, Sink};

pub(crate) async fn open(context: &Context) -> Reply {
    let fault = context.server.strike(Incoming::Verb("GET"));
    if let Some(reply) = streamable_faults::instead(context, fault.as_ref(), None).await {
        return reply;
    }
    let (outbox, incoming) = mpsc::channel(OUTBOX_LIMIT);
    let session = context.server.open_session(context.home, Some(outbox.clone()));
    let endpoint = format!("/message?sessionId={}", session.id);
    drop(outbox.try_send(Outgoing::Endpoint(endpoint)));
    let reply = replies::events(context, incoming, true);
    let server = context.server.clone();
    context.tasks.spawn(async move {
        // On this transport the session ends with its stream, and the stream with its session.
        let gone = pin!(outbox.closed());
        let mut expired = server.changes();
        tokio::select! {
            () = gone => server.forget(|other| other.id == session.id),
            () = async {
                while !session.is_expired() {
                    drop(expired.changed().await);
                }
            } => drop(outbox.try_send(Outgoing::Cut)),
        }
    });
    reply
}

pub(crate) async fn post(context: Context, head: &Parts, posted: Posted) -> Reply {
    count_received(&context, &posted);
    let fault = posted.messages.iter().find_map(|message| strike(&context, message));
    let first_id = posted.messages.iter().find_map(request_id);
    // What would hit the answer hits the stream; the rest hits this request.
    let on_stream = matches!(
        fault.as_ref().map(|armed| &*armed.fault),
        Some(Fault::HalfClose | Fault::CutBeforeExecute)
    );
    if !on_stream
        && let Some(reply) = streamable_faults::instead(&context, fault.as_ref(), first_id).await
    {
        return reply;
    }
    let query = head.uri.query().unwrap_or_default();
    let session_id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let session = match context.server.find_session(session_id.unwrap_or_default()) {
        Ok(session) => session,
        Err(shape) => return replies::session_loss(&shape, first_id),
    };
    let Some(sink) = session.listening() else {
        return replies::empty(StatusCode::BAD_REQUEST);
    };
    for message in posted.messages {
        let (server, fault) = (context.server.clone(), fault.clone());
        match message {
            Message::Request(request) if request.method == "initialize" => {
                let (session, sink): (_, Sink) = (session.clone(), sink.clone());
                context.tasks.spawn(async move {
                    one_stream::answer_initialize(&server, &session, &sink, &request, fault).await;
                });
            }
            Message::Request(request) => {
                let exchange = Exchange::begin(&server, &session, sink.clone(), request);
                context.tasks.spawn(one_stream::answer(exchange, fault));
            }
            Message::Notification { method, params, .. } => {
                server.receive_notification(&session, &method, &params);
            }
            Message::Response(response) => server.receive_response(response),
        }
    }
    replies::text(StatusCode::ACCEPTED, "Accepted")
}
