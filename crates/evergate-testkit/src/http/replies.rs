//! Building HTTP responses.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::sync::mpsc;

use crate::fault::SessionLoss;
use crate::http::body::{Events, ReplyBody};
use crate::http::connection::Context;
use crate::jsonrpc::{Outcome, unbound_error};
use crate::session::Outgoing;

pub(crate) type Reply = Response<ReplyBody>;

pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::Full(Full::default()));
    *reply.status_mut() = status;
    reply
}

pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    with_type(status, "application/json", body)
}

pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    with_type(status, "text/plain; charset=utf-8", body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = empty(status);
    reply.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    *reply.body_mut() = ReplyBody::Full(Full::new(body.into()));
    reply
}

pub(crate) fn rpc_error(status: StatusCode, code: i64, message: &str) -> Reply {
    json(status, unbound_error(code, message, true))
}

pub(crate) fn not_allowed(allow: &'static str) -> Reply {
    let mut reply = rpc_error(StatusCode::METHOD_NOT_ALLOWED, -32000, "Method not allowed.");
    reply.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allow));
    reply
}

pub(crate) fn unauthorized() -> Reply {
    let mut reply = text(StatusCode::UNAUTHORIZED, "Unauthorized");
    reply.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
    reply
}

/// An SSE stream; `listening` if the client opened it with `GET`.
pub(crate) fn events(
    context: &Context,
    incoming: mpsc::Receiver<Outgoing>,
    listening: bool,
) -> Reply {
    let events = Events::new(&context.server, &context.control, incoming, listening);
    let mut reply = empty(StatusCode::OK);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    *reply.body_mut() = ReplyBody::Events(events);
    reply
}

/// The response of a server that does not know the session. `id` is the request's, if it was one.
pub(crate) fn session_loss(shape: &SessionLoss, id: Option<&str>) -> Reply {
    let (code, message) = shape.as_error();
    match shape {
        SessionLoss::NotFound404 => rpc_error(StatusCode::NOT_FOUND, code, message),
        SessionLoss::NotFound404Empty => empty(StatusCode::NOT_FOUND),
        SessionLoss::BadRequest400NoValidSession => {
            json(StatusCode::BAD_REQUEST, unbound_error(code, message, false))
        }
        SessionLoss::BadRequest400NotInitialized => {
            rpc_error(StatusCode::BAD_REQUEST, code, message)
        }
        SessionLoss::BadRequest400Opaque => text(StatusCode::BAD_REQUEST, message.to_owned()),
        SessionLoss::Ok200(..) => {
            json(StatusCode::OK, Outcome::error(code, message).encode(id.unwrap_or("null")))
        }
        SessionLoss::Unauthorized401 => text(StatusCode::UNAUTHORIZED, message.to_owned()),
        SessionLoss::Unprocessable422 => text(StatusCode::UNPROCESSABLE_ENTITY, message.to_owned()),
        SessionLoss::Unavailable503 => text(StatusCode::SERVICE_UNAVAILABLE, message.to_owned()),
    }
}
