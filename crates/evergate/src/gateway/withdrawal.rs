//! Whether a client still wants the answer to a request.

use std::future::poll_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio_util::sync::CancellationToken;

/// Every request has one and hardly any is withdrawn, so this is less than a token: one waits for it at a time.
#[derive(Debug, Default)]
pub(crate) struct Withdrawal {
    is_given: AtomicBool,
    waiting: AtomicWaker,
    /// For whoever needs one.
    token: OnceLock<CancellationToken>,
}

// === impl Withdrawal ===

impl Withdrawal {
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::SeqCst);
        self.waiting.wake();
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    pub(super) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::SeqCst)
    }

    /// Resolves when the client wants no answer any more. Whoever waited before is not woken.
    pub(crate) async fn given(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    /// Cancelled when the client wants no answer any more.
    pub(super) fn token(&self) -> CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new).clone();
        // It may have been given just before there was a token.
        if self.is_given() {
            token.cancel();
        }
        token
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_given() {
            return Poll::Ready(());
        }
        self.waiting.register(context.waker());
        // It may have been given just before there was somebody to wake.
        if self.is_given() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use futures_util::future::join;

    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_and_who_comes_later_knows() {
        let withdrawal = Withdrawal::default();
        let early = withdrawal.token();
        let mut waiting = pin!(withdrawal.given());
        assert!(waiting.as_mut().now_or_never().is_none() && !early.is_cancelled());
        // It waits before it is given.
        join(waiting, async { withdrawal.give() }).await;
        assert!(withdrawal.is_given() && withdrawal.given().now_or_never().is_some());
        assert!(early.is_cancelled() && withdrawal.token().is_cancelled());
    }
}
