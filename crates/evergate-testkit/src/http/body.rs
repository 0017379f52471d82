//! Response bodies: one piece, or an SSE stream.

use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::sync::mpsc;

use crate::Server;
use crate::http::connection::Control;
use crate::session::Outgoing;

#[derive(Debug)]
pub(crate) enum ReplyBody {
    Full(Full<Bytes>),
    Events(Events),
}

/// An SSE stream fed by a session.
#[derive(Debug)]
pub(crate) struct Events {
    server: Server,
    control: Control,
    incoming: mpsc::Receiver<Outgoing>,
    /// Whether the client opened this stream to listen, which is counted.
    listening: bool,
    /// Set once the connection was told to break: nothing more may be written.
    broken: bool,
}

// === impl ReplyBody ===

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(full) => Pin::new(full).poll_frame(cx),
            Self::Events(events) => {
                events.poll_event(cx).map(|text| text.map(|t| Ok(Frame::data(t))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(full) => full.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(full) => full.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

// === impl Events ===

impl Events {
    pub(crate) fn new(
        server: &Server,
        control: &Control,
        incoming: mpsc::Receiver<Outgoing>,
        listening: bool,
    ) -> Self {
        if listening {
            server.count(|tally| tally.listening += 1);
        }
        let (server, control) = (server.clone(), control.clone());
        Self { server, control, incoming, listening, broken: false }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.broken {
                // The connection flushes what it has while this waits, then breaks.
                return Poll::Pending;
            }
            let outgoing = match self.incoming.poll_recv(cx) {
                Poll::Ready(Some(outgoing)) => outgoing,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            if let Some(text) = self.encode(outgoing) {
                return Poll::Ready(Some(text.into()));
            }
        }
    }

    /// The event's text, or `None` when it was something to do.
    fn encode(&mut self, outgoing: Outgoing) -> Option<String> {
        match outgoing {
            Outgoing::Message { event_id, json, is_answer } => {
                if is_answer {
                    self.server.count(|tally| tally.answered += 1);
                }
                Some(event("message", event_id.as_deref(), &json))
            }
            Outgoing::Prime { event_id, retry_ms } => {
                let retry = retry_ms.map(|ms| format!("retry: {ms}\n")).unwrap_or_default();
                Some(format!("id: {event_id}\n{retry}data:\n\n"))
            }
            Outgoing::Comment => Some(": working on it\n\n".into()),
            Outgoing::Endpoint(path) => Some(event("endpoint", None, &path)),
            Outgoing::CloseAfter(bytes) => {
                self.control.close_after(bytes);
                None
            }
            Outgoing::Cut => {
                self.broken = true;
                self.control.cut();
                None
            }
            Outgoing::HalfClose => {
                self.broken = true;
                self.control.half_close();
                None
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if self.listening {
            // First: whoever hears of the change looks whether this is still read.
            self.incoming.close();
            self.server.count(|tally| tally.listening -= 1);
        }
    }
}

fn event(name: &str, id: Option<&str>, data: &str) -> String {
    let mut text = format!("event: {name}\n");
    if let Some(id) = id {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "id: {id}");
    }
    for line in data.split('\n') {
        let _ = writeln!(text, "data: {line}");
    }
    text.push('\n');
    text
}
