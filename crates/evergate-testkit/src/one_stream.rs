//! Answering on transports where everything shares one stream: lines, and the 2024-11-05 SSE
//! transport. Here a fault acts on that stream.

use serde_json::json;

use crate::Server;
use crate::fault::{ArmedFault, Fault, pieces};
use crate::jsonrpc::{Outcome, Request, notification, unbound_error};
use crate::server::Exchange;
use crate::session::{Outgoing, Session, Sink};

/// Executes a request and answers it, as far as the fault allows.
pub(crate) async fn answer(exchange: Exchange, fault: Option<ArmedFault>) {
    let fault = fault.as_ref().map(|armed| &*armed.fault);
    let (sink, request) = (&exchange.sink, &exchange.request);
    if refuse(sink, request, fault) {
        return;
    }
    if let Some(Fault::HangMidStream | Fault::CutMidStream { .. }) = fault {
        let params = json!({ "level": "info", "data": "working on it" });
        sink.send(notification("notifications/message", &params));
    }
    if let Some(answer) = exchange.run_under(fault).await {
        send(sink, request, fault, answer);
    }
}

/// Answers `initialize`, as far as the fault allows.
pub(crate) async fn answer_initialize(
    server: &Server,
    session: &Session,
    sink: &Sink,
    request: &Request,
    fault: Option<ArmedFault>,
) {
    let fault = fault.as_ref().map(|armed| &*armed.fault);
    if !refuse(sink, request, fault) {
        let answer = server.handshake(session, request);
        if let Some(Fault::DelayAnswer(delay)) = fault {
            tokio::time::sleep(*delay).await;
        }
        send(sink, request, fault, answer);
    }
}

/// Faults that keep a request from being executed; `true` if this was one.
pub(crate) fn refuse(sink: &Sink, request: &Request, fault: Option<&Fault>) -> bool {
    let error = |code, message: &str| Outcome::error(code, message).encode(&request.id);
    match fault {
        Some(Fault::SessionLoss(shape)) => {
            let (code, message) = shape.as_error();
            sink.answer(error(code, message));
        }
        Some(Fault::RateLimited { retry_after }) => {
            let when = retry_after.map(|seconds| format!(", retry after {seconds}"));
            let message = format!("rate limit exceeded{}", when.unwrap_or_default());
            sink.answer(error(-32000, &message));
        }
        Some(Fault::Status(_, body)) => drop(sink.answer(error(-32000, body))),
        Some(Fault::IdLess400) => {
            sink.send(unbound_error(-32000, "Bad Request", false));
        }
        Some(Fault::HangBeforeHeaders) => {}
        Some(Fault::HalfClose) => sink.act(Outgoing::HalfClose),
        Some(Fault::CutBeforeExecute) => sink.act(Outgoing::Cut),
        _ => return false,
    }
    true
}

pub(crate) fn send(sink: &Sink, request: &Request, fault: Option<&Fault>, answer: String) {
    match fault {
        Some(Fault::HangMidStream) => return,
        Some(Fault::ExecuteThenCut | Fault::CutMidStream { .. }) => {
            return sink.act(Outgoing::Cut);
        }
        Some(Fault::CloseAfterBytes(bytes)) => sink.act(Outgoing::CloseAfter(*bytes)),
        _ => {}
    }
    sink.answer_in_pieces(pieces(fault, request, answer));
}
