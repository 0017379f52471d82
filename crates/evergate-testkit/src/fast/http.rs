//! The server over streamable HTTP, at every path, so that one process can be many servers.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::answer::Pieces;
use super::{Answer, FastServer};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// What is answered, in as few pieces as possible without copying much.
#[derive(Debug)]
struct Ready {
    pieces: std::array::IntoIter<Bytes, 3>,
    left: u64,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The length is announced.
    Known,
    /// Nobody knows the length of a stream before it ends.
    Chunked,
    /// A stream that waits for what never comes.
    Never,
}

#[derive(Debug, Default)]
struct Sessions {
    alive: Mutex<HashSet<u64>>,
    last: AtomicU64,
}

/// A result below this is copied: one piece is written faster than three.
const COPIED: usize = 16 * 1024;

// === impl FastServer ===

impl FastServer {
    /// Serves until it is dropped.
    pub async fn serve_http(self, listener: TcpListener) -> io::Result<()> {
        let server = Arc::new((self, Sessions::default()));
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            while connections.try_join_next().is_some() {}
            stream.set_nodelay(true)?;
            let server = Arc::clone(&server);
            let service = service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(server.0.respond(&server.1, request).await) }
            });
            connections
                .spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }

    async fn respond(&self, sessions: &Sessions, request: Request<Incoming>) -> Response<Ready> {
        let session = session(request.headers());
        match *request.method() {
            Method::POST => {}
            Method::GET if !sessions.knows(session) => return refused(session),
            Method::GET => return response(StatusCode::OK, EVENTS, Ready::empty(End::Never)),
            Method::DELETE if sessions.end(session) => return plain(StatusCode::OK),
            Method::DELETE => return refused(session),
            _ => return plain(StatusCode::METHOD_NOT_ALLOWED),
        }
        let Ok(message) = request.into_body().collect().await else {
            return plain(StatusCode::BAD_REQUEST);
        };
        let message = message.to_bytes();
        match self.answer(&message) {
            Answer::Unreadable => plain(StatusCode::BAD_REQUEST),
            Answer::Initialized(pieces) => {
                let mut response = self.ready(pieces);
                response.headers_mut().insert(SESSION, sessions.begin());
                response
            }
            _ if !sessions.knows(session) => refused(session),
            Answer::Nothing => plain(StatusCode::ACCEPTED),
            Answer::Response(pieces) => self.ready(pieces),
        }
    }

    fn ready(&self, mut pieces: Pieces) -> Response<Ready> {
        if !self.settings.event_streams {
            return response(StatusCode::OK, JSON, Ready::new(pieces, End::Known));
        }
        pieces.before.splice(0..0, *b"event: message\ndata: ");
        pieces.after.extend(b"\n\n");
        response(StatusCode::OK, EVENTS, Ready::new(pieces, End::Chunked))
    }
}

fn session(headers: &HeaderMap) -> Option<u64> {
    let id = headers.get(SESSION)?.to_str().ok()?;
    // What is no number is no session that ever was.
    Some(u64::from_str_radix(id, 16).unwrap_or_default())
}

fn refused(session: Option<u64>) -> Response<Ready> {
    plain(if session.is_some() { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST })
}

fn plain(status: StatusCode) -> Response<Ready> {
    response(status, JSON, Ready::empty(End::Known))
}

fn response(status: StatusCode, kind: HeaderValue, body: Ready) -> Response<Ready> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

// === impl Sessions ===

impl Sessions {
    fn begin(&self) -> HeaderValue {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        HeaderValue::from_str(&format!("{id:016x}")).unwrap_or(JSON)
    }

    fn knows(&self, session: Option<u64>) -> bool {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        session.is_some_and(|id| alive.contains(&id))
    }

    fn end(&self, session: Option<u64>) -> bool {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        session.is_some_and(|id| alive.remove(&id))
    }
}

// === impl Ready ===

impl Ready {
    fn new(Pieces { mut before, result, after }: Pieces, end: End) -> Self {
        let left = (before.len() + result.len() + after.len()) as u64;
        let pieces = if result.len() < COPIED {
            before.reserve(result.len() + after.len());
            before.extend_from_slice(&result);
            before.extend_from_slice(&after);
            [before.into(), Bytes::new(), Bytes::new()]
        } else {
            [before.into(), result, after.into()]
        };
        Self { pieces: pieces.into_iter(), left, end }
    }

    fn empty(end: End) -> Self {
        Self { pieces: [const { Bytes::new() }; 3].into_iter(), left: 0, end }
    }
}

impl Body for Ready {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.pieces.find(|piece| !piece.is_empty()) {
            Some(piece) => {
                self.left -= piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            // The connection notices by itself when the client has gone.
            None if self.end == End::Never => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.end != End::Never
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            End::Known => SizeHint::with_exact(self.left),
            End::Chunked | End::Never => SizeHint::default(),
        }
    }
}
