//! What a call cost, for whoever keeps account.

use std::time::Duration;

use tokio::time::Instant;

use crate::lifecycle::Generation;
use crate::moment;

/// How a call went, apart from its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The connection it was sent on last.
    pub generation: Option<Generation>,
    /// How long it waited for a connection or a free place, in all.
    pub waited: Duration,
    /// When it began to wait the last time.
    pub last_waited: Option<Instant>,
    /// How long it was with the server, or with whoever the server asked something, in all; of a result that is passed on
    /// in pieces, until its beginning.
    pub upstream: Duration,
    /// When it was sent last.
    pub last_sent: Option<Instant>,
    /// How often it was sent again after the server had, or may have had, it before.
    pub resends: u32,
}

/// Adds up time until it is dropped, which is when a caller gives up, too.
pub(super) struct Adding<'a> {
    to: &'a mut Duration,
    since: Instant,
}

// === impl Report ===

impl Report {
    /// It waits now.
    pub(super) async fn waiting<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let waiting = Adding::to(&mut self.waited);
        self.last_waited = Some(waiting.since);
        wait.await
    }

    /// It is sent now, for the first time or again. It is with the server until the result is dropped.
    pub(super) fn sending(&mut self, generation: Generation, is_resend: bool) -> Adding<'_> {
        self.generation = Some(generation);
        self.resends += u32::from(is_resend);
        let adding = Adding::to(&mut self.upstream);
        self.last_sent = Some(adding.since);
        adding
    }

    /// Somebody else has it now.
    pub(super) async fn elsewhere<T>(&mut self, other: impl Future<Output = T>) -> T {
        let _adding = Adding::to(&mut self.upstream);
        other.await
    }

    /// It was answered by another connection than it was sent on first.
    pub(super) fn sent_again(&mut self, generation: Generation) {
        self.generation = Some(generation);
        self.resends += 1;
    }
}

// === impl Adding ===

impl<'a> Adding<'a> {
    fn to(to: &'a mut Duration) -> Self {
        Self { to, since: moment::now() }
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        *self.to += moment::now().saturating_duration_since(self.since);
    }
}
