//! Connections between requests.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::client::HttpConnection;

/// The newest is used first, so that those too many grow old together. They are closed when the next one is put beside
/// them, and all of them with their generation; the lists of a server are asked for every few minutes, so that no burst
/// leaves sockets behind for long.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<Idle>>);

#[derive(Debug)]
struct Idle {
    connection: Box<HttpConnection>,
    /// Whose it is: looked for here, without a look at each.
    home: Id,
    since: Instant,
    /// How long it is of use.
    kept: Duration,
}

/// After that the system is asked whether its server has hung up. In a crowd, where the next request follows at once, that
/// would be one more system call for each, and there are others under way to whom the same happens.
pub(super) const ASKED_AFTER: Duration = Duration::from_millis(1);
const MAX_IDLE: usize = 256;

// === impl Pool ===

impl Pool {
    /// A connection that was open a moment ago.
    pub(super) fn take(&self) -> Option<Box<HttpConnection>> {
        let here = Handle::current().id();
        loop {
            let mut idle = self.idle();
            let index = idle.iter().rposition(|idle| idle.home == here)?;
            let mut found = idle.remove(index);
            drop(idle);
            let idle_for = found.since.elapsed();
            let is_usable = idle_for < found.kept
                && found.connection.is_idle()
                && (idle_for < ASKED_AFTER || found.connection.is_silent());
            if is_usable {
                return Some(found.connection);
            }
        }
    }

    /// To be used again within `kept`.
    pub(super) fn put(&self, connection: Box<HttpConnection>, kept: Duration) {
        let now = Instant::now();
        let found = Idle { home: connection.home, connection, since: now, kept };
        let mut idle = self.idle();
        let expired = idle.iter().take_while(|idle| now - idle.since >= idle.kept).count();
        let surplus = (idle.len() + 1).saturating_sub(MAX_IDLE);
        let dropped: Vec<_> = idle.drain(..expired.max(surplus)).collect();
        idle.push(found);
        drop(idle);
        // Closing takes a moment, which nobody has to wait for.
        drop(dropped);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
