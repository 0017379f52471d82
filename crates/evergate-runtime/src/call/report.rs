//! What a call cost, for whoever keeps account.

use std::time::Duration;

use tokio::time::Instant;

use crate::lifecycle::Generation;

/// How a call went, apart from its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The connection it was sent on last.
    pub generation: Option<Generation>,
    /// How long it waited for a connection or a free place, in all.
    pub waited: Duration,
    /// How long it was with the server, in all; of a result that is passed on in pieces, until its beginning.
    pub upstream: Duration,
    /// How often it was sent again after the server had, or may have had, it before.
    pub resends: u32,
}

// === impl Report ===

impl Report {
    /// It is sent now.
    pub(super) async fn sent<T>(
        &mut self,
        generation: Generation,
        sending: impl Future<Output = T>,
    ) -> T {
        self.generation = Some(generation);
        let started = Instant::now();
        let sent = sending.await;
        self.upstream += started.elapsed();
        sent
    }

    /// It was answered by another connection than it was sent on first.
    pub(super) fn sent_again(&mut self, generation: Generation) {
        self.generation = Some(generation);
        self.resends += 1;
    }
}
