//! How a slot leaves: no new calls at once, those with the server finish, then it is switched off.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::ending::Ending;
use crate::tally::Tally;

/// Whether a slot was taken out of the table, and what is still under way on it.
#[derive(Debug, Default)]
pub(crate) struct Retirement {
    at: OnceLock<Instant>,
    begun: Ending,
    calls: Tally,
}

// === impl Retirement ===

impl Retirement {
    /// Counts a call, until [`Self::call_ended`]. To be done before [`Self::has_begun`] is asked, so that no call slips
    /// through in between.
    pub(crate) fn count_call(&self) {
        self.calls.add();
    }

    pub(crate) fn call_ended(&self) {
        self.calls.remove();
    }

    pub(crate) fn begin(&self) {
        // A second retirement would change nothing.
        let _ = self.at.set(Instant::now());
        self.calls.close();
        self.begun.begin();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.has_begun()
    }

    pub(crate) async fn begun(&self) {
        self.begun.begun().await;
    }

    /// Resolves when it has begun and no call is left, or `longest` later at the latest.
    pub(crate) async fn drained(&self, longest: Duration) {
        self.begun().await;
        let begun_at = self.at.get().copied().unwrap_or_else(Instant::now);
        // Calls that are left over are cut off with the connection.
        let _ = timeout_at(begun_at + longest, self.calls.done()).await;
    }
}
