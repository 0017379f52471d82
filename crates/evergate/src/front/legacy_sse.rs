//! HTTP+SSE, the server's side, for clients of revision 2024-11-05: one stream down, posts up.
//!
//! A client whose stream broke opens another and, as browsers' event sources do, may go on without a new handshake; so
//! none is insisted on here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::time::Interval;

use super::event_stream::{SIGN_OF_LIFE, event, signs_of_life};
use super::keys::Caller;
use super::mcp_endpoint::{is_new, too_often};
use super::piped::{Piped, WAITING};
use super::request::Request;
use super::session_id::SessionFacts;
use super::{Front, Reply, body, incoming};
use crate::gateway::client::{Scope, Uid};
use crate::gateway::error_body::Refusal;
use crate::state::uid_hex;

const VERSION: &str = "2024-11-05";

/// Streams that are open, by the number in the address their clients post to.
#[derive(Debug, Default)]
pub(super) struct SseStreams(Mutex<HashMap<String, Arc<Piped>>>);

struct Streaming {
    front: Arc<Front>,
    number: String,
    messages: mpsc::Receiver<Bytes>,
    first: Option<Bytes>,
    ticks: Interval,
}

/// Opens a stream, and tells the client where to post.
pub(super) fn open<B>(front: &Arc<Front>, caller: Caller, request: &Request<B>) -> Reply {
    if let Err(refusal) = incoming::accepts(&request.headers, &["text/event-stream"]) {
        return body::refusal(refusal);
    }
    if front.gateway.draining.has_begun() {
        return body::refusal(Refusal::Draining);
    }
    let settings = front.gateway.config();
    let (pipe, messages) = mpsc::channel(WAITING);
    let uid: Uid = SessionFacts::new_uid();
    let number = uid_hex(&uid);
    let piped =
        Arc::new(Piped::new(front.gateway.clone(), caller, Scope::All, pipe, Some(VERSION)));
    {
        let mut streams = front.sse.table();
        if streams.len() >= settings.gateway.max_sessions {
            return body::refusal(Refusal::TooManySessions);
        }
        streams.insert(number.clone(), piped);
    }
    let first = format!("event: endpoint\ndata: /message?sessionId={number}\n\n");
    let state = Streaming {
        front: front.clone(),
        number,
        messages,
        first: Some(first.into()),
        ticks: signs_of_life(settings.gateway.keep_alive),
    };
    body::events(unfold(state, |mut state| async move {
        state.next().await.map(|event| (event, state))
    }))
}

/// Takes a message; what there is to answer goes down the stream.
pub(super) async fn message<B>(
    front: &Arc<Front>,
    caller: Caller,
    request: &mut Request<B>,
) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match try_message(front, &caller, request).await {
        Ok(None) => body::text(StatusCode::ACCEPTED, "Accepted"),
        Ok(Some(refused)) => refused,
        Err(refusal) => body::refusal(refusal),
    }
}

/// Its refusal, if it goes no further.
async fn try_message<B>(
    front: &Arc<Front>,
    caller: &Caller,
    request: &mut Request<B>,
) -> Result<Option<Reply>, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limit = front.gateway.config().gateway.max_body_bytes;
    let buffers = &front.gateway.buffers;
    let body = incoming::counted_body(&mut request.body, limit, buffers).await?;
    incoming::has_json_body(&request.headers)?;
    let query = request.uri.query().unwrap_or_default();
    let number = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let piped = number.and_then(|number| front.sse.table().get(number).cloned());
    let piped = piped.filter(|piped| piped.is_of(caller)).ok_or(Refusal::UnknownSession)?;
    if incoming::is_batch(&body) {
        return Err(Refusal::BatchNotAllowed);
    }
    if !piped.has_room() {
        return Err(Refusal::TooManyRequests);
    }
    for message in incoming::messages(&body)? {
        if buffers.are_full_but_for(body.len()) && is_new(&message) {
            return Err(Refusal::OutOfMemory);
        }
        if let Some(refused) = too_often(caller, &message) {
            return Ok(Some(refused));
        }
        piped.take(message, Some(request.headers.clone())).await;
    }
    Ok(None)
}

// === impl SseStreams ===

impl SseStreams {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Piped>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Streaming ===

impl Streaming {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let (front, number) = (&self.front, &self.number);
        tokio::select! {
            biased;
            message = self.messages.recv() => Some(event(None, &message?)),
            () = drained(front, number) => None,
            _ = self.ticks.tick() => Some(SIGN_OF_LIFE),
        }
    }
}

/// The gateway ends, and nothing is left to answer.
async fn drained(front: &Front, number: &str) {
    front.gateway.draining.begun().await;
    let piped = front.sse.table().get(number).cloned();
    while piped.as_ref().is_some_and(|piped| piped.unanswered() > 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let piped = self.front.sse.table().remove(&self.number);
        if let Some(piped) = piped {
            piped.end();
        }
    }
}
