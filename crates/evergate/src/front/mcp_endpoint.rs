//! Streamable HTTP, the server's side: revisions 2025-03-26, 2025-06-18 and 2025-11-25.
//!
//! A request is answered with plain JSON if the answer comes soon and alone; otherwise the response becomes a stream,
//! with signs of life, that can be taken up again after a broken connection. A client that disconnects has not
//! cancelled: the call goes on.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use evergate_runtime::wire::{Message, Messages};
use evergate_runtime::{Alarm, RawJson};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tokio_util::sync::CancellationToken;

use super::arriving::Arriving;
use super::body;
use super::event_id::{EventId, StreamId};
use super::event_stream::{self, Opening};
use super::incoming::{self, LAST_EVENT_ID, SESSION_ID};
use super::keys::Caller;
use super::request::{Headers, Request, visible};
use super::sessions::Session;
use super::surviving::Surviving;
use super::{Front, Reply, respond, stateless};
use crate::gateway::client::Introduction;
use crate::gateway::error_body::{self, INVALID_PARAMS, OUTCOME_UNKNOWN, Refusal, plain};
use crate::gateway::event_log::{EventLog, Tail};
use crate::gateway::outlet::Outlet;
use crate::gateway::params::Noted;
use crate::gateway::{Answer, ClientRequest, Gateway, RequestContext, goes_to_server, handshake};

/// Messages in one batch: more than any client sends, fewer than a stream keeps.
const MAX_BATCH: usize = 1024;
/// The revision that has batches.
const WITH_BATCHES: &str = "2025-03-26";
/// Requests without a word on their revision are taken to be of this one.
const ASSUMED: &str = "2025-03-26";

pub(super) async fn answer<B>(
    front: &Arc<Front>,
    caller: Caller,
    server: Option<&str>,
    request: &mut Request<B>,
) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let result = match request.method {
        Method::POST => post(front, caller, server, request).await,
        _ if stateless::is_named(&request.headers) => return body::wrong_method("POST"),
        Method::GET => get(front, &caller, server, &request.headers),
        Method::DELETE => delete(front, &caller, server, &request.headers),
        _ => return body::wrong_method("GET, POST, DELETE"),
    };
    result.unwrap_or_else(body::refusal)
}

async fn post<B>(
    front: &Arc<Front>,
    caller: Caller,
    server: Option<&str>,
    request: &mut Request<B>,
) -> Result<Reply, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (limit, is_lenient) = {
        let config = front.gateway.config_now();
        (config.gateway.max_body_bytes, config.gateway.lenient)
    };
    let buffers = &front.gateway.buffers;
    // First of all, so that the connection can be used on whatever else is wrong.
    let body = incoming::counted_body(&mut request.body, limit, buffers).await?;
    // A client of HTTP/1.0 could not tell half an answer from a whole one.
    let takes_pieces = !request.is_old;
    let headers = &mut request.headers;
    incoming::accepts_both(headers)?;
    incoming::has_json_body(headers)?;
    let is_batch = incoming::is_batch(&body);
    let (mut messages, noted) = incoming::noted_messages(&body)?;
    if buffers.are_full_but_for(body.len()) && messages.iter().any(is_new) {
        return Err(Refusal::OutOfMemory);
    }
    if !is_batch
        && let [message] = &messages[..]
        && let Some(refused) = too_often(&caller, message)
    {
        return Ok(refused);
    }
    // Looked up once.
    let (named, known) = (incoming::protocol_version(headers), headers.get(SESSION_ID));
    if is_batch && stateless::is_named(headers) {
        return Err(Refusal::BatchNotAllowed);
    }
    if !is_batch && stateless::is_meant(named, known.is_some(), &messages[0]) {
        let message = messages.swap_remove(0);
        return Box::pin(stateless::answer(front, caller, server, message, headers)).await;
    }
    if let [Message::Request { id, method, params }] = &messages[..]
        && method == "initialize"
        && !is_batch
    {
        let answering = initialize(front, caller, server, headers, id, params.as_ref());
        // In a box, as whatever is rare: what comes often need not move room for it about.
        return Box::pin(answering).await;
    }
    let version = incoming::known_version(named)?;
    let (session, new_id) = match known {
        Some(id) => (front.sessions.find(&front.gateway, id, &caller, server)?, None),
        None if is_lenient => {
            let version = version.unwrap_or(ASSUMED);
            // No session is made for what will be refused.
            if is_batch && version != WITH_BATCHES {
                return Err(Refusal::BatchNotAllowed);
            }
            let introduction = Introduction::none(version);
            let made = front.sessions.create(&front.gateway, caller, server, introduction)?;
            (made.0, Some(made.1))
        }
        None => return Err(Refusal::NotInitialized),
    };
    let mut reply = if is_batch {
        if session.client.introduction.version != WITH_BATCHES {
            return Err(Refusal::BatchNotAllowed);
        }
        batch(front, &session, messages, headers)?
    } else {
        let message = messages.pop().ok_or(Refusal::NotJsonRpc)?;
        one(front, &session, (message, noted), headers, takes_pieces).await?
    };
    if let Some(id) = new_id {
        with_session(&mut reply, &id);
    }
    Ok(reply)
}

/// Whether a message asks for more than the gateway has at hand.
pub(super) fn is_new(message: &Message) -> bool {
    matches!(message, Message::Request { method, .. } if goes_to_server(method) || method == "initialize")
}

/// The answer to a request for a server that comes sooner than its caller's key allows.
pub(super) fn too_often(caller: &Caller, message: &Message) -> Option<Reply> {
    let Message::Request { id, method, .. } = message else { return None };
    let retry_in = if goes_to_server(method) { caller.spend().err()? } else { return None };
    let error = Answer::Error(error_body::too_often(retry_in));
    let seconds = error_body::whole_seconds(retry_in);
    Some(body::later(Refusal::TooOften, respond::pieces(id, &error), seconds))
}

/// One message: a request is answered, anything else only taken.
async fn one(
    front: &Arc<Front>,
    session: &Session,
    (message, noted): (Message, Option<Noted>),
    headers: &mut Headers,
    takes_pieces: bool,
) -> Result<Reply, Refusal> {
    match message {
        Message::Request { .. } if front.gateway.draining.has_begun() => {
            return Err(Refusal::Draining);
        }
        Message::Request { id, method, params } => {
            let asked = ClientRequest { method, params, noted };
            return Ok(call(front, session, id, asked, headers, takes_pieces).await);
        }
        Message::Notification { method, params } => {
            front.gateway.notified(&session.client, &method, params.as_ref());
        }
        Message::Response { id, answer } => {
            Gateway::answered(&session.client, id.as_ref(), answer);
        }
    }
    Ok(body::empty(StatusCode::ACCEPTED))
}

async fn initialize(
    front: &Arc<Front>,
    caller: Caller,
    server: Option<&str>,
    headers: &Headers,
    id: &RawJson,
    params: Option<&RawJson>,
) -> Result<Reply, Refusal> {
    if front.gateway.draining.has_begun() {
        return Err(Refusal::Draining);
    }
    let Some(introduction) = handshake::introduction(params) else {
        let error =
            plain(INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo");
        return Ok(body::message(respond::pieces(id, &Answer::Error(error))));
    };
    let (session, session_id) =
        front.sessions.create(&front.gateway, caller, server, introduction)?;
    session.client.set_headers(&Arc::new(headers.to_map()));
    let result = front.gateway.welcome(&session.client).await;
    let mut reply = body::message(respond::pieces(id, &Answer::Result(result)));
    with_session(&mut reply, &session_id);
    Ok(reply)
}

/// One request: JSON if the answer is quick, else a stream.
async fn call(
    front: &Arc<Front>,
    session: &Session,
    id: RawJson,
    mut asked: ClientRequest,
    headers: &mut Headers,
    takes_pieces: bool,
) -> Reply {
    // A stream can be taken up again should the connection break, which is worth its small price for every call that is
    // not over in a moment.
    let stream_after = front.gateway.config_now().gateway.stream_after;
    let log = Arc::new(EventLog::of_call(&front.gateway.buffers));
    let passed_on = front.gateway.to_pass_on(headers);
    // They have served, and the memory they are in is read into next.
    std::mem::take(headers);
    let context = RequestContext {
        stream: Outlet::Log(log.clone()),
        headers: passed_on,
        takes_pieces,
        rounds: None,
    };
    let (gateway, client) = (front.gateway.own().clone(), session.client.own().clone());
    let own_id = id.clone();
    // Its room is there before it is, so that it is made in place: it is large, and most of it is empty at first.
    let room = Box::new_uninit();
    let call = Box::into_pin(Box::write(room, async move {
        gateway.request(&client, &own_id, &mut asked, &context).await
    }));
    // The client's connection may break without that ending the call.
    let mut calling = Surviving::new(&front.gateway.tasks, &id, &log, call);
    let answer = tokio::select! {
        biased;
        answer = &mut calling => Some(answer),
        () = poll_fn(|context| log.poll_begun(context)) => None,
        () = Alarm::after(stream_after) => None,
    };
    // If it is not here by now, it goes into the log.
    drop(calling);
    match answer {
        Some(answer) if log.has_messages() => {
            log.push(respond::line(&id, &answer.whole().await));
            log.close();
        }
        Some(Answer::Pieces(pieces)) => return body::arriving(Arriving::new(&id, pieces)),
        Some(answer) => {
            return body::message(respond::pieces(&id, &answer));
        }
        None => {}
    }
    let number = front.sessions.new_stream();
    session.keep(number, &log);
    let stream = StreamId::Call { number, request: id };
    let opening = first_opening(session);
    stream_of(front, session, stream, log.read(0), opening, CancellationToken::new())
}

/// Several at once. Their answers come as a stream, each when it is ready.
fn batch(
    front: &Arc<Front>,
    session: &Session,
    messages: Messages,
    headers: &Headers,
) -> Result<Reply, Refusal> {
    if messages.len() > MAX_BATCH {
        return Err(Refusal::BatchTooLong);
    }
    // All of it or nothing.
    for message in &messages {
        if let Message::Request { method, .. } = message {
            if method == "initialize" {
                return Err(Refusal::NotJsonRpc);
            }
            if front.gateway.draining.has_begun() {
                return Err(Refusal::Draining);
            }
        }
    }
    let log = Arc::new(EventLog::of_call(&front.gateway.buffers));
    let headers = front.gateway.to_pass_on(headers);
    let context = RequestContext {
        stream: Outlet::Log(log.clone()),
        headers,
        takes_pieces: false,
        rounds: None,
    };
    let caller = session.client.caller();
    let mut first = None;
    let mut calls = Vec::new();
    for message in messages {
        match message {
            Message::Request { id, method, params } => {
                first.get_or_insert(id.clone());
                let spent = if goes_to_server(&method) { caller.spend() } else { Ok(()) };
                match spent {
                    Ok(()) => calls.push((id, method, params)),
                    // There is no status for one of many.
                    Err(retry_in) => {
                        let error = Answer::Error(error_body::too_often(retry_in));
                        log.push(respond::line(&id, &error));
                    }
                }
            }
            Message::Notification { method, params } => {
                front.gateway.notified(&session.client, &method, params.as_ref());
            }
            Message::Response { id, answer } => {
                Gateway::answered(&session.client, id.as_ref(), answer);
            }
        }
    }
    let Some(request) = first else { return Ok(body::empty(StatusCode::ACCEPTED)) };
    let (gateway, client) = (front.gateway.own().clone(), session.client.own().clone());
    let own_log = log.clone();
    front.gateway.tasks.spawn(async move {
        let all = calls.into_iter().map(|(id, method, params)| {
            let (gateway, client, context, log) = (&gateway, &client, &context, &own_log);
            async move {
                let mut asked = ClientRequest { method, params, noted: None };
                let answer = gateway.request(client, &id, &mut asked, context).await;
                log.push(respond::line(&id, &answer));
            }
        });
        futures_util::future::join_all(all).await;
        own_log.close();
    });
    let number = front.sessions.new_stream();
    session.keep(number, &log);
    let stream = StreamId::Call { number, request };
    let opening = first_opening(session);
    Ok(stream_of(front, session, stream, log.read(0), opening, CancellationToken::new()))
}

/// The listening stream, or any stream from where the client stopped reading.
fn get(
    front: &Arc<Front>,
    caller: &Caller,
    server: Option<&str>,
    headers: &Headers,
) -> Result<Reply, Refusal> {
    incoming::accepts(headers, &["text/event-stream"])?;
    incoming::known_version(incoming::protocol_version(headers))?;
    let id = headers.get(SESSION_ID).ok_or(Refusal::NotInitialized)?;
    if front.gateway.draining.has_begun() {
        return Err(Refusal::Draining);
    }
    let session = front.sessions.find(&front.gateway, id, caller, server)?;
    let from = match headers.get(LAST_EVENT_ID) {
        Some(id) => {
            let id = visible(id).and_then(EventId::parse);
            Some(id.ok_or(Refusal::BadEventId)?)
        }
        None => None,
    };
    let Outlet::Log(outbox) = &session.client.outbox else { return Err(Refusal::WrongMethod) };
    let run = front.sessions.run;
    // A client that comes back has an id to come back with again.
    let opening = if from.is_some() { Opening::Plain } else { first_opening(&session) };
    let (stream, tail) = match from {
        Some(EventId { stream: StreamId::Call { number, request }, next }) => {
            let Some(log) = session.stream(number) else {
                return Ok(lost(&request));
            };
            (StreamId::Call { number, request }, log.read(next))
        }
        Some(EventId { stream: StreamId::Listening { run: theirs }, next }) if theirs == run => {
            (StreamId::Listening { run }, outbox.read(next))
        }
        // Of an earlier run: whatever this one has to say is news.
        _ => (StreamId::Listening { run }, outbox.read_new()),
    };
    let stop = match stream {
        StreamId::Listening { .. } => front.gateway.draining.token().clone(),
        StreamId::Call { .. } => CancellationToken::new(),
    };
    Ok(stream_of(front, &session, stream, tail, opening, stop))
}

fn delete(
    front: &Arc<Front>,
    caller: &Caller,
    server: Option<&str>,
    headers: &Headers,
) -> Result<Reply, Refusal> {
    let id = headers.get(SESSION_ID).ok_or(Refusal::NotInitialized)?;
    let session = front.sessions.find(&front.gateway, id, caller, server)?;
    front.sessions.end(&front.gateway, &session);
    Ok(body::empty(StatusCode::OK))
}

/// Clients of earlier revisions do not expect an event without a message.
fn first_opening(session: &Session) -> Opening {
    match session.client.introduction.version.as_str() {
        "2025-11-25" => Opening::Primed,
        _ => Opening::Plain,
    }
}

fn stream_of(
    front: &Front,
    session: &Session,
    stream: StreamId,
    tail: Tail,
    opening: Opening,
    stop: CancellationToken,
) -> Reply {
    let settings = front.gateway.config();
    // Each sign of life is one of the session's too: whoever listens does not expire.
    let keep_alive = settings.gateway.keep_alive.min(settings.gateway.session_idle / 2);
    body::events(event_stream::of(session.client.clone(), stream, tail, opening, keep_alive, stop))
}

/// The stream of a call that is no longer kept: its client must not wait for ever.
fn lost(request: &RawJson) -> Reply {
    let error = RawJson::from(serde_json::json!({
        "code": OUTCOME_UNKNOWN,
        "message": "the answer to this call is lost: the gateway was restarted, or it was not fetched in time",
        "data": { "outcome": "unknown", "retryable": false, "hint": "it may have run: find out before calling again" },
    }));
    let message = respond::line(request, &Answer::Error(error));
    body::events(futures_util::stream::iter([event_stream::event(None, &message)]))
}

fn with_session(reply: &mut Reply, id: &str) {
    // Sealed ids are visible ASCII.
    if let Ok(mut value) = HeaderValue::from_str(id) {
        value.set_sensitive(true);
        reply.set(HeaderName::from_static(SESSION_ID), value);
    }
}
