//! HTTP/1.1 towards servers, without a task in between: whoever sends a request reads its response off the connection
//! itself, and puts the connection back when the response is read.
//!
//! Written by hand because of what stands between a caller and its bytes otherwise. In hyper a connection is a task of
//! its own, reached over a channel and answering over another; with its pool that was a third of what a small call cost
//! (`docs/performance.md`). What is left is little: a head is parsed by `httparse`, the rest is `framing`.
//!
//! Nothing is retried here: only `retry/` decides to try again.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderValue, StatusCode, Uri};
use rustls::ClientConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::runtime::{Handle, Id};
use tokio_util::io::poll_read_buf;

use super::connect::{BoxError, Connector, Dialer, ServerStream};
use super::framing::{BadFraming, Framing, Step};
use super::headers::ContentType;
use super::pool::{Pool, Rack};
use super::request_head::RequestHead;
use super::response_head::{self, BadHead, LastHead, ResponseHead};
use crate::connection::CallWatch;
use crate::error::SharedError;
use crate::retry::Reset;
use crate::spare;
use crate::transport::TransportError;

/// A client with a pool of its own, for the one server its requests go to. Cheap to clone; clones share the pool.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    connector: Connector,
    pool: Arc<Pool>,
}

/// A connection between two requests, or in the middle of one.
pub(super) struct HttpConnection {
    stream: Box<dyn ServerStream>,
    /// What was read and not yet used.
    buffer: BytesMut,
    /// Of the response before.
    last: LastHead,
    /// Whoever waits for it is woken by the runtime it was opened on: in another every answer would come by way of a
    /// foreign thread.
    pub(super) home: Id,
}

/// The response to a request, its body still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) content_type: ContentType,
    pub(crate) session_id: Option<HeaderValue>,
    /// Of a refusal that may be about our rate: when it ends.
    pub(crate) reset: Option<Reset>,
    pub(crate) body: ResponseBody,
}

/// Read to its end it gives its connection back; dropped before, it closes it.
pub(crate) struct ResponseBody {
    /// In a box, as everywhere: it passes many hands.
    connection: Option<Box<HttpConnection>>,
    framing: Framing,
    keep_alive: Option<Duration>,
    /// How much is read at once. Grows with what comes: a stream that is silent by nature needs no large buffer.
    room: usize,
    /// Where its connection belongs.
    rack: Arc<Rack>,
}

/// Why no response came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("could not connect")]
    Connect(#[source] BoxError),
    #[error("given up before it was sent")]
    GivenUp,
    #[error("the request could not be sent")]
    Write(#[source] io::Error),
    #[error("the response could not be read")]
    Read(#[source] io::Error),
    #[error("the server hung up before its response was complete")]
    Closed,
    #[error(transparent)]
    Head(#[from] BadHead),
    #[error(transparent)]
    Framing(#[from] BadFraming),
}

/// The longest head of a response.
const MAX_HEAD: usize = 64 * 1024;
/// Room made for what comes next: most answers fit, and large ones are read in pieces that keep caches warm.
const SMALL_READ: usize = 8 * 1024;
const LARGE_READ: usize = 128 * 1024;
/// Pieces that are read past at once for the sake of the connection. A server that never stops talking is not worth it.
const MAX_TAIL: usize = 16;

// === impl HttpClient ===

impl HttpClient {
    pub(crate) fn new(dialer: Option<Dialer>, tls_config: Option<Arc<ClientConfig>>) -> Self {
        Self { connector: Connector::new(dialer, tls_config), pool: Arc::default() }
    }

    /// The same with an empty pool. A new generation starts on new TCP connections: where the old one died of
    /// silence its idle connections may well be dead too, and each would cost an attempt to find out.
    pub(crate) fn with_new_pool(&self) -> Self {
        Self { connector: self.connector.clone(), pool: Arc::default() }
    }

    /// Sends a request and waits for the head of its response. `watch` learns when the first byte may have left, and
    /// keeps it from leaving if its caller is gone by then.
    pub(super) async fn send(
        &self,
        uri: &Uri,
        head: &RequestHead,
        body: Bytes,
        watch: Option<&CallWatch>,
    ) -> Result<Response, HttpError> {
        let (kept, rack) = self.pool.take();
        let mut connection = if let Some(connection) = kept {
            connection
        } else {
            // Rare, and large.
            let stream = Box::pin(self.connector.connect(uri.clone())).await;
            let stream = stream.map_err(HttpError::Connect)?;
            let home = Handle::current().id();
            Box::new(HttpConnection {
                stream,
                buffer: BytesMut::new(),
                last: LastHead::default(),
                home,
            })
        };
        let written = connection.write(head, body, watch).await?;
        let mut response = connection.read_head().await?;
        if !written {
            // The server did not wait for all of the request, and will not read the rest.
            response.keep_alive = None;
        }
        let ResponseHead { status, content_type, session_id, reset, keep_alive, framing, .. } =
            response;
        let mut body = ResponseBody {
            connection: Some(connection),
            framing,
            keep_alive,
            room: SMALL_READ,
            rack,
        };
        if framing.announced() == Some(0) {
            body.finish();
        }
        Ok(Response { status, content_type, session_id, reset, body })
    }
}

// === impl HttpConnection ===

impl HttpConnection {
    /// Whether it can take another request, as far as the runtime knows: still open, and nothing has come that nobody
    /// asked for.
    pub(super) fn is_idle(&mut self) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut unasked = [0];
        let mut unasked = ReadBuf::new(&mut unasked);
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut unasked);
        self.buffer.is_empty() && read.is_pending()
    }

    /// The same as far as the system knows: the runtime hears of an end only in its next turn, and of a request that is
    /// sent after it nobody can tell what became of it.
    pub(super) fn is_silent(&self) -> bool {
        let Some(socket) = self.stream.socket() else { return true };
        let unasked = SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]);
        unasked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends head and body together. `false` if the server refused it before all of it was sent.
    async fn write(
        &mut self,
        head: &RequestHead,
        body: Bytes,
        watch: Option<&CallWatch>,
    ) -> Result<bool, HttpError> {
        let mut rest = head.with_body(body, spare::text());
        let mut begun = false;
        let sent = std::future::poll_fn(|context| {
            loop {
                let written = if rest.has_remaining() {
                    if !begun && watch.is_some_and(|watch| !watch.mark_sent()) {
                        return Poll::Ready(Err(HttpError::GivenUp));
                    }
                    let mut slices = [IoSlice::new(&[]); 2];
                    let count = rest.chunks_vectored(&mut slices);
                    let stream = Pin::new(&mut self.stream);
                    match &slices[..count] {
                        [all] => stream.poll_write(context, all),
                        pieces => stream.poll_write_vectored(context, pieces),
                    }
                } else {
                    // What encrypts may have kept something back.
                    match Pin::new(&mut self.stream).poll_flush(context) {
                        Poll::Ready(Ok(())) => return Poll::Ready(Ok(true)),
                        flushing => flushing.map_ok(|()| 0),
                    }
                };
                match written {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(HttpError::Write(io::ErrorKind::WriteZero.into())));
                    }
                    Poll::Ready(Ok(length)) => {
                        begun = true;
                        rest.advance(length);
                    }
                    Poll::Ready(Err(error)) => {
                        // It may have said why before it hung up.
                        let said = begun
                            && matches!(self.poll_read(context, SMALL_READ), Poll::Ready(Ok(1..)));
                        return Poll::Ready(if said {
                            Ok(false)
                        } else {
                            Err(HttpError::Write(error))
                        });
                    }
                    Poll::Pending => match self.refused_early() {
                        Ok(true) => return Poll::Ready(Ok(false)),
                        // What it says before it has heard everything can wait, but not without limit.
                        Ok(false) if self.buffer.len() > MAX_HEAD => return Poll::Pending,
                        Ok(false) => match ready!(self.poll_read(context, SMALL_READ)) {
                            Ok(0) => return Poll::Ready(Err(HttpError::Closed)),
                            Ok(_) => {}
                            Err(error) => return Poll::Ready(Err(error)),
                        },
                        Err(error) => return Poll::Ready(Err(error.into())),
                    },
                }
            }
        })
        .await;
        if sent.is_err()
            && !begun
            && let Some(watch) = watch
        {
            watch.mark_unsent();
        }
        spare::keep_text(rest.into_inner().0.into_inner());
        sent
    }

    /// Whether what has come so far is the head of a refusal. Anything else is no reason to stop in the middle of a
    /// request.
    fn refused_early(&self) -> Result<bool, BadHead> {
        let head = response_head::parse(&self.buffer)?;
        Ok(head
            .is_some_and(|(head, _)| !head.status.is_informational() && !head.status.is_success()))
    }

    async fn read_head(&mut self) -> Result<ResponseHead, HttpError> {
        loop {
            if !self.buffer.is_empty()
                && let Some((head, length)) = self.last.parse(&self.buffer)?
            {
                self.buffer.advance(length);
                if head.status.is_informational() {
                    if head.status == StatusCode::SWITCHING_PROTOCOLS {
                        return Err(BadHead::SWITCHED.into());
                    }
                    continue;
                }
                return Ok(head);
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(BadHead::TOO_LONG.into());
            }
            if std::future::poll_fn(|context| self.poll_read(context, SMALL_READ)).await? == 0 {
                return Err(HttpError::Closed);
            }
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
    ) -> Poll<Result<usize, HttpError>> {
        // From its start again, if nobody has any of it any more: what was used last is still in the processor's cache. Else
        // what is left of it will do for most answers.
        let left = self.buffer.capacity() - self.buffer.len();
        let wanted = if room > SMALL_READ { room } else { SMALL_READ / 4 };
        if left < room && !self.buffer.try_reclaim(room) && left < wanted {
            self.buffer.reserve(room);
        }
        let read = poll_read_buf(Pin::new(&mut self.stream), context, &mut self.buffer);
        read.map_err(HttpError::Read)
    }
}

impl std::fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpConnection")
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, HttpError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
            match self.framing.step(&mut connection.buffer) {
                Ok(Step::Data(data)) => {
                    // Now rather than at the next call, which may never come.
                    if self.framing.announced() == Some(0) {
                        self.finish();
                    }
                    return Poll::Ready(Some(Ok(data)));
                }
                Ok(Step::End) => {
                    self.finish();
                    return Poll::Ready(None);
                }
                Ok(Step::More) => {}
                Err(error) => return self.failed(error.into()),
            }
            if let Some(expected) = self.framing.announced() {
                let expected = usize::try_from(expected).unwrap_or(LARGE_READ);
                self.room = expected.clamp(SMALL_READ, LARGE_READ);
            }
            match ready!(connection.poll_read(context, self.room)) {
                Ok(0) if self.framing == Framing::UntilClose => self.connection = None,
                Ok(0) => return self.failed(HttpError::Closed),
                Ok(length) if length >= self.room => self.room = (2 * self.room).min(LARGE_READ),
                Ok(_) => {}
                Err(error) => return self.failed(error),
            }
        }
    }

    /// All of it, if it came together with the head, as most do.
    pub(crate) fn take_whole(&mut self, limit: usize) -> Option<Bytes> {
        let length = usize::try_from(self.framing.announced()?).ok()?;
        let buffer = &mut self.connection.as_mut()?.buffer;
        if length > limit || buffer.len() < length {
            return None;
        }
        let whole = buffer.split_to(length).freeze();
        self.finish();
        Some(whole)
    }

    /// Reads on as far as there is something to read, so that the connection can be used again. `true` if that was all.
    pub(crate) fn is_at_end(&mut self) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        for _ in 0..MAX_TAIL {
            match self.poll_next(&mut context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }

    /// How much is still to come, as far as the server said.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.framing.announced()
    }

    /// It is read: the connection is free for the next request.
    fn finish(&mut self) {
        self.framing = Framing::Done;
        if let Some(connection) = self.connection.take()
            && let Some(kept) = self.keep_alive
        {
            self.rack.put(connection, kept);
        }
    }

    fn failed(&mut self, error: HttpError) -> Poll<Option<Result<Bytes, HttpError>>> {
        self.connection = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").field("framing", &self.framing).finish_non_exhaustive()
    }
}

// === impl HttpError ===

impl From<HttpError> for TransportError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Connect(source) => Self::Connect(SharedError::from(source)),
            error => Self::Broken(SharedError::new(error)),
        }
    }
}

#[cfg(test)]
mod tests;
