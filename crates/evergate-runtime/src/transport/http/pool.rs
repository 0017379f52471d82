//! Connections between requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::client::HttpConnection;
use crate::moment;
use crate::sharded::{Apart, SHARDS};

/// A rack for each of the first runtimes that come, which many calls on as many threads need not reach for at once; the
/// rest share the last.
#[derive(Debug)]
pub(super) struct Pool {
    racks: [OnceLock<(Id, Arc<Rack>)>; SHARDS],
    made: Instant,
    /// When all racks were looked at last, in seconds since it was made.
    looked: AtomicU64,
}

/// The newest is used first, so that those too many grow old together. They are closed when the next one is put beside
/// them, or, as long as anybody uses the server, a second later; and all of them with their generation. The lists of a server
/// are asked for every few minutes, so that no burst leaves sockets behind for long.
#[derive(Debug, Default)]
pub(super) struct Rack(Apart<Mutex<Vec<Idle>>>);

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
    /// A connection that was open a moment ago, and where to put it, or a new one, afterwards.
    pub(super) fn take(&self) -> (Option<Box<HttpConnection>>, Arc<Rack>) {
        let (here, now) = (Handle::current().id(), moment::now());
        self.look_after(now);
        let rack = self.rack(here);
        (rack.take(here, now), rack)
    }

    fn rack(&self, here: Id) -> Arc<Rack> {
        let new = || (here, Arc::default());
        let own = self.racks.iter().find_map(|rack| {
            let (whose, rack) = rack.get_or_init(new);
            (*whose == here).then_some(rack)
        });
        let last = || &self.racks[SHARDS - 1].get_or_init(new).1;
        own.unwrap_or_else(last).clone()
    }

    /// Closes what is too old on racks that nobody uses any more, once a second at most.
    fn look_after(&self, now: Instant) {
        let seconds = now.saturating_duration_since(self.made).as_secs();
        let looked = self.looked.load(Ordering::Relaxed);
        let is_first =
            || self.looked.compare_exchange(looked, seconds, Ordering::Relaxed, Ordering::Relaxed);
        if seconds > looked && is_first().is_ok() {
            for (_, rack) in self.racks.iter().filter_map(OnceLock::get) {
                rack.close_expired(now);
            }
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        let racks = [const { OnceLock::new() }; SHARDS];
        Self { racks, made: Instant::now(), looked: AtomicU64::new(0) }
    }
}

// === impl Rack ===

impl Rack {
    fn take(&self, here: Id, now: Instant) -> Option<Box<HttpConnection>> {
        loop {
            let mut idle = self.idle();
            let index = idle.iter().rposition(|idle| idle.home == here)?;
            let mut found = idle.remove(index);
            drop(idle);
            let idle_for = now.saturating_duration_since(found.since);
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
        let now = moment::now();
        let found = Idle { home: connection.home, connection, since: now, kept };
        let mut idle = self.idle();
        let surplus = (idle.len() + 1).saturating_sub(MAX_IDLE);
        let old = expired(&idle, now).max(surplus);
        let dropped: Vec<_> = idle.drain(..old).collect();
        idle.push(found);
        drop(idle);
        // Closing takes a moment, which nobody has to wait for.
        drop(dropped);
    }

    fn close_expired(&self, now: Instant) {
        let mut idle = self.idle();
        let old = expired(&idle, now);
        let dropped: Vec<_> = idle.drain(..old).collect();
        drop(idle);
        drop(dropped);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many are too old, from the oldest on.
fn expired(idle: &[Idle], now: Instant) -> usize {
    idle.iter().take_while(|idle| now.saturating_duration_since(idle.since) >= idle.kept).count()
}
