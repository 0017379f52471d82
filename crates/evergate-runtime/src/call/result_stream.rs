//! A large result on its way to the caller, piece by piece. The call is not over before its last piece is taken.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Call;
use super::admission::Admitted;
use crate::error::{CallError, CallFailure, SharedError};
use crate::protocol::RawJson;
use crate::retry::Outcome;
use crate::transport::{BegunResult, TransportError};

/// What a call brought.
#[derive(Debug)]
pub enum Reply {
    /// The result.
    Whole(RawJson),
    /// A large result, to be taken as it arrives.
    Pieces(ResultStream),
}

/// The bytes of one JSON object, in order. Dropped before its end it abandons the rest.
///
/// What it was made of is checked only as it arrives, so an error may follow any number of pieces; then the outcome is
/// unknown, and nothing is sent again.
pub struct ResultStream(Box<Pieces>);

struct Pieces {
    begun: BegunResult,
    call: Call,
    admitted: Admitted,
    /// The server shows that it is at it with every piece.
    last_piece: Instant,
    silence: Pin<Box<Sleep>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    cancelled: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    over: bool,
}

// === impl Reply ===

impl Reply {
    /// The result, when all of it is there.
    pub async fn whole(self) -> Result<RawJson, CallError> {
        match self {
            Self::Whole(result) => Ok(result),
            Self::Pieces(pieces) => pieces.whole().await,
        }
    }
}

// === impl ResultStream ===

impl ResultStream {
    pub(super) fn new(begun: BegunResult, call: Call, admitted: Admitted) -> Self {
        let last_piece = Instant::now();
        let pieces = Pieces {
            begun,
            last_piece,
            silence: Box::pin(sleep_until(call.clock.expires_after(last_piece))),
            cut: Box::pin(admitted.lease.is_cut().clone().cancelled_owned()),
            cancelled: call.cancel.clone().map(|cancel| Box::pin(cancel.cancelled_owned())),
            call,
            admitted,
            over: false,
        };
        Self(Box::new(pieces))
    }

    /// Gives up when this token is cancelled, in place of one that the call was given.
    pub fn cancel(&mut self, token: CancellationToken) {
        self.0.cancelled = Some(Box::pin(token.cancelled_owned()));
    }

    /// The next piece; `None` when the result is complete.
    pub async fn next(&mut self) -> Option<Result<Bytes, CallError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The same, to be polled.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CallError>>> {
        let this = &mut *self.0;
        if this.over {
            return Poll::Ready(None);
        }
        match this.begun.poll_next(context) {
            Poll::Ready(Some(Ok(piece))) => {
                this.last_piece = Instant::now();
                Poll::Ready(Some(Ok(piece)))
            }
            Poll::Ready(None) => {
                this.over = true;
                this.note_answer();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                // Its size says nothing against the server's health.
                if !matches!(error, TransportError::TooLarge { .. }) {
                    this.note_failure(SharedError::new(error.clone()));
                }
                this.fail(CallFailure::of_transport(error))
            }
            Poll::Pending => this.poll_end(context),
        }
    }

    /// The whole of it.
    pub async fn whole(mut self) -> Result<RawJson, CallError> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await {
            all.extend_from_slice(&piece?);
        }
        RawJson::from_text(all).map_err(|_| {
            let error = SharedError::new(TransportError::NotJson);
            self.0.error(CallFailure::Transport(error))
        })
    }

    /// After an error: what makes of the pieces so far a tool's result that says of itself that it failed, with `note`
    /// as the last of its content. `None` if the result has said otherwise already, or was complete.
    pub fn cut_short(&self, note: &str) -> Option<Bytes> {
        self.0.begun.cut_short(note).map(Bytes::from)
    }
}

impl std::fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultStream")
            .field("server", &self.0.call.slot.name)
            .finish_non_exhaustive()
    }
}

// === impl Pieces ===

impl Pieces {
    /// Nothing comes right now: perhaps nothing will.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return self.fail(CallFailure::of_transport(TransportError::Closed));
        }
        if let Some(cancelled) = &mut self.cancelled
            && cancelled.as_mut().poll(context).is_ready()
        {
            return self.fail(CallFailure::Cancelled);
        }
        let expires = self.call.clock.expires_after(self.last_piece);
        if self.silence.deadline() != expires {
            self.silence.as_mut().reset(expires);
        }
        std::task::ready!(self.silence.as_mut().poll(context));
        let failure = self.call.timed_out();
        self.note_failure(SharedError::new(failure.clone()));
        self.fail(failure)
    }

    fn fail(&mut self, failure: CallFailure) -> Poll<Option<Result<Bytes, CallError>>> {
        self.over = true;
        Poll::Ready(Some(Err(self.error(failure))))
    }

    fn error(&self, failure: CallFailure) -> CallError {
        self.call.error(Outcome::Unknown, Some(self.admitted.lease.generation()), false, failure)
    }

    fn note_answer(&self) {
        let lease = &self.admitted.lease;
        if lease.has_strikes() {
            let noted = lease.clone();
            lease.tasks().spawn(async move { noted.note_answer().await });
        }
    }

    fn note_failure(&self, error: SharedError) {
        let lease = self.admitted.lease.clone();
        self.admitted.lease.tasks().spawn(async move { lease.note_failure(error).await });
    }
}
