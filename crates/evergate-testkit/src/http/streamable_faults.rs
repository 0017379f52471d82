//! How each fault looks on HTTP.

use std::future::pending;
use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use tokio::sync::mpsc;

use crate::fault::{ArmedFault, Fault, pieces};
use crate::http::AnswerStyle;
use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::streamable::{answer_json, open_answer};
use crate::jsonrpc::{Request, unbound_error};
use crate::server::Exchange;
use crate::session::{Outgoing, Session, Sink, StreamId};

/// Faults that replace the whole exchange: nothing is executed.
pub(crate) async fn instead(
    context: &Context,
    fault: Option<&ArmedFault>,
    id: Option<&str>,
) -> Option<Reply> {
    match &*fault?.fault {
        Fault::SessionLoss(shape) => Some(replies::session_loss(shape, id)),
        Fault::Status(status, body) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::IM_A_TEAPOT);
            let is_json = body.starts_with(['{', '[']);
            let reply = if is_json { replies::json } else { replies::text };
            Some(reply(status, body.clone()))
        }
        Fault::RateLimited { retry_after } => {
            let mut reply = replies::text(StatusCode::TOO_MANY_REQUESTS, "slow down");
            if let Some(seconds) = retry_after {
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*seconds));
            }
            Some(reply)
        }
        Fault::IdLess400 => {
            let body = unbound_error(-32000, "Bad Request", false);
            Some(replies::json(StatusCode::BAD_REQUEST, body))
        }
        Fault::HangBeforeHeaders => pending().await,
        Fault::CutBeforeExecute => {
            context.control.cut();
            pending().await
        }
        Fault::HalfClose => {
            context.control.half_close();
            pending().await
        }
        _ => None,
    }
}

/// Executes a request and answers it as the fault wants.
pub(crate) async fn answer(
    context: &Context,
    session: &Arc<Session>,
    request: Request,
    armed: ArmedFault,
) -> Reply {
    let wants_stream = context.server.needs_stream(session, &request);
    match &*armed.fault {
        Fault::HangMidStream | Fault::CutMidStream { .. } | Fault::SseRetry(_) => {
            broken_stream(context, session, request, &armed)
        }
        // Two answers do not fit into one JSON body.
        Fault::DuplicateAnswer => answer_on_stream(context, session, request, armed),
        Fault::CloseAfterBytes(bytes) if wants_stream => {
            context.control.close_after(*bytes);
            answer_on_stream(context, session, request, armed)
        }
        Fault::ExecuteThenCut => answer_in_json(context, session, request, armed).await,
        _ if wants_stream => answer_on_stream(context, session, request, armed),
        _ => answer_in_json(context, session, request, armed).await,
    }
}

/// Answers `initialize` as the fault wants; the session exists already.
pub(crate) async fn answer_initialize(
    context: &Context,
    session: &Arc<Session>,
    request: &Request,
    fault: Option<ArmedFault>,
    answer: String,
) -> Reply {
    let fault = fault.as_ref().map(|armed| &*armed.fault);
    match fault {
        Some(Fault::ExecuteThenCut | Fault::CutMidStream { .. }) => {
            context.control.cut();
            return pending().await;
        }
        Some(Fault::HangMidStream) => return pending().await,
        Some(Fault::CloseAfterBytes(bytes)) => context.control.close_after(*bytes),
        Some(Fault::DelayAnswer(delay)) => tokio::time::sleep(*delay).await,
        _ => {}
    }
    let pieces = pieces(fault, request, answer);
    if context.server.state().http.style == AnswerStyle::Json {
        return first_as_json(context, pieces);
    }
    let (stream, reply) = open_answer(context, session);
    Sink::Stream(session.clone(), stream).answer_in_pieces(pieces);
    session.end_stream(stream);
    reply
}

/// Opens a listening stream as the fault wants.
pub(crate) async fn listen(context: &Context, session: &Arc<Session>, fault: &Fault) -> Reply {
    let (stream, incoming) = session.open_stream(true);
    match fault {
        Fault::ExecuteThenCut => {
            context.control.cut();
            return pending().await;
        }
        Fault::CutMidStream { event_id } => {
            if *event_id {
                session.prime(stream, None);
            }
            session.act(stream, Outgoing::Comment);
            session.act(stream, Outgoing::Cut);
        }
        Fault::SseRetry(ms) => {
            session.prime(stream, Some(*ms));
            session.detach(stream);
        }
        Fault::HangMidStream => {
            // What the server says goes nowhere, and neither side can tell.
            let (silent, nothing) = mpsc::channel(1);
            drop(silent.try_send(Outgoing::Comment));
            context.tasks.spawn(async move {
                let _kept = incoming;
                silent.closed().await;
            });
            return replies::events(context, nothing, true);
        }
        Fault::CloseAfterBytes(bytes) => context.control.close_after(*bytes),
        Fault::DelayAnswer(delay) => tokio::time::sleep(*delay).await,
        _ => {}
    }
    replies::events(context, incoming, true)
}

/// Takes a notification or a response as the fault wants; it was understood already.
pub(crate) async fn accept(context: &Context, fault: Option<&ArmedFault>) -> Reply {
    match fault.map(|armed| &*armed.fault) {
        Some(Fault::ExecuteThenCut | Fault::CutMidStream { .. }) => {
            context.control.cut();
            return pending().await;
        }
        Some(Fault::HangMidStream) => return pending().await,
        Some(Fault::CloseAfterBytes(bytes)) => context.control.close_after(*bytes),
        Some(Fault::DelayAnswer(delay)) => tokio::time::sleep(*delay).await,
        _ => {}
    }
    replies::empty(StatusCode::ACCEPTED)
}

/// A stream that begins and does not end as it should.
fn broken_stream(
    context: &Context,
    session: &Arc<Session>,
    request: Request,
    armed: &ArmedFault,
) -> Reply {
    let (stream, incoming) = session.open_stream(false);
    match *armed.fault {
        Fault::CutMidStream { event_id: true } => session.prime(stream, None),
        Fault::SseRetry(ms) => session.prime(stream, Some(ms)),
        _ => session.act(stream, Outgoing::Comment),
    }
    let resumable = match *armed.fault {
        Fault::HangMidStream | Fault::CutMidStream { event_id: false } => false,
        _ => !armed.no_resume,
    };
    if !resumable {
        session.forbid_resume(stream);
    }
    let sink = Sink::Stream(session.clone(), stream);
    let exchange = Exchange::begin(&context.server, session, sink, request);
    let fault = armed.fault.clone();
    context.tasks.spawn(async move {
        match *fault {
            Fault::CutMidStream { .. } => {
                let answer = exchange.run().await;
                // The cut is on its way before the answer exists for those who resume.
                exchange.session.act(stream, Outgoing::Cut);
                exchange.session.detach(stream);
                finish(&exchange, stream, answer);
            }
            Fault::SseRetry(_) => {
                // Closed first, so that the client has to come back even for a quick answer.
                exchange.session.detach(stream);
                let answer = exchange.run().await;
                finish(&exchange, stream, answer);
            }
            _ => {
                drop(exchange.run().await);
                // Whoever lets go of the session now would end the silence.
                pending::<()>().await;
            }
        }
    });
    replies::events(context, incoming, false)
}

/// Gives the answer to those who resumed or will resume.
fn finish(exchange: &Exchange, stream: StreamId, answer: Option<String>) {
    if let Some(answer) = answer {
        exchange.sink.answer(answer);
    }
    exchange.session.end_stream(stream);
}

fn answer_on_stream(
    context: &Context,
    session: &Arc<Session>,
    request: Request,
    armed: ArmedFault,
) -> Reply {
    let (stream, reply) = open_answer(context, session);
    let sink = Sink::Stream(session.clone(), stream);
    let exchange = Exchange::begin(&context.server, session, sink, request);
    context.tasks.spawn(async move {
        if let Some(answer) = exchange.run_under(Some(&armed.fault)).await {
            let pieces = pieces(Some(&armed.fault), &exchange.request, answer);
            exchange.sink.answer_in_pieces(pieces);
        }
        exchange.session.end_stream(stream);
    });
    reply
}

/// Like [`answer`] where nothing but one JSON body is possible.
pub(crate) async fn answer_in_json(
    context: &Context,
    session: &Arc<Session>,
    request: Request,
    armed: ArmedFault,
) -> Reply {
    let fault = armed.fault.clone();
    let exchange = Exchange::begin(&context.server, session, Sink::Nowhere, request);
    let (done, answered) = tokio::sync::oneshot::channel();
    context.tasks.spawn(async move {
        let answer = exchange.run_under(Some(&armed.fault)).await;
        let answer = answer.map(|text| pieces(Some(&armed.fault), &exchange.request, text));
        drop(done.send(answer));
    });
    let Ok(answer) = answered.await else {
        // The server died. A dead server sends no response, not even an empty one.
        return pending().await;
    };
    match *fault {
        Fault::ExecuteThenCut | Fault::CutMidStream { .. } => {
            context.control.cut();
            return pending().await;
        }
        Fault::HangMidStream => return pending().await,
        Fault::CloseAfterBytes(bytes) => context.control.close_after(bytes),
        _ => {}
    }
    match answer {
        Some(pieces) => first_as_json(context, pieces),
        None => replies::empty(StatusCode::ACCEPTED),
    }
}

/// A JSON body has room for one piece; the first is the one that went wrong.
fn first_as_json(context: &Context, pieces: Vec<String>) -> Reply {
    let body = pieces.into_iter().next().unwrap_or_default();
    answer_json(context, body)
}
