//! How often the holder of a key may have something sent to servers, over all its sessions and faces.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Rate;

/// One per key, so there are as few of them as keys. The generic cell rate algorithm: one instant says all that a count of
/// tokens and the time of the last would.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// When all that was taken is given back.
    full_at: Mutex<Option<Instant>>,
}

// === impl Bucket ===

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, full_at: Mutex::default() }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes one, or says how long until there is one to take.
    pub(super) fn take(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let Rate { requests, per } = self.rate;
        let after = full_at.map_or(now, |at| at.max(now)) + per / requests;
        let wait = after.saturating_duration_since(now + per);
        if wait > ROUNDING {
            return Err(wait);
        }
        *full_at = Some(after);
        Ok(())
    }
}

/// A period does not always divide by its count.
const ROUNDING: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many of so many are let through.
    fn taken(bucket: &Bucket, tries: usize) -> usize {
        (0..tries).filter(|_| bucket.take().is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_at_once_and_then_as_they_come_back() {
        let bucket = Bucket::new(Rate { requests: 60, per: 60 * SECOND });
        assert_eq!(taken(&bucket, 100), 60);
        assert_eq!(bucket.take(), Err(SECOND));
        advance(SECOND / 2).await;
        assert_eq!(bucket.take(), Err(SECOND / 2));
        advance(SECOND / 2).await;
        assert_eq!(taken(&bucket, 100), 1);
        advance(10 * SECOND).await;
        assert_eq!(taken(&bucket, 100), 10);
        advance(3600 * SECOND).await;
        assert_eq!(taken(&bucket, 100), 60, "no more than so many are saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_the_numbers_the_rate_holds() {
        for (requests, per) in [(1, 10 * SECOND), (3, SECOND), (7, SECOND / 10), (u32::MAX, SECOND)]
        {
            let bucket = Bucket::new(Rate { requests, per });
            let most = 200.min(requests as usize);
            assert_eq!(taken(&bucket, 200), most, "{requests} in {per:?}");
            if requests < 200 {
                let wait = bucket.take().unwrap_err();
                assert!(wait <= per / requests + ROUNDING, "{wait:?}");
                advance(wait).await;
                assert_eq!(bucket.take(), Ok(()));
            }
        }
    }
}
