//! A log as server-sent events, with signs of life while there is nothing to say.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::event_id::{EventId, StreamId};
use crate::gateway::client::Client;
use crate::gateway::event_log::Tail;

/// How soon a client is to come back after a stream broke.
const RETRY: &str = "retry: 1000\n";

/// A comment: every client ignores it, and no idle timer fires.
pub(super) const SIGN_OF_LIFE: Bytes = Bytes::from_static(b": still here\n\n");

/// What comes before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Revision 2025-11-25: an empty event with an id, so that the client can come back from the very start.
    Primed,
    Plain,
}

struct Streaming {
    client: Arc<Client>,
    stream: StreamId,
    tail: Tail,
    first: Option<Bytes>,
    ticks: Interval,
    /// Ends the stream without ending the log.
    stop: CancellationToken,
}

/// The rest of a log.
pub(super) fn of(
    client: Arc<Client>,
    stream: StreamId,
    tail: Tail,
    opening: Opening,
    keep_alive: Duration,
    stop: CancellationToken,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let first = match opening {
        Opening::Primed => {
            let id = EventId { stream: stream.clone(), next: tail.position() };
            Bytes::from(format!("id: {id}\n{RETRY}data: \n\n"))
        }
        // Something must be sent for the headers to leave; comments are ignored by every client.
        Opening::Plain => Bytes::from_static(b": open\n\n"),
    };
    let ticks = signs_of_life(keep_alive);
    let state = Streaming { client, stream, tail, first: Some(first), ticks, stop };
    unfold(state, |mut state| async move { state.next().await.map(|event| (event, state)) })
}

/// When to send one.
pub(super) fn signs_of_life(every: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// One event.
pub(super) fn event(id: Option<&EventId>, message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + 96);
    if let Some(id) = id {
        text.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    text.extend_from_slice(b"event: message\ndata: ");
    extend_on_one_line(&mut text, message);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// Copies JSON without line breaks. In valid JSON these are outside of strings, where a space means the same.
pub(crate) fn extend_on_one_line(text: &mut Vec<u8>, json: &[u8]) {
    let start = text.len();
    text.extend_from_slice(json);
    for byte in &mut text[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

// === impl Streaming ===

impl Streaming {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            next = self.tail.next() => {
                let (number, message) = next?;
                let id = EventId { stream: self.stream.clone(), next: number + 1 };
                Some(event(Some(&id), &message))
            }
            _ = self.ticks.tick() => {
                self.client.touch(Instant::now());
                Some(SIGN_OF_LIFE)
            }
        }
    }
}
