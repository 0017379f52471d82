//! What goes back over HTTP.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http::header::{ALLOW, CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::Reply;
use super::arriving::{Arriving, BrokeOff};
use super::respond::{PAYLOAD, Pieces};
use crate::gateway::error_body::Refusal;
use crate::metrics::Format;

/// A response. Hardly any has more headers than those that all have, so that there is no map of them.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The connection ends with it: a client that is not told would send its next request into nothing.
    pub(crate) closes: bool,
    /// What was refused, for whoever counts that.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) body: ReplyBody,
}

/// A large result is sent as the bytes it came in, between small pieces.
pub(crate) enum ReplyBody {
    Whole(Pieces),
    /// A result that is passed on while it comes in.
    Arriving(Arriving),
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// When to try again, for refusals that pass: seconds.
const RETRY_LATER: HeaderValue = HeaderValue::from_static("5");

pub(super) fn empty(status: StatusCode) -> Reply {
    with(status, None, ReplyBody::whole(Bytes::new()))
}

pub(super) fn text(status: StatusCode, text: &'static str) -> Reply {
    with(
        status,
        Some("text/plain; charset=utf-8"),
        ReplyBody::whole(Bytes::from_static(text.as_bytes())),
    )
}

pub(super) fn metrics(format: Format, page: String) -> Reply {
    with(StatusCode::OK, Some(format.content_type()), ReplyBody::whole(page.into()))
}

/// A file that is part of the program.
pub(super) fn file(content_type: &'static str, content: &'static str) -> Reply {
    let body = ReplyBody::whole(Bytes::from_static(content.as_bytes()));
    with(StatusCode::OK, Some(content_type), body)
}

pub(super) fn json(status: StatusCode, value: &Value) -> Reply {
    with(status, Some("application/json"), ReplyBody::whole(value.to_string().into()))
}

/// The same of anything that can be written as JSON.
pub(super) fn typed(status: StatusCode, value: &impl Serialize) -> Reply {
    // Maps with text keys can always be written.
    let text = serde_json::to_vec(value).unwrap_or_default();
    with(status, Some("application/json"), ReplyBody::whole(text.into()))
}

/// A JSON-RPC message.
pub(super) fn message(pieces: Pieces) -> Reply {
    with(StatusCode::OK, Some("application/json"), ReplyBody::Whole(pieces))
}

pub(super) fn arriving(arriving: Arriving) -> Reply {
    with(StatusCode::OK, Some("application/json"), ReplyBody::Arriving(arriving))
}

pub(super) fn events(stream: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    let body = ReplyBody::Events(Box::pin(stream));
    let mut reply = with(StatusCode::OK, Some("text/event-stream"), body);
    reply.set(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Asks reverse proxies in front not to hold events back.
    reply.set(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

pub(super) fn refusal(refusal: Refusal) -> Reply {
    let body = ReplyBody::whole(refusal.body().into());
    let mut reply = with(refusal.status(), Some("application/json"), body);
    mark(&mut reply, refusal);
    reply
}

/// An error under a request's own id, for a client that is to come back later.
pub(super) fn later(refusal: Refusal, message: Pieces, seconds: u64) -> Reply {
    let mut reply = self::message(message);
    reply.status = refusal.status();
    mark(&mut reply, refusal);
    reply.set(RETRY_AFTER, HeaderValue::from(seconds));
    reply
}

/// What a refusal says besides its words: when to come back, with what, and whether over this connection.
pub(super) fn mark(reply: &mut Reply, refusal: Refusal) {
    reply.refusal = Some(refusal);
    match refusal {
        Refusal::TooManySessions | Refusal::TooManyRequests => {
            reply.set(RETRY_AFTER, RETRY_LATER);
        }
        Refusal::Draining | Refusal::OutOfMemory => {
            reply.set(RETRY_AFTER, RETRY_LATER);
            reply.closes = true;
        }
        Refusal::Unauthorized => {
            ask_for_key(reply);
        }
        // The rest of it stays unread.
        Refusal::TooLarge => reply.closes = true,
        _ => {}
    }
}

/// Says what is missing.
pub(super) fn ask_for_key(reply: &mut Reply) {
    reply.set(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
}

/// Something about the connection, after which it ends.
pub(super) fn last_word(status: StatusCode, text: Bytes) -> Reply {
    let mut reply = with(status, Some("application/json"), ReplyBody::whole(text));
    reply.closes = true;
    reply
}

pub(super) fn wrong_method(allowed: &'static str) -> Reply {
    let mut reply = refusal(Refusal::WrongMethod);
    reply.set(ALLOW, HeaderValue::from_static(allowed));
    reply
}

fn with(status: StatusCode, content_type: Option<&'static str>, body: ReplyBody) -> Reply {
    Box::new(Response {
        status,
        content_type,
        headers: Vec::new(),
        closes: false,
        refusal: None,
        body,
    })
}

// === impl Response ===

impl Response {
    /// Sets a header, in place of any of that name.
    pub(super) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value));
    }

    /// Sets a header unless it is set.
    pub(super) fn set_default(&mut self, name: HeaderName, value: HeaderValue) {
        if !self.headers.iter().any(|(known, _)| *known == name) {
            self.headers.push((name, value));
        }
    }
}

// === impl ReplyBody ===

impl ReplyBody {
    fn whole(bytes: Bytes) -> Self {
        let mut pieces = Pieces::default();
        pieces[PAYLOAD] = bytes;
        Self::Whole(pieces)
    }

    /// The next piece of one that is not here as a whole; `None` at its end.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BrokeOff>>> {
        match self {
            Self::Whole(pieces) => {
                let piece = pieces.iter_mut().find(|piece| !piece.is_empty());
                Poll::Ready(piece.map(|piece| Ok(std::mem::take(piece))))
            }
            Self::Arriving(arriving) => arriving.poll_next(context),
            Self::Events(stream) => stream.as_mut().poll_next(context).map(|event| event.map(Ok)),
        }
    }
}

impl std::fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(pieces) => {
                write!(f, "{} bytes", pieces.iter().map(Bytes::len).sum::<usize>())
            }
            Self::Arriving(_) | Self::Events(_) => f.write_str("events"),
        }
    }
}
