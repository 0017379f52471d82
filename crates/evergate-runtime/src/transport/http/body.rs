//! Reading response bodies within a limit.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout_at};

use super::client::ResponseBody;
use super::event_decoder::{EventDecoder, ServerEvent};
use crate::transport::TransportError;

/// How long the body of a refusal is waited for.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How much of it is shown. A secret that the cut goes through is cut off with what follows the shown part.
const DETAIL_BYTES: usize = 4096;
const DETAIL_CHARS: usize = 200;

/// The whole body, unless `go_on` finds, at what there is of it and how large it will be at least, that that is enough.
/// One allocation at most: a body that arrives in one piece is passed on as it is.
pub(crate) async fn collect_while(
    mut body: ResponseBody,
    limit: usize,
    mut go_on: impl FnMut(&[u8], usize) -> bool,
) -> Result<Collected, TransportError> {
    let announced = body.announced().unwrap_or_default();
    let announced = usize::try_from(announced).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(TransportError::TooLarge { limit });
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(data) = body.next().await {
        let data = data?;
        if first.len() + rest.len() + data.len() > limit {
            return Err(TransportError::TooLarge { limit });
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(announced.max(first.len() + data.len()));
                rest.extend_from_slice(&first);
                first = Bytes::new();
            }
            rest.extend_from_slice(&data);
        }
        let so_far = if rest.is_empty() { &first[..] } else { &rest[..] };
        if !go_on(so_far, announced.max(so_far.len())) {
            let so_far = if rest.is_empty() { first } else { rest.freeze() };
            return Ok(Collected::Part(so_far, body));
        }
    }
    Ok(Collected::Whole(if rest.is_empty() { first } else { rest.freeze() }))
}

/// What came of a refusal's body. A body that breaks off, stalls or is too long is still a refusal: its status has said
/// what matters most.
pub(crate) async fn collect_refusal(mut body: ResponseBody, limit: usize) -> Bytes {
    let mut text = BytesMut::new();
    let until = Instant::now() + REFUSAL_TIMEOUT;
    while let Ok(Some(Ok(data))) = timeout_at(until, body.next()).await {
        let room = limit - text.len();
        text.extend_from_slice(&data[..data.len().min(room)]);
        if text.len() == limit {
            break;
        }
    }
    text.freeze()
}

/// The start of a refusal for people to read: one line, printable, and without what `hide` takes out.
pub(crate) fn detail(body: &[u8], hide: impl FnOnce(&str) -> String) -> String {
    let shown = &body[..body.len().min(DETAIL_BYTES)];
    let text = hide(&String::from_utf8_lossy(shown));
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_CHARS).collect();
    if line.trim().is_empty() { String::new() } else { format!(": {}", line.trim()) }
}

/// What was read of a body.
#[derive(Debug)]
pub(crate) enum Collected {
    Whole(Bytes),
    Part(Bytes, ResponseBody),
}

/// A response body read as events.
#[derive(Debug)]
pub(crate) struct EventStream {
    body: ResponseBody,
    decoder: EventDecoder,
    limit: usize,
    ended: bool,
}

// === impl EventStream ===

impl EventStream {
    /// `cursor` is the event after which a resumed stream goes on.
    pub(crate) fn new(body: ResponseBody, limit: usize, cursor: Option<String>) -> Self {
        Self { body, decoder: EventDecoder::resuming(limit, cursor), limit, ended: false }
    }

    /// The next event; `None` when the stream has ended in good order.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerEvent>, TransportError> {
        loop {
            let event = self.decoder.next_event();
            if let Some(event) =
                event.map_err(|_| TransportError::TooLarge { limit: self.limit })?
            {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.next().await {
                Some(Ok(data)) => self.decoder.push(&data),
                Some(Err(error)) => return Err(error.into()),
                None => {
                    self.ended = true;
                    if let Some(event) = self.decoder.finish() {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    pub(crate) fn last_id(&self) -> Option<&str> {
        self.decoder.last_id()
    }

    pub(crate) fn retry(&self) -> Option<u64> {
        self.decoder.retry()
    }

    /// Reads on to the end so that the TCP connection can be used again. `true` if the end was already there.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.ended |= self.body.is_at_end();
        self.ended
    }

    /// Reads whatever is left.
    pub(crate) async fn drain(mut self) {
        while let Some(Ok(_)) = self.body.next().await {}
    }
}
