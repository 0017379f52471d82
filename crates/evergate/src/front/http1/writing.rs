//! What a client is sent: heads, and bodies in one piece or as they come.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use evergate_runtime::spare;
use http::StatusCode;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::super::body::{ReplyBody, Response};
use super::super::respond::Pieces;
use super::date;
use super::patience::Patience;
use super::request_head::Terms;

/// A connection's way out.
pub(super) struct Writing<W> {
    writer: W,
    /// What is sent next: heads, and pieces too small to be sent from where they are. Without room of its own when there is
    /// nothing.
    text: Vec<u8>,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Length(u64),
    Chunks,
    /// By that of the connection: for clients of HTTP/1.0.
    Close,
    /// It has none, and says nothing of one.
    NoBody,
}

/// A client that takes nothing for longer is given up: a result that goes out while it comes in holds a place at its
/// server, and a client that stops reading would hold it as long as it likes. Longer than any network needs to take another
/// packet.
const TAKES_NOTHING_FOR: Duration = Duration::from_secs(60);
/// Pieces up to this size are copied together and sent at once.
const SMALL: usize = 4 * 1024;
/// How much is put together.
const ENOUGH: usize = 16 * 1024;

// === impl Writing ===

impl<W: AsyncWrite + Unpin> Writing<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, text: Vec::new() }
    }

    /// Puts down the head of a response, and says whether another may follow on the same connection.
    pub(super) fn head(&mut self, reply: &Response, end: End, terms: Terms) -> bool {
        let text = self.text();
        if reply.status == StatusCode::OK {
            text.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            let reason = reply.status.canonical_reason().unwrap_or_default();
            // Into memory: it cannot fail.
            let _ = write!(text, "HTTP/1.1 {} {reason}\r\n", reply.status.as_str());
        }
        let goes_on = terms.keep_alive && end != End::Close && !reply.closes;
        if let Some(kind) = reply.content_type {
            text.extend_from_slice(b"content-type: ");
            text.extend_from_slice(kind.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        for (name, value) in &reply.headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        match end {
            End::Length(length) => {
                text.extend_from_slice(b"content-length: ");
                text.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
                text.extend_from_slice(b"\r\n");
            }
            End::Chunks => text.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            End::Close | End::NoBody => {}
        }
        match (goes_on, terms.is_old) {
            (false, _) => text.extend_from_slice(b"connection: close\r\n"),
            (true, true) => text.extend_from_slice(b"connection: keep-alive\r\n"),
            (true, false) => {}
        }
        date::extend(text);
        text.extend_from_slice(b"\r\n");
        goes_on
    }

    /// Puts down a body that is here as a whole, if it is small: one piece is sent with less ado than several. Else it is left.
    pub(super) fn put(&mut self, body: ReplyBody) -> Option<ReplyBody> {
        match &body {
            ReplyBody::Whole(pieces) if pieces.iter().map(Bytes::len).sum::<usize>() <= SMALL => {
                let text = self.text();
                for piece in pieces {
                    text.extend_from_slice(piece);
                }
                None
            }
            _ => Some(body),
        }
    }

    /// Sends a body that is here as a whole.
    pub(super) async fn whole(
        &mut self,
        [opening, id, before, payload, end]: Pieces,
        patience: &mut Patience,
    ) -> io::Result<()> {
        for piece in [opening, id, before] {
            self.text().extend_from_slice(&piece);
        }
        self.send(payload.chain(end), patience).await
    }

    /// Tells a client to send its body.
    pub(super) async fn ask_for_body(&mut self, patience: &mut Patience) -> io::Result<()> {
        self.text().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        self.flush(patience).await
    }

    /// Takes a piece of a body whose end is told by `end`. A large one is sent at once.
    pub(super) async fn piece(
        &mut self,
        piece: Bytes,
        end: End,
        patience: &mut Patience,
    ) -> io::Result<()> {
        // Chunks of no length mean the end.
        if piece.is_empty() {
            return Ok(());
        }
        if end == End::Chunks {
            // Into memory: it cannot fail.
            let _ = write!(self.text(), "{:x}\r\n", piece.len());
        }
        if piece.len() <= SMALL {
            self.text().extend_from_slice(&piece);
        } else {
            self.send(piece, patience).await?;
        }
        if end == End::Chunks {
            self.text().extend_from_slice(b"\r\n");
        }
        if self.text.len() > ENOUGH { self.flush(patience).await } else { Ok(()) }
    }

    /// Sends the end of a body that came in pieces.
    pub(super) async fn end(&mut self, end: End, patience: &mut Patience) -> io::Result<()> {
        if end == End::Chunks {
            self.text().extend_from_slice(b"0\r\n\r\n");
        }
        self.flush(patience).await
    }

    /// Whether something is put down and not sent.
    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    pub(super) async fn flush(&mut self, patience: &mut Patience) -> io::Result<()> {
        self.send(&b""[..], patience).await
    }

    /// Sends what is put down, and then this.
    async fn send(&mut self, more: impl Buf, patience: &mut Patience) -> io::Result<()> {
        let Self { writer, text } = self;
        let mut rest = text.chain(more);
        let mut until = None;
        poll_fn(|context| {
            while rest.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 4];
                let count = rest.chunks_vectored(&mut slices);
                let writer = Pin::new(&mut *writer);
                let written = match &slices[..count] {
                    [all] => writer.poll_write(context, all),
                    pieces => writer.poll_write_vectored(context, pieces),
                };
                match written {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    Poll::Ready(Ok(length)) => {
                        rest.advance(length);
                        until = None;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        let until =
                            *until.get_or_insert_with(|| Instant::now() + TAKES_NOTHING_FOR);
                        ready!(patience.poll_until(until, context));
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        spare::keep_text(std::mem::take(&mut self.text));
        Ok(())
    }

    /// What is sent next, to be added to.
    fn text(&mut self) -> &mut Vec<u8> {
        if self.text.is_empty() {
            self.text = spare::text();
        }
        &mut self.text
    }

    /// Nothing will follow.
    pub(super) async fn shut(&mut self) -> io::Result<()> {
        self.writer.shutdown().await
    }
}
