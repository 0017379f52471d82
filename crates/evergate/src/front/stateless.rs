//! Streamable HTTP without sessions: revision 2026-07-28, on the same paths as the others.
//!
//! Whatever a request needs it brings along, and its headers repeat some of it ([`headers`]). It is answered with JSON if the
//! answer comes soon and alone, else with a stream, which cannot be taken up again: a client that disconnects has cancelled.

mod headers;

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use evergate_runtime::wire::Message;
use evergate_runtime::{Alarm, RawJson};
use futures_util::stream::unfold;
use http::StatusCode;
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use super::event_stream::{SIGN_OF_LIFE, event, signs_of_life};
use super::keys::Caller;
use super::request::Headers;
use super::{Front, Reply, body, incoming, respond};
use crate::gateway::client::Client;
use crate::gateway::error_body::{self, Refusal, plain};
use crate::gateway::event_log::{EventLog, Tail};
use crate::gateway::handshake::scope_of;
use crate::gateway::outlet::Outlet;
use crate::gateway::stateless::envelope::{self, Envelope};
use crate::gateway::stateless::listening::Listener;
use crate::gateway::stateless::{StatelessCall, VERSION, is_without_handshake, own_id};
use crate::gateway::{Answer, Gateway};

/// A call whose answer is written as a stream.
struct Streaming {
    gateway: Arc<Gateway>,
    id: RawJson,
    /// Dropped with the stream, and cancelled by that.
    call: Option<StatelessCall>,
    tail: Tail,
    /// The answer, once it is there; whatever was said before comes first.
    last: Option<Bytes>,
    ticks: Interval,
}

/// A client that listens.
struct Hearing {
    listener: Listener,
    id: RawJson,
    tail: Tail,
    ticks: Interval,
    draining: CancellationToken,
    over: bool,
}

/// A request that goes no further.
struct Rejected {
    status: StatusCode,
    error: RawJson,
}

/// Whether a message is of a revision without a handshake: by what it says, or else by the revision in its headers.
pub(super) fn is_meant(version: Option<&str>, has_session: bool, message: &Message) -> bool {
    let by_header = version.is_some_and(is_without_handshake);
    // Where both headers say so there is no doubt, and reading every message twice has its price.
    if !by_header && version.is_some() && has_session {
        return false;
    }
    match message {
        Message::Request { params, .. } | Message::Notification { params, .. } => {
            by_header || envelope::is_claimed(params.as_ref())
        }
        Message::Response { .. } => by_header,
    }
}

/// Whether a request says in its headers that it is of such a revision.
pub(super) fn is_named(headers: &Headers) -> bool {
    incoming::protocol_version(headers).is_some_and(is_without_handshake)
}

pub(super) async fn answer(
    front: &Arc<Front>,
    caller: Caller,
    server: Option<&str>,
    message: Message,
    headers: &mut Headers,
) -> Result<Reply, Refusal> {
    let (id, method, params) = match message {
        Message::Request { id, .. } if front.gateway.draining.has_begun() => {
            return Ok(refused(Refusal::Draining, &id));
        }
        Message::Request { id, method, params } => (id, method, params),
        // To cancel a request its stream is closed; what a notification names could be somebody else's.
        Message::Notification { .. } => return Ok(body::empty(StatusCode::ACCEPTED)),
        Message::Response { .. } => return Err(Refusal::NotJsonRpc),
    };
    let envelope = match admit(headers, &method, params.as_ref()) {
        Ok(envelope) => envelope,
        Err(rejected) => return Ok(rejected.reply(&id)),
    };
    let client = front.gateway.principal(caller, scope_of(server), headers, &envelope);
    let Some(client) = client else {
        return Ok(refused(Refusal::TooManySessions, &id));
    };
    if method == "tools/call"
        && let Some(name) = front.gateway.wrong_header(&client, params.as_ref(), headers)
    {
        let what = format!("the header Mcp-Param-{name} must say what the argument does");
        return Ok(answered(&id, &Answer::Error(plain(error_body::HEADER_MISMATCH, what))));
    }
    let passed_on = front.gateway.to_pass_on(headers);
    // They have served, and the memory they are in is read into next.
    std::mem::take(headers);
    if method == "subscriptions/listen" {
        if let Some(headers) = passed_on.as_ref().filter(|_| front.gateway.passes_headers()) {
            client.set_headers(headers);
        }
        return Ok(listen(front, &client, id, params.as_ref()).await);
    }
    let stream = Outlet::Log(Arc::new(EventLog::of_call(&front.gateway.buffers)));
    let request = (method, params);
    let begun = front.gateway.begin(&client, own_id(), request, envelope, stream, passed_on);
    match begun {
        Ok(call) => Ok(proceed(front, id, call).await),
        Err(error) => Ok(answered(&id, &Answer::Error(error))),
    }
}

/// Looks at everything but what the request is about, in the order the revision names.
fn admit(headers: &Headers, method: &str, params: Option<&RawJson>) -> Result<Envelope, Rejected> {
    let bad_request = |error| Rejected { status: StatusCode::BAD_REQUEST, error };
    let mismatch = |what: String| bad_request(plain(error_body::HEADER_MISMATCH, what));
    if method == "initialize" && !envelope::is_claimed(params) {
        return Err(mismatch(format!("there is no initialize in {VERSION}")));
    }
    let envelope = envelope::read(params)
        .map_err(|error| bad_request(plain(error_body::INVALID_PARAMS, error.to_string())))?;
    headers::agree(headers, &envelope.version, method).map_err(mismatch)?;
    if envelope.version != VERSION {
        return Err(bad_request(error_body::unsupported_version(&envelope.version)));
    }
    headers::complete(headers, method, params).map_err(mismatch)?;
    Ok(envelope)
}

/// JSON if the next step is quick and nothing was said before, else a stream.
async fn proceed(front: &Arc<Front>, id: RawJson, mut call: StatelessCall) -> Reply {
    let settings = front.gateway.config();
    let Outlet::Log(log) = call.stream.clone() else { return body::refusal(Refusal::Internal) };
    let tail = log.read_new();
    let step = tokio::select! {
        biased;
        step = call.step() => Some(step),
        () = poll_fn(|context| tail.poll_more(context)) => None,
        () = Alarm::after(settings.gateway.stream_after) => None,
    };
    let (call, last) = match step {
        Some(step) => {
            let answer = front.gateway.answer_of(step, call);
            if !tail.has_more() {
                return answered(&id, &answer);
            }
            (None, Some(respond::line(&id, &answer)))
        }
        None => (Some(call), None),
    };
    let gateway = front.gateway.clone();
    let mut ticks = signs_of_life(settings.gateway.keep_alive);
    // The first at once: something must be sent for the headers to leave.
    ticks.reset_immediately();
    let streaming = Streaming { gateway, id, call, tail, last, ticks };
    body::events(unfold(streaming, |mut streaming| async move {
        streaming.next().await.map(|event| (event, streaming))
    }))
}

async fn listen(
    front: &Arc<Front>,
    client: &Arc<Client>,
    id: RawJson,
    params: Option<&RawJson>,
) -> Reply {
    // Nothing that is unread makes way for something newer: there is no other way to hear of it.
    let log = Arc::new(EventLog::of_call(&front.gateway.buffers));
    let outbox = Outlet::Log(log.clone());
    let listener = match front.gateway.listen(client, &id, params, outbox).await {
        Ok((listener, acknowledgement)) => {
            log.push(acknowledgement);
            listener.begin();
            listener
        }
        Err(error) => return answered(&id, &Answer::Error(error)),
    };
    let ticks = signs_of_life(front.gateway.config().gateway.keep_alive);
    let draining = front.gateway.draining.token().clone();
    let hearing = Hearing { listener, id, tail: log.read(0), ticks, draining, over: false };
    body::events(unfold(hearing, |mut hearing| async move {
        hearing.next().await.map(|event| (event, hearing))
    }))
}

/// An answer as JSON. A few errors have a status too, so that others can tell what happened.
fn answered(id: &RawJson, answer: &Answer) -> Reply {
    let status = match answer {
        Answer::Error(error) => error_body::status_of(error),
        _ => StatusCode::OK,
    };
    let mut reply = body::message(respond::pieces(id, answer));
    reply.status = status;
    reply
}

/// A refusal under the request's own id.
fn refused(refusal: Refusal, id: &RawJson) -> Reply {
    let mut reply = Rejected { status: refusal.status(), error: refusal.error() }.reply(id);
    body::mark(&mut reply, refusal);
    reply
}

// === impl Rejected ===

impl Rejected {
    fn reply(self, id: &RawJson) -> Reply {
        let mut reply = answered(id, &Answer::Error(self.error));
        reply.status = self.status;
        reply
    }
}

// === impl Streaming ===

impl Streaming {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(last) = &self.last {
                if self.tail.has_more()
                    && let Some((_, message)) = self.tail.next().await
                {
                    return Some(event(None, &message));
                }
                let last = event(None, last);
                self.last = None;
                self.call = None;
                return Some(last);
            }
            let call = self.call.as_mut()?;
            let step = tokio::select! {
                biased;
                message = self.tail.next() => {
                    let (_, message) = message?;
                    return Some(event(None, &message));
                }
                step = call.step() => step,
                _ = self.ticks.tick() => return Some(SIGN_OF_LIFE),
            };
            let call = self.call.take()?;
            let answer = self.gateway.answer_of(step, call);
            self.last = Some(respond::line(&self.id, &answer));
        }
    }
}

// === impl Hearing ===

impl Hearing {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        tokio::select! {
            biased;
            message = self.tail.next() => {
                let (_, message) = message?;
                Some(event(None, &message))
            }
            () = self.draining.cancelled() => {
                self.over = true;
                let result = self.listener.listening()?.result();
                Some(event(None, &respond::line(&self.id, &Answer::Result(result))))
            }
            _ = self.ticks.tick() => Some(SIGN_OF_LIFE),
        }
    }
}
