//! Reading a request: its headers and, within limits, its body and the messages in it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evergate_runtime::wire::{self, Message, Messages};
use http_body_util::BodyExt as _;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::request::{Headers, visible};
use crate::gateway::buffers::Buffers;
use crate::gateway::error_body::Refusal;
use crate::gateway::handshake;
use crate::gateway::params::Noted;

pub(super) const SESSION_ID: &str = "mcp-session-id";
pub(super) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
pub(super) const LAST_EVENT_ID: &str = "last-event-id";
const ACCEPT: &str = "accept";
const CONTENT_TYPE: &str = "content-type";

/// How long a client may take to send a body: the largest over a slow line, but not for ever.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// A refused request is worth no more than this.
const DISCARD_WITHIN: Duration = Duration::from_secs(1);
const DISCARD_UP_TO: usize = 64 * 1024;
/// Read whatever else is held.
const SMALL_BODY: usize = 64 * 1024;

/// A body that is counted for as long as anybody has some of it.
pub(super) async fn counted_body<B>(
    body: &mut B,
    limit: usize,
    buffers: &Arc<Buffers>,
) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    in_time(read_body(body, limit, Some(buffers))).await.map(|read| buffers.counted(read))
}

pub(super) async fn whole_body<B>(body: &mut B, limit: usize) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    in_time(read_body(body, limit, None)).await
}

async fn in_time(
    reading: impl Future<Output = Result<Bytes, Refusal>> + Send,
) -> Result<Bytes, Refusal> {
    let mut reading = pin!(reading);
    // Most are here already, and need no clock.
    if let Poll::Ready(read) = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await
    {
        return read;
    }
    // One that does not end is as good as one that breaks off.
    Box::pin(timeout(BODY_WITHIN, reading)).await.unwrap_or(Err(Refusal::NotJson))
}

/// Reads a body that nobody wants, so that the connection can be used on. `false` if there is too much of it.
pub(super) async fn discard<B>(body: &mut B) -> bool
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let read = timeout(DISCARD_WITHIN, read_body(body, DISCARD_UP_TO, None)).await;
    read.is_ok_and(|read| read.is_ok())
}

/// The messages in a body: one, or those of a batch.
pub(super) fn messages(body: &Bytes) -> Result<Messages, Refusal> {
    checked(wire::parse(body).map_err(|_| not_a_message(body))?)
}

/// The same, with what was seen of the params if it is one request.
pub(super) fn noted_messages(body: &Bytes) -> Result<(Messages, Option<Noted>), Refusal> {
    let mut noted = Noted::default();
    let read = wire::parse_noting(body, |field, place| noted.note(field, place));
    let (messages, is_noted) = read.map_err(|_| not_a_message(body))?;
    Ok((checked(messages)?, is_noted.then_some(noted)))
}

fn checked(messages: Messages) -> Result<Messages, Refusal> {
    if messages.is_empty() || !messages.iter().all(has_proper_id) {
        return Err(Refusal::NotJsonRpc);
    }
    Ok(messages)
}

/// Whether a body holds an array, which only one revision has.
pub(super) fn is_batch(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// MCP, base protocol: "Requests MUST include a string or integer ID." Other numbers do no harm.
fn has_proper_id(message: &Message) -> bool {
    match message {
        Message::Request { id, .. } => {
            matches!(id.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
        }
        _ => true,
    }
}

/// Whether it is not even JSON, which has a code of its own.
fn not_a_message(body: &[u8]) -> Refusal {
    let is_json = std::str::from_utf8(body)
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    if is_json { Refusal::NotJsonRpc } else { Refusal::NotJson }
}

/// With an account, all of what is not here yet is counted while it is waited for.
async fn read_body<B>(
    body: &mut B,
    limit: usize,
    buffers: Option<&Arc<Buffers>>,
) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::TooLarge);
    }
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    let mut held: Option<Held<'_>> = None;
    while let Some(frame) = body.frame().await {
        // A body that breaks off is answered to nobody.
        let frame = frame.map_err(|_| Refusal::NotJson)?;
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > limit {
            return Err(Refusal::TooLarge);
        }
        if let Some(buffers) = buffers.filter(|_| !body.is_end_stream() || held.is_some()) {
            let held = held.get_or_insert(Held { buffers, bytes: 0 });
            held.grow(all.len() + first.as_ref().map_or(0, Bytes::len) + data.len())?;
        }
        match first.take() {
            // Most bodies come in one piece, and stay it.
            None if all.is_empty() && body.is_end_stream() => return Ok(data),
            None if all.is_empty() => first = Some(data),
            None => all.extend_from_slice(&data),
            Some(piece) => {
                all.reserve(piece.len() + data.len());
                all.extend_from_slice(&piece);
                all.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| all.freeze()))
}

/// What there is of a body that is not complete.
struct Held<'a> {
    buffers: &'a Buffers,
    bytes: usize,
}

impl Held<'_> {
    /// A small one is read to its end whatever else is held: it may be an answer, which gives more back than it takes.
    fn grow(&mut self, to: usize) -> Result<(), Refusal> {
        if to > SMALL_BODY && self.buffers.are_full_but_for(self.bytes) {
            return Err(Refusal::OutOfMemory);
        }
        self.buffers.add(to - self.bytes);
        self.bytes = to;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.buffers.give_back(self.bytes);
    }
}

pub(super) fn has_json_body(headers: &Headers) -> Result<(), Refusal> {
    let value = headers.get(CONTENT_TYPE);
    // As every library writes it.
    if value.is_some_and(|value| value == b"application/json") {
        return Ok(());
    }
    let value = value.and_then(visible).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(Refusal::NotJsonContent)
    }
}

/// Whether a request may be answered with JSON and with a stream, as a client of streamable HTTP must allow.
pub(super) fn accepts_both(headers: &Headers) -> Result<(), Refusal> {
    // As every library writes it.
    if headers.get(ACCEPT).is_some_and(|value| value == b"application/json, text/event-stream") {
        return Ok(());
    }
    accepts(headers, &["application/json", "text/event-stream"])
}

/// Whether every one of these types may be sent back.
pub(super) fn accepts(headers: &Headers, types: &[&str]) -> Result<(), Refusal> {
    let accepted = |wanted: &&str| {
        let group = wanted.split('/').next().unwrap_or_default();
        let values = headers.get_all(ACCEPT).filter_map(visible);
        values.flat_map(|value| value.split(',')).any(|item| {
            let offer = item.split(';').next().unwrap_or_default().trim();
            offer == "*/*"
                || offer.eq_ignore_ascii_case(wanted)
                || offer.strip_suffix("/*").is_some_and(|all| all.eq_ignore_ascii_case(group))
        })
    };
    if types.iter().all(accepted) { Ok(()) } else { Err(Refusal::NotAcceptable) }
}

/// What a request says of the revision it is written in. What cannot be read is no revision.
pub(super) fn protocol_version(headers: &Headers) -> Option<&str> {
    let value = headers.get(PROTOCOL_VERSION)?;
    let known = handshake::VERSIONS.into_iter().find(|version| version.as_bytes() == value);
    Some(known.or_else(|| visible(value)).unwrap_or_default())
}

/// The same, if it is one that is known.
pub(super) fn known_version(named: Option<&str>) -> Result<Option<&str>, Refusal> {
    match named {
        Some(version) if !handshake::is_known(version) => Err(Refusal::UnsupportedVersion),
        named => Ok(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str, value: &str) -> Headers {
        Headers::from_iter([(name, value)])
    }

    #[test]
    fn both_kinds_of_answers_must_be_acceptable() {
        let both = ["application/json", "text/event-stream"];
        for good in
            ["application/json, text/event-stream", "TEXT/event-stream;q=0.5,application/*", "*/*"]
        {
            assert_eq!(accepts(&headers(ACCEPT, good), &both), Ok(()), "{good}");
            assert_eq!(accepts_both(&headers(ACCEPT, good)), Ok(()), "{good}");
        }
        for bad in ["application/json", "text/html", ""] {
            assert_eq!(accepts(&headers(ACCEPT, bad), &both), Err(Refusal::NotAcceptable), "{bad}");
            assert_eq!(accepts_both(&headers(ACCEPT, bad)), Err(Refusal::NotAcceptable), "{bad}");
        }
        assert_eq!(accepts(&Headers::default(), &both), Err(Refusal::NotAcceptable));
    }

    #[test]
    fn only_json_is_taken() {
        assert_eq!(
            has_json_body(&headers(CONTENT_TYPE, "Application/JSON; charset=utf-8")),
            Ok(())
        );
        assert_eq!(
            has_json_body(&headers(CONTENT_TYPE, "text/plain")),
            Err(Refusal::NotJsonContent)
        );
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_the_limit() {
        let body =
            |text: &'static str| http_body_util::Full::new(Bytes::from_static(text.as_bytes()));
        assert_eq!(whole_body(&mut body("12345"), 5).await.unwrap(), "12345");
        assert_eq!(whole_body(&mut body("123456"), 5).await, Err(Refusal::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let start = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(
            http_body::Frame::data(Bytes::from_static(b"{")),
        )]);
        let endless = futures_util::StreamExt::chain(start, futures_util::stream::pending());
        let mut body = http_body_util::StreamBody::new(endless);
        assert_eq!(whole_body(&mut body, 5).await, Err(Refusal::NotJson));
    }

    #[tokio::test]
    async fn a_body_is_counted_from_its_first_piece_to_its_last_copy() {
        let pieces = |sizes: &[usize]| {
            let frame = |size: &usize| {
                Ok::<_, std::convert::Infallible>(http_body::Frame::data(vec![b' '; *size].into()))
            };
            let frames: Vec<_> = sizes.iter().map(frame).collect();
            http_body_util::StreamBody::new(futures_util::stream::iter(frames))
        };
        let buffers = Buffers::new(100_000);
        let mut body = pieces(&[30_000, 50_000]);
        let read = counted_body(&mut body, 1_000_000, &buffers).await.unwrap();
        assert_eq!((read.len(), buffers.state().0), (80_000, 80_000));
        buffers.add(30_000);
        let mut large = pieces(&[30_000, 80_000, 80_000]);
        let refused = counted_body(&mut large, 1_000_000, &buffers).await;
        assert_eq!(refused, Err(Refusal::OutOfMemory));
        buffers.give_back(30_000);
        assert_eq!(buffers.state().0, 80_000, "what there was of it is given back");
        buffers.add(100_000);
        let small = counted_body(&mut pieces(&[10, 20]), 1_000_000, &buffers).await;
        assert!(small.is_ok_and(|small| small.len() == 30), "it may be an answer");
        drop(read);
        assert_eq!(buffers.state().0, 100_000);
    }

    #[test]
    fn what_is_not_json_is_told_from_what_is_no_message() {
        let read = |body: &'static [u8]| messages(&Bytes::from_static(body)).map(|all| all.len());
        for id in ["1", "-1", "1.5", "\"a\"", "\"\""] {
            let body = format!("{{\"id\":{id},\"method\":\"ping\"}}");
            assert_eq!(messages(&body.into()).map(|all| all.len()), Ok(1), "{id}");
        }
        assert_eq!(read(b" [{\"method\":\"a\"},{\"id\":1,\"result\":1}]"), Ok(2));
        for body in [&b"{}"[..], b"[]", b"{\"id\":{},\"method\":\"ping\"}", b"[[]]", b"true"] {
            assert_eq!(read(body), Err(Refusal::NotJsonRpc));
        }
        for body in [&b""[..], b"{", b"{}x", b"{\"method\":\"\xff\"}", b"[1,]", b"\0"] {
            assert_eq!(read(body), Err(Refusal::NotJson));
        }
    }
}
