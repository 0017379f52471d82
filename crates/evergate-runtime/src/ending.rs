//! The beginning of an end, which every call asks about and hardly any sees.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// A [`CancellationToken`] that can be asked for nothing: the token itself takes a lock, and calls on several threads would get
/// into each other's way.
#[derive(Debug, Default)]
pub struct Ending {
    begun: AtomicBool,
    token: CancellationToken,
}

// === impl Ending ===

impl Ending {
    /// Wakes all who wait for it. Once is enough.
    pub fn begin(&self) {
        // In one order with what is counted: who counts first and asks then is waited for, or knows.
        self.begun.store(true, Ordering::SeqCst);
        self.token.cancel();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Resolves when it has.
    pub fn begun(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// Cancelled when it has.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn whoever_waits_and_whoever_asks_learn_of_it() {
        let ending = Ending::default();
        let token = ending.token().clone();
        assert!(!ending.has_begun() && ending.begun().now_or_never().is_none());
        ending.begin();
        assert!(ending.has_begun() && ending.begun().now_or_never().is_some());
        assert!(token.is_cancelled());
    }
}
