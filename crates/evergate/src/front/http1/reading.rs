//! What a client sends: heads, bodies, and the news that it is gone.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use evergate_runtime::wire::{BadFraming, Framing, Step};
use http_body::{Body, Frame, SizeHint};
use memchr::memchr;
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

use super::request_head::{self, BadHead, LastHead, RequestHead};

/// A connection's way in, shared by the connection, which watches for its end, and the body of the request it is at.
pub(super) struct Inlet<R>(Arc<Mutex<Reading<R>>>);

pub(super) struct Reading<R> {
    reader: R,
    /// What was read and not yet used.
    buffer: BytesMut,
    /// Of the request before.
    last: LastHead,
    /// How much of it holds no complete head, as was found out.
    tried: usize,
    /// What is left of the body of the request that is answered.
    framing: Framing,
    /// How much of the body is read at once.
    room: usize,
    /// The client waits to be told to send its body.
    expects_continue: bool,
    /// Somebody waits for more of the body.
    is_awaited: bool,
}

/// The body of a request that is being answered.
pub(crate) struct RequestBody<R>(Where<R>);

enum Where<R> {
    /// All of it came together with the head, as most do. Nothing once it was taken.
    Here(Bytes),
    Coming(Inlet<R>),
}

/// A request, or why it is none.
type Taken<R> = Result<RequestHead<RequestBody<R>>, BadHead>;

/// A body that cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokenBody {
    #[error(transparent)]
    Malformed(#[from] BadFraming),
    #[error("the client hung up")]
    HungUp,
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Most requests fit. Also the most that is read before anybody wants it.
const SMALL_READ: usize = 4 * 1024;
const LARGE_READ: usize = 64 * 1024;

// === impl Inlet ===

impl<R> Inlet<R> {
    pub(super) fn new(reader: R) -> Self {
        Self(Arc::new(Mutex::new(Reading {
            reader,
            buffer: BytesMut::new(),
            last: LastHead::default(),
            tried: 0,
            framing: Framing::Done,
            room: SMALL_READ,
            expects_continue: false,
            is_awaited: false,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Reading<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of the request whose head is taken last.
    pub(super) fn body(&self) -> RequestBody<R> {
        RequestBody(Where::Coming(Self(self.0.clone())))
    }
}

// === impl Reading ===

impl<R: AsyncRead + Unpin> Reading<R> {
    /// The next request, whose body is still to be read; `None` at the end of the connection.
    pub(super) fn poll_head(
        &mut self,
        coming: impl Fn() -> RequestBody<R>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Taken<R>>>> {
        loop {
            // Without another line break it is not complete, and looking through all of it again would be for nothing.
            if memchr(b'\n', &self.buffer[self.tried..]).is_some()
                || self.buffer.len() > request_head::MAX_HEAD
            {
                let unknown = || RequestBody(Where::Here(Bytes::new()));
                match self.last.take(&mut self.buffer, unknown).transpose() {
                    Some(Ok(mut head)) => {
                        self.tried = 0;
                        self.framing = head.framing;
                        self.expects_continue = head.expects_continue;
                        head.request.body = match self.take_whole() {
                            Some(whole) => RequestBody(Where::Here(whole)),
                            None => coming(),
                        };
                        return Poll::Ready(Ok(Some(Ok(head))));
                    }
                    Some(Err(bad)) => return Poll::Ready(Ok(Some(Err(bad)))),
                    None => {}
                }
            }
            self.tried = self.buffer.len();
            if ready!(self.poll_read(SMALL_READ, context))? == 0 {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// The body, if all of it is here.
    fn take_whole(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.framing.announced()?).ok()?;
        if length > self.buffer.len() {
            return None;
        }
        self.framing = Framing::Done;
        Some(if length == 0 { Bytes::new() } else { self.buffer.split_to(length).freeze() })
    }

    /// Whether there is some of the next request.
    pub(super) fn has_begun(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Resolves when the client has hung up. It may send the next request before it has the answer to this one, but not
    /// without limit.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.buffer.len() < SMALL_READ {
            match ready!(self.poll_read(SMALL_READ, context)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    /// Reads whatever comes, for nobody. Resolves when the client has hung up.
    pub(super) fn poll_drained(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.buffer.clear();
            match ready!(self.poll_read(SMALL_READ, context)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
    }

    /// Whether the client must be told to send what somebody waits for. Once.
    pub(super) fn is_to_be_asked(&mut self) -> bool {
        self.is_awaited && std::mem::take(&mut self.expects_continue)
    }

    /// The request is answered: goes past what nobody read of its body. `false` if there may be more to come.
    pub(super) fn finish(&mut self) -> bool {
        let is_at_end = loop {
            match self.framing.step(&mut self.buffer) {
                Ok(Step::Data(_)) => {}
                Ok(Step::End) => break true,
                // A client that waits to be told to send it may or may not.
                Ok(Step::More) | Err(BadFraming) => break false,
            }
        };
        if self.room > SMALL_READ && self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        self.room = SMALL_READ;
        self.is_awaited = false;
        is_at_end
    }

    fn poll_read(&mut self, room: usize, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // From its start again, if nobody has any of it any more: what was used last is still in the processor's cache. Else
        // what is left of it will do for most.
        let left = self.buffer.capacity() - self.buffer.len();
        if left < room && !self.buffer.try_reclaim(room) && left < room / 2 {
            self.buffer.reserve(room);
        }
        poll_read_buf(Pin::new(&mut self.reader), context, &mut self.buffer)
    }
}

// === impl RequestBody ===

impl<R> RequestBody<R> {
    /// How much of it is still to be taken, if that is known.
    fn left(&self) -> Option<u64> {
        match &self.0 {
            Where::Here(whole) => Some(whole.len() as u64),
            Where::Coming(inlet) => inlet.lock().framing.announced(),
        }
    }
}

impl<R: AsyncRead + Unpin> Body for RequestBody<R> {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let mut reading = match &mut self.get_mut().0 {
            Where::Here(whole) if whole.is_empty() => return Poll::Ready(None),
            Where::Here(whole) => return Poll::Ready(Some(Ok(Frame::data(std::mem::take(whole))))),
            Where::Coming(inlet) => inlet.lock(),
        };
        let reading = &mut *reading;
        loop {
            match reading.framing.step(&mut reading.buffer) {
                Ok(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Step::End) => return Poll::Ready(None),
                Ok(Step::More) => {}
                Err(bad) => return Poll::Ready(Some(Err(bad.into()))),
            }
            if let Some(expected) = reading.framing.announced() {
                let expected = usize::try_from(expected).unwrap_or(LARGE_READ);
                reading.room = expected.clamp(SMALL_READ, LARGE_READ);
            }
            reading.is_awaited = true;
            let room = reading.room;
            match ready!(reading.poll_read(room, context)) {
                Ok(0) => return Poll::Ready(Some(Err(BrokenBody::HungUp))),
                Ok(length) if length >= room => reading.room = (2 * room).min(LARGE_READ),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            reading.is_awaited = false;
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left().map(SizeHint::with_exact).unwrap_or_default()
    }
}
