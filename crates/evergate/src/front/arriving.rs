//! A large result that goes out while it comes in.
//!
//! Should it break off, its client must not be left with half an answer: what is there already is closed and marked as
//! a failure, with a note that says what happened. Where even that is not possible the connection is broken, so that
//! nobody takes the half for the whole.

use std::task::{Context, Poll};

use bytes::Bytes;
use evergate_runtime::RawJson;

use super::respond;
use crate::gateway::{Pieces, error_body};

/// The body of an answer: the envelope around the pieces.
#[derive(Debug)]
pub(crate) struct Arriving {
    head: Option<Bytes>,
    pieces: Box<Pieces>,
    over: bool,
}

/// The answer cannot be completed.
#[derive(Debug, thiserror::Error)]
#[error("the result broke off")]
pub(crate) struct BrokeOff;

// === impl Arriving ===

impl Arriving {
    pub(super) fn new(id: &RawJson, pieces: Box<Pieces>) -> Self {
        Self { head: Some(respond::result_head(id)), pieces, over: false }
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BrokeOff>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(head)));
        }
        if self.over {
            return Poll::Ready(None);
        }
        let error = match std::task::ready!(self.pieces.poll_next(context)) {
            Some(Ok(piece)) => return Poll::Ready(Some(Ok(piece))),
            None => {
                self.over = true;
                return Poll::Ready(Some(Ok(Bytes::from_static(b"}"))));
            }
            Some(Err(error)) => error,
        };
        self.over = true;
        tracing::debug!(error = error.chain(), "a result broke off");
        let end = self.pieces.cut_short(&error_body::broke_off(&error)).ok_or(BrokeOff);
        Poll::Ready(Some(end.map(|end| [&end[..], b"}"].concat().into())))
    }
}
