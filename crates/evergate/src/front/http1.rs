//! HTTP/1.1 towards clients. A connection is one task: it reads a request, has it answered, writes the answer, and so on.
//! While it waits for the answer it watches whether its client is still there.
//!
//! Written by hand because of what it costs otherwise: a body that arrives together with its head, as nearly all do, goes
//! through a channel in hyper and wakes the task once more for it (`docs/decisions/0012`). A head is parsed by `httparse`, the
//! framing is that of the runtime's client.

mod date;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod echo;
mod patience;
mod reading;
mod request_head;
mod writing;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evergate_runtime::moment;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::arriving::BrokeOff;
use super::body::{self, ReplyBody};
use super::request::Request;
use super::{Reply, respond};
use crate::cancelled::cancelled;
use crate::gateway::error_body::{INVALID_REQUEST, came_too_late};
use patience::Patience;
use reading::Inlet;
pub(crate) use reading::RequestBody;
use request_head::{BadHead, RequestHead, Terms};
use writing::{End, Writing};

/// How long a client may take to send the head of a request, once it has begun to, and to begin with the first.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long it may ask nothing after that. Longer than clients keep connections, most of them 90 s or less: who sends
/// knows best when it ends.
const IDLE_FOR: Duration = Duration::from_secs(120);
/// How long requests are still answered once the gateway ends: longer than a request is on its way. The answer says that
/// the connection ends with it; whoever asks nothing is told unasked.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
/// Longer than that: nobody can ask anything any more.
pub(crate) const LAST_REQUESTS: Duration = Duration::from_millis(250);
/// How long a connection that is over is read on: one that is closed while something on it is unread takes back what was
/// said last.
const LINGER: Duration = Duration::from_millis(200);
/// The same if its client is still sending what nobody wants.
const LINGER_ON: Duration = Duration::from_secs(1);

struct Connection<'a, R, W> {
    inlet: Inlet<R>,
    writing: Writing<W>,
    patience: Patience,
    stop: Stop<'a>,
    /// It has had a request.
    is_in_use: bool,
    /// How long to stay when it is over.
    linger: Duration,
}

/// The end of the gateway.
struct Stop<'a> {
    coming: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    /// When it was noticed.
    since: Option<Instant>,
}

/// What comes from a client between two answers.
enum Next<R> {
    Request(RequestHead<RequestBody<R>>),
    Refused(BadHead),
    /// It hung up.
    Nothing,
    /// It took too long, or the gateway ends.
    TooLate,
}

/// What comes of a request.
enum Answered {
    Reply(Reply),
    /// Its body is needed, and its client waits to be asked for it.
    NeedsBody,
    /// Its client hung up.
    ToNobody,
}

/// What comes of a body in pieces.
enum Piece {
    More(Bytes),
    /// Not now.
    Later,
    End,
    BrokeOff(BrokeOff),
    ToNobody,
}

/// Serves a connection to its end: its client's, or a moment after `stop`, or when it takes too long.
pub(super) async fn serve<R, W, F>(
    reader: R,
    writer: W,
    answer: impl Fn(Box<Request<RequestBody<R>>>) -> F,
    stop: &CancellationToken,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    F: Future<Output = Reply>,
{
    let mut connection = Connection {
        inlet: Inlet::new(reader),
        writing: Writing::new(writer),
        patience: Patience::new(),
        stop: Stop { coming: pin!(cancelled(stop)), since: None },
        is_in_use: false,
        linger: LINGER,
    };
    let mut was_old = false;
    loop {
        let RequestHead { request, terms, .. } = match connection.next().await? {
            Next::Request(head) => head,
            Next::Refused(bad) => return connection.refuse(bad).await,
            Next::Nothing => return Ok(()),
            // A client of that age may take whatever comes until the end for its answer.
            Next::TooLate if was_old => return connection.leave().await,
            Next::TooLate => return connection.say_farewell().await,
        };
        was_old = terms.is_old;
        let mut answering = pin!(answer(request));
        let reply = loop {
            match connection.answered(answering.as_mut()).await {
                Answered::Reply(reply) => break reply,
                Answered::NeedsBody => connection.ask_for_body().await?,
                Answered::ToNobody => return Ok(()),
            }
        };
        if !connection.send(reply, terms).await? {
            return connection.leave().await;
        }
    }
}

// === impl Connection ===

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<'_, R, W> {
    async fn next(&mut self) -> io::Result<Next<R>> {
        let mut until: Option<Instant> = None;
        let mut may_be_idle = self.is_in_use;
        poll_fn(|context| {
            let mut reading = self.inlet.lock();
            match reading.poll_head(|| self.inlet.body(), context) {
                Poll::Ready(Ok(Some(Ok(head)))) => {
                    self.is_in_use = true;
                    return Poll::Ready(Ok(Next::Request(head)));
                }
                Poll::Ready(Ok(Some(Err(bad)))) => return Poll::Ready(Ok(Next::Refused(bad))),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(Next::Nothing)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            if may_be_idle && reading.has_begun() {
                may_be_idle = false;
                until = None;
            }
            let patience = if may_be_idle { IDLE_FOR } else { HEAD_WITHIN };
            let mut until = *until.get_or_insert_with(|| moment::now() + patience);
            if let Some(since) = self.stop.look(context) {
                until = until.min(since + LAST_ANSWERS);
            }
            self.patience.poll_until(until, context).map(|()| Ok(Next::TooLate))
        })
        .await
    }

    async fn answered(&mut self, mut answering: Pin<&mut impl Future<Output = Reply>>) -> Answered {
        poll_fn(|context| {
            if let Poll::Ready(reply) = answering.as_mut().poll(context) {
                return Poll::Ready(Answered::Reply(reply));
            }
            self.stop.look(context);
            let mut reading = self.inlet.lock();
            if reading.is_to_be_asked() {
                return Poll::Ready(Answered::NeedsBody);
            }
            reading.poll_gone(context).map(|()| Answered::ToNobody)
        })
        .await
    }

    async fn ask_for_body(&mut self) -> io::Result<()> {
        self.writing.ask_for_body(&mut self.patience).await
    }

    /// Sends a reply; `false` if the connection ends with it.
    async fn send(&mut self, reply: Reply, terms: Terms) -> io::Result<bool> {
        let (goes_on, left) = self.put_down(reply, terms);
        match left {
            // Most are small.
            None => self.writing.flush(&mut self.patience).await?,
            Some((ReplyBody::Whole(pieces), _)) => {
                self.writing.whole(pieces, &mut self.patience).await?;
            }
            Some((body, end)) => self.send_as_it_comes(body, end).await?,
        }
        Ok(goes_on)
    }

    /// Puts a reply down to be sent; with what is left of it, and whether the connection goes on after it. Apart from the
    /// sending, which would keep all of it.
    fn put_down(&mut self, reply: Reply, mut terms: Terms) -> (bool, Option<(ReplyBody, End)>) {
        if !self.inlet.lock().finish() {
            terms.keep_alive = false;
            self.linger = LINGER_ON;
        }
        terms.keep_alive &= self.stop.since.is_none();
        let has_body = !terms.is_head && !is_bodiless(reply.status);
        let end = match &reply.body {
            _ if is_bodiless(reply.status) => End::NoBody,
            ReplyBody::Whole(pieces) => {
                End::Length(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            _ if terms.is_head => End::NoBody,
            _ if terms.is_old => End::Close,
            _ => End::Chunks,
        };
        let goes_on = self.writing.head(&reply, end, terms);
        let left = if has_body { self.writing.put(reply.body) } else { None };
        (goes_on, left.map(|body| (body, end)))
    }

    async fn send_as_it_comes(&mut self, mut body: ReplyBody, end: End) -> io::Result<()> {
        loop {
            match self.next_piece(&mut body).await {
                Piece::More(piece) => self.writing.piece(piece, end, &mut self.patience).await?,
                Piece::Later => self.writing.flush(&mut self.patience).await?,
                Piece::End => return self.writing.end(end, &mut self.patience).await,
                Piece::BrokeOff(error) => return Err(io::Error::other(error)),
                Piece::ToNobody => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
    }

    async fn next_piece(&mut self, body: &mut ReplyBody) -> Piece {
        poll_fn(|context| {
            match body.poll_next(context) {
                Poll::Ready(Some(Ok(piece))) => return Poll::Ready(Piece::More(piece)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Piece::BrokeOff(error)),
                Poll::Ready(None) => return Poll::Ready(Piece::End),
                Poll::Pending if self.writing.has_text() => return Poll::Ready(Piece::Later),
                Poll::Pending => {}
            }
            self.stop.look(context);
            self.inlet.lock().poll_gone(context).map(|()| Piece::ToNobody)
        })
        .await
    }

    /// Says what is wrong with what came, and ends the connection: where the next request begins is anybody's guess.
    async fn refuse(&mut self, bad: BadHead) -> io::Result<()> {
        let text = respond::unattributed(INVALID_REQUEST, bad.message());
        self.say_last(body::last_word(bad.status(), text)).await
    }

    /// Between two requests either side may close, and the other may send something at that very moment: a client would see
    /// its connection end, and not know whether its request was taken. So it is told, unasked, by the response that HTTP has
    /// for this (RFC 9110, 15.5.9). Whoever has just sent something takes it for the answer, and it is true. Everybody else
    /// drops it together with the connection.
    async fn say_farewell(&mut self) -> io::Result<()> {
        let too_late = body::last_word(StatusCode::REQUEST_TIMEOUT, came_too_late().into());
        self.say_last(too_late).await
    }

    async fn say_last(&mut self, reply: Reply) -> io::Result<()> {
        let terms = Terms { keep_alive: false, is_old: false, is_head: false };
        // Nobody waits for it, so neither do we.
        if let Ok(sent) = timeout(LINGER, self.send(reply, terms)).await {
            sent?;
        }
        self.leave().await
    }

    /// Ends a connection whose client knows that it does.
    async fn leave(&mut self) -> io::Result<()> {
        self.writing.shut().await?;
        let draining = poll_fn(|context| self.inlet.lock().poll_drained(context));
        // It may stay silent, and need not hang up.
        let _ = timeout(self.linger, draining).await;
        Ok(())
    }
}

/// Responses that have no body and do not speak of one.
fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

// === impl Stop ===

impl Stop<'_> {
    /// Since when the gateway has been ending, if it is. Whoever asks is woken when it begins to.
    fn look(&mut self, context: &mut Context<'_>) -> Option<Instant> {
        if self.since.is_none() && self.coming.as_mut().poll(context).is_ready() {
            self.since = Some(Instant::now());
        }
        self.since
    }
}

#[cfg(test)]
mod tests;
