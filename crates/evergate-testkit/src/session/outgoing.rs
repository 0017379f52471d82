//! Messages on their way to a client.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::session::{Session, StreamId};

/// How many messages may wait for one client. Far above what any test sends at once; a client
/// that reads nothing loses its stream instead of growing this process.
pub(crate) const OUTBOX_LIMIT: usize = 1024;

/// One thing to do to the stream that leads to a client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A JSON-RPC message (or, on purpose, something that is not one).
    Message { event_id: Option<String>, json: String, is_answer: bool },
    /// An event without a message, which only gives the client an id to resume from. SSE only.
    Prime { event_id: String, retry_ms: Option<u64> },
    /// A line that clients must skip. SSE only.
    Comment,
    /// The first event of the 2024-11-05 transport. SSE only.
    Endpoint(String),
    /// Lets so many more bytes through, then closes.
    CloseAfter(usize),
    /// Drops the connection.
    Cut,
    /// Ends this direction, keeps reading the other.
    HalfClose,
}

/// Where the messages that belong to one request go.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// One stream for everything: line transports and the 2024-11-05 SSE stream.
    Outbox(mpsc::Sender<Outgoing>),
    /// One SSE stream of a streamable HTTP session.
    Stream(Arc<Session>, StreamId),
    /// The request is answered with one JSON body, so that nothing can come before it.
    Nowhere,
}

// === impl Sink ===

impl Sink {
    /// Hands a message over; `false` if there is nobody to hand it to.
    pub(crate) fn send(&self, json: String) -> bool {
        self.deliver(json, false)
    }

    /// Like [`Sink::send`] for the answer itself, which is counted apart.
    pub(crate) fn answer(&self, json: String) -> bool {
        self.deliver(json, true)
    }

    /// Sends what a fault made of an answer. It is answered with the last piece.
    pub(crate) fn answer_in_pieces(&self, mut pieces: Vec<String>) {
        let last = pieces.pop();
        for piece in pieces {
            self.send(piece);
        }
        if let Some(last) = last {
            self.answer(last);
        }
    }

    /// Does something to the stream that is not a message.
    pub(crate) fn act(&self, action: Outgoing) {
        match self {
            Self::Outbox(outbox) => drop(outbox.try_send(action)),
            Self::Stream(session, stream) => session.act(*stream, action),
            Self::Nowhere => {}
        }
    }

    /// Lets go of the client, which has to come back for the rest. Streams of streamable HTTP only.
    pub(crate) fn hang_up(&self) {
        if let Self::Stream(session, stream) = self {
            session.detach(*stream);
        }
    }

    fn deliver(&self, json: String, is_answer: bool) -> bool {
        match self {
            Self::Outbox(outbox) => {
                outbox.try_send(Outgoing::Message { event_id: None, json, is_answer }).is_ok()
            }
            Self::Stream(session, stream) => {
                session.send_on(*stream, json, is_answer);
                true
            }
            Self::Nowhere => false,
        }
    }
}
