//! A limit on how fast one process may reconnect, over all its servers.
//!
//! When a laptop wakes, or a shared host comes back, every slot loses its connection in the same second. Backoff
//! with jitter spreads the later attempts of each slot; this spreads the first ones. It limits the *rate*, not how
//! many dials run at once: a limit on concurrency would let a few servers that hang while connecting keep all the
//! others out. First connects are not reconnects and do not ask.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shared between all slots of a hub, and between hubs if the embedder wishes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReconnectLimiter {
    shared: Arc<Mutex<Schedule>>,
}

/// The generic cell rate algorithm: one instant says all that a token bucket would.
#[derive(Debug)]
struct Schedule {
    spacing: Duration,
    /// How far ahead of its fair place a reconnect may go: `burst * spacing`.
    tolerance: Duration,
    next: Option<Instant>,
}

// === impl ReconnectLimiter ===

impl ReconnectLimiter {
    /// `per_second` in the long run, `burst` at once. Zero counts as one.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let spacing = Duration::from_secs(1) / per_second.max(1);
        let tolerance = spacing * burst.max(1).saturating_sub(1);
        Self { shared: Arc::new(Mutex::new(Schedule { spacing, tolerance, next: None })) }
    }

    /// Takes the next place and says how long to wait for it. A place that is taken and then not used (the dial was
    /// aborted) is not given back: that errs on the side of fewer reconnects.
    pub(crate) fn reserve(&self, now: Instant) -> Duration {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).reserve(now)
    }
}

impl Default for ReconnectLimiter {
    /// 20 reconnects a second after a burst of 50: a hub of 500 servers is back within 25 seconds of a wake-up, and
    /// a hub of the usual size never notices the limit.
    fn default() -> Self {
        Self::new(20, 50)
    }
}

impl Schedule {
    fn reserve(&mut self, now: Instant) -> Duration {
        let place = self.next.map_or(now, |next| next.max(now));
        self.next = Some(place + self.spacing);
        place.saturating_duration_since(now + self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn a_burst_is_free_then_the_rate_holds() {
        let limiter = ReconnectLimiter::new(10, 3);
        let start = now();
        let waits: Vec<u128> = (0..6).map(|_| limiter.reserve(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn quiet_time_refills_the_burst() {
        let limiter = ReconnectLimiter::new(10, 2);
        let start = now();
        for _ in 0..5 {
            limiter.reserve(start);
        }
        let later = start + Duration::from_secs(10);
        let waits: Vec<u128> = (0..3).map(|_| limiter.reserve(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100]);
    }
}
