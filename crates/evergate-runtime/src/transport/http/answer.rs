//! Reading what came back for a POST: JSON, a stream of events, or a refusal.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use tokio::time::{sleep, timeout};

use super::begun_result::{BegunResult, result_start};
use super::body::{self, Collected, EventStream};
use super::client::{Response, ResponseBody};
use super::headers::ContentType;
use super::streamable::HttpLink;
use crate::connection::{CallWatch, Inbox};
use crate::lifecycle::Loss;
use crate::protocol::{Message, RawJson, RpcError, parse};
use crate::retry::{Evidence, Limited, Outcome, SessionSign};
use crate::transport::{Answer, Link, Received, SendFailure, Sign, TakesPieces, TransportError};

/// Attempts in a row to resume a broken stream.
const RESUME_ATTEMPTS: u32 = 3;
/// The delay before a resume if the server names none.
const RESUME_DELAY: Duration = Duration::from_millis(500);
/// The longest and the shortest delay a server may ask for: it must neither silence a stream nor make us hammer it.
pub(super) const MAX_RETRY: Duration = Duration::from_secs(30);
const MIN_RETRY: Duration = Duration::from_millis(100);
/// How long a finished stream may take to end so that its TCP connection can be used again.
const TAIL_TIMEOUT: Duration = Duration::from_secs(1);

// === impl HttpLink ===

impl HttpLink {
    pub(super) async fn read(
        self: &Arc<Self>,
        mut response: Response,
        inbox: &Arc<Inbox>,
        watch: &Arc<CallWatch>,
        takes_pieces: TakesPieces<'_>,
    ) -> Result<Received, SendFailure> {
        let status = response.status;
        if !status.is_success() {
            let reset = response.reset;
            let body = Box::pin(self.refusal_text(response)).await;
            let now = SystemTime::now();
            watch.limit(Limited::of_refusal(status.as_u16(), reset, &body, now));
            return self.refusal(status, &body, watch).map(Received::Answer);
        }
        match response.content_type {
            ContentType::Json => match response.body.take_whole(self.max_message_bytes) {
                Some(body) => self.answer_in(&body, inbox, watch).map(Received::Answer),
                // In a box, so that those that are here already need not move room for it about.
                None => Box::pin(self.read_json(response.body, inbox, watch, takes_pieces)).await,
            },
            ContentType::Events => {
                let stream = self.event_stream(response, None);
                let answer = Box::pin(self.read_events(stream, inbox, watch)).await?;
                self.check_session(answer, watch).map(Received::Answer)
            }
            ContentType::Other(kind) if status == StatusCode::OK => {
                Err(unanswered(TransportError::ContentType(kind.into())))
            }
            ContentType::Other(_) => {
                Err(unanswered(TransportError::NoAnswer { status: status.as_u16() }))
            }
        }
    }

    /// The whole answer, or the beginning of a large one if the caller has use for it.
    async fn read_json(
        self: &Arc<Self>,
        body: ResponseBody,
        inbox: &Arc<Inbox>,
        watch: &Arc<CallWatch>,
        takes_pieces: TakesPieces<'_>,
    ) -> Result<Received, SendFailure> {
        let limit = self.max_message_bytes;
        let mut start = None;
        let collecting = body::collect_while(body, limit, |so_far, size| {
            start = result_start(so_far, size, watch).filter(|_| takes_pieces(size));
            start.is_none()
        });
        let body = match (collecting.await.map_err(unanswered)?, start) {
            (Collected::Part(so_far, rest), Some(start)) => {
                let begun = BegunResult::new(&so_far, start, rest, limit, watch.clone());
                return Ok(Received::Begun(Box::new(begun)));
            }
            (Collected::Whole(body) | Collected::Part(body, _), _) => body,
        };
        self.answer_in(&body, inbox, watch).map(Received::Answer)
    }

    /// The answer in a body that is here as a whole.
    fn answer_in(
        self: &Arc<Self>,
        body: &Bytes,
        inbox: &Arc<Inbox>,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        let answer = self.take_messages(body, inbox, watch)?;
        let answer = answer.ok_or_else(|| unanswered(TransportError::WrongId))?;
        self.check_session(answer, watch)
    }

    /// Some servers say with 200 that they do not know us.
    fn check_session(&self, answer: Answer, watch: &CallWatch) -> Result<Answer, SendFailure> {
        let Err(error) = &answer else { return Ok(answer) };
        let evidence = Evidence::of(200, error);
        if self.bond().is_some_and(|bond| evidence.sign(bond) == SessionSign::Lost) {
            let lost = self.session_lost(StatusCode::OK, error.message.as_bytes(), Some(watch));
            return Err(SendFailure {
                answer: Some(error.clone()),
                ..SendFailure::new(Outcome::Rejected, lost, Sign::Lost(Loss::Session))
            });
        }
        Ok(answer)
    }

    fn refusal(
        &self,
        status: StatusCode,
        body: &Bytes,
        watch: &CallWatch,
    ) -> Result<Answer, SendFailure> {
        if let Some(result) = result_in(body, watch) {
            return Ok(Ok(result));
        }
        let (sign, answer) = self.session_sign(status, body);
        let failure = match sign {
            SessionSign::Lost => SendFailure::new(
                Outcome::Rejected,
                self.session_lost(status, body, Some(watch)),
                Sign::Lost(Loss::Session),
            ),
            SessionSign::Doubtful => SendFailure::new(
                Outcome::Rejected,
                self.status_error(status, body, Some(watch)),
                Sign::Doubtful,
            ),
            SessionSign::Fine if status == StatusCode::UNAUTHORIZED => {
                let outcome = if answer.is_some() { Outcome::Answered } else { Outcome::Rejected };
                let sign = unauthorized(watch);
                SendFailure::new(outcome, self.status_error(status, body, Some(watch)), sign)
            }
            SessionSign::Fine => match answer {
                Some(error) => return Ok(Err(error)),
                // Refused by the server before it looked, so it cannot have been executed.
                None if status.is_client_error() => SendFailure::new(
                    Outcome::Rejected,
                    self.status_error(status, body, Some(watch)),
                    Sign::None,
                ),
                None => unanswered(self.status_error(status, body, Some(watch))),
            },
        };
        Err(SendFailure { answer, ..failure })
    }

    /// Hands what is not our answer to the inbox and returns what is.
    fn take_messages(
        self: &Arc<Self>,
        body: &Bytes,
        inbox: &Arc<Inbox>,
        watch: &Arc<CallWatch>,
    ) -> Result<Option<Answer>, SendFailure> {
        let messages = parse(body).map_err(|error| {
            inbox.count_garbage(&error);
            unanswered(TransportError::Malformed(error))
        })?;
        let mut ours = None;
        for message in messages {
            match message {
                Message::Response { id, answer } => {
                    // Bound to this POST: an error without an id can only be about it.
                    if id.as_ref().is_none_or(|id| watch.has_id(id)) {
                        ours = Some(answer);
                    }
                }
                other => inbox.receive(other, &Link::Http(self.clone()), Some(watch)),
            }
        }
        Ok(ours)
    }

    /// Reads a stream until our answer is on it, across as many resumptions as the server makes possible.
    async fn read_events(
        self: &Arc<Self>,
        mut stream: EventStream,
        inbox: &Arc<Inbox>,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        let mut delay = RESUME_DELAY;
        loop {
            let broken = loop {
                match stream.next().await {
                    Ok(Some(event)) => {
                        // Priming events carry only an id; other kinds of events are not ours to judge.
                        if event.data.is_empty() || !matches!(&*event.kind, "" | "message") {
                            continue;
                        }
                        // Something unusable on the way, a keep-alive say, does not spoil what follows.
                        let taken = self.take_messages(&event.data, inbox, watch);
                        if let Ok(Some(answer)) = taken {
                            if !stream.is_at_end() {
                                let tail = timeout(TAIL_TIMEOUT, stream.drain());
                                self.tasks.spawn(async move {
                                    let _ = tail.await;
                                });
                            }
                            return Ok(answer);
                        }
                    }
                    Ok(None) => break TransportError::StreamEnded,
                    Err(error @ TransportError::TooLarge { .. }) => return Err(unanswered(error)),
                    Err(error) => break error,
                }
            };
            let cursor = stream.last_id().filter(|_| self.can_resume());
            let Some(cursor) = cursor else { return Err(unanswered(broken)) };
            delay = stream.retry().map_or(delay, within_reason);
            stream = self.resume(cursor, delay, broken, watch).await?;
        }
    }

    async fn resume(
        &self,
        cursor: &str,
        delay: Duration,
        broken: TransportError,
        watch: &CallWatch,
    ) -> Result<EventStream, SendFailure> {
        for _ in 0..RESUME_ATTEMPTS {
            sleep(delay).await;
            let response = match self.get(Some(cursor), Some(watch)).await {
                Ok(response) => response,
                Err(error @ TransportError::UnusableCursor) => return Err(unanswered(error)),
                Err(_) => continue,
            };
            let status = response.status;
            if status == StatusCode::OK && response.content_type == ContentType::Events {
                return Ok(self.event_stream(response, Some(cursor.to_owned())));
            }
            if status.is_server_error() {
                continue;
            }
            let body = self.refusal_text(response).await;
            let lost = self.session_sign(status, &body).0 == SessionSign::Lost;
            // The server had accepted the request: whether it was executed, nobody can tell.
            return Err(if lost {
                let error = TransportError::SessionLostAfterAccept;
                SendFailure::new(Outcome::Unknown, error, Sign::Lost(Loss::Session))
            } else {
                unanswered(broken)
            });
        }
        Err(unanswered(broken))
    }
}

/// A reconnection delay that a server asked for, in milliseconds, as far as it is obeyed.
pub(super) fn within_reason(retry: u64) -> Duration {
    Duration::from_millis(retry).clamp(MIN_RETRY, MAX_RETRY)
}

/// Sent, and no answer we could use: the outcome is unknown, and the connection gets a strike, unless all there is to
/// say against the answer is its size.
pub(super) fn unanswered(error: TransportError) -> SendFailure {
    let sign = match error {
        TransportError::TooLarge { .. } => Sign::None,
        _ => Sign::Strike,
    };
    SendFailure::new(Outcome::Unknown, error, sign)
}

/// What a 401 says about the connection: one caller's bad credentials must not park a server that others share.
pub(super) fn unauthorized(watch: &CallWatch) -> Sign {
    if watch.may_have_own_credentials() { Sign::None } else { Sign::Lost(Loss::Auth) }
}

/// A result that came with the status of a refusal: an answer all the same.
fn result_in(body: &Bytes, watch: &CallWatch) -> Option<RawJson> {
    let messages = parse(body).ok()?;
    messages.into_iter().find_map(|message| match message {
        Message::Response { id: Some(id), answer: Ok(result) } if watch.has_id(&id) => Some(result),
        _ => None,
    })
}

/// The JSON-RPC error in a refusal's body, if there is one.
pub(super) fn error_in(body: &Bytes) -> Option<RpcError> {
    let messages = parse(body).ok()?;
    messages.into_iter().find_map(|message| match message {
        // OAuth's own errors have a text there (`{"error":"insufficient_scope"}`), and are no answer to anything.
        Message::Response { answer: Err(error), .. } if error.raw.as_bytes().starts_with(b"{") => {
            Some(error)
        }
        _ => None,
    })
}
