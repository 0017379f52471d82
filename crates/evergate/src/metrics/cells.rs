//! Numbers that many threads add to and one reads now and then: atomics, no locks.
//!
//! `prometheus-client` has the same, but its histograms take a mutex for each observation, and every call makes three.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// How often durations were how long.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// In nanoseconds, in order; an observation belongs to the first that is not less.
    bounds: &'static [u64],
    /// One more than there are bounds; the rest is unused.
    buckets: [AtomicU64; MAX_BOUNDS + 1],
    sum: AtomicU64,
}

const MAX_BOUNDS: usize = 15;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;

/// What the gateway adds: a fraction of a millisecond, unless the machine is busy.
pub(super) const OWN_TIME: &[u64] = &[
    50 * MICROSECOND,
    100 * MICROSECOND,
    250 * MICROSECOND,
    500 * MICROSECOND,
    MILLISECOND,
    2_500 * MICROSECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    50 * MILLISECOND,
    250 * MILLISECOND,
    SECOND,
];

/// What servers take: from a local answer to a tool that works for minutes.
pub(super) const SERVER_TIME: &[u64] = &[
    MILLISECOND,
    2_500 * MICROSECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    25 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    2_500 * MILLISECOND,
    5 * SECOND,
    15 * SECOND,
    60 * SECOND,
    300 * SECOND,
];

/// Waits end with a reconnect, which takes a moment or follows the backoff: 1, 2, 4, 8, 16 seconds.
pub(super) const WAITING_TIME: &[u64] = &[
    10 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    2 * SECOND,
    4 * SECOND,
    8 * SECOND,
    16 * SECOND,
    32 * SECOND,
    60 * SECOND,
];

/// The same, and outages that last.
pub(super) const RECOVERY_TIME: &[u64] = &[
    10 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    2 * SECOND,
    4 * SECOND,
    8 * SECOND,
    16 * SECOND,
    32 * SECOND,
    60 * SECOND,
    300 * SECOND,
    1_800 * SECOND,
    3_600 * SECOND,
];

// === impl Counter ===

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Histogram ===

impl Histogram {
    pub(super) fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.len() <= MAX_BOUNDS, "more bounds than there is room for");
        debug_assert!(bounds.is_sorted(), "bounds are in order");
        Self { bounds, buckets: Default::default(), sum: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, took: Duration) {
        // 584 years fit.
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bounds.iter().take_while(|bound| **bound < nanos).count();
        // There is one more bucket than bounds.
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Adds what another of the same bounds has seen.
    pub(super) fn add(&self, other: &Self) {
        for (bucket, other) in self.buckets.iter().zip(&other.buckets) {
            bucket.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.sum.fetch_add(other.sum.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Bounds in seconds and how many were not longer, up to the last, whose bound is infinite.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().map(|nanos| in_seconds(*nanos));
        let mut so_far = 0;
        bounds.chain([f64::INFINITY]).zip(&self.buckets).map(move |(bound, bucket)| {
            so_far += bucket.load(Ordering::Relaxed);
            (bound, so_far)
        })
    }

    /// In seconds.
    pub(super) fn sum(&self) -> f64 {
        in_seconds(self.sum.load(Ordering::Relaxed))
    }
}

fn in_seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_in_every_bucket_from_its_own_on() {
        let histogram = Histogram::new(OWN_TIME);
        for took in [
            Duration::ZERO,
            Duration::from_micros(50),
            Duration::from_micros(51),
            Duration::from_secs(5),
        ] {
            histogram.observe(took);
        }
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4]);
        let bounds: Vec<f64> = histogram.cumulative().map(|(bound, _)| bound).collect();
        assert_eq!((bounds[0], bounds[11]), (0.000_05, f64::INFINITY));
        assert!((histogram.sum() - 5.000_101).abs() < 1e-9);
    }

    #[test]
    fn there_is_room_for_every_list_of_bounds() {
        for bounds in [OWN_TIME, SERVER_TIME, WAITING_TIME, RECOVERY_TIME] {
            let histogram = Histogram::new(bounds);
            histogram.observe(Duration::MAX);
            assert_eq!(histogram.cumulative().last(), Some((f64::INFINITY, 1)));
        }
    }
}
