//! How long to wait before the next try, as a pure value.
//!
//! The lifecycle decides *when* to ask; this only turns "the nth delay in a row" and a random number into a
//! duration. Randomness is a parameter so that tests, snapshots and property tests stay deterministic.

use std::time::Duration;

/// An exponential delay with a ceiling and jitter. Holds only valid values: see [`Backoff::new`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    multiplier: f64,
    jitter: f64,
}

/// Why a [`Backoff`] was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidBackoff(&'static str);

// === impl Backoff ===

impl Backoff {
    /// `jitter` is the share of each delay that is random: 0 waits exactly the computed delay, 1 anything from
    /// nothing up to it ("full jitter", which spreads a herd best).
    pub fn new(
        initial: Duration,
        max: Duration,
        multiplier: f64,
        jitter: f64,
    ) -> Result<Self, InvalidBackoff> {
        if initial.is_zero() {
            return Err(InvalidBackoff("the initial delay must be more than zero"));
        }
        if max < initial {
            return Err(InvalidBackoff("the longest delay must not be below the initial one"));
        }
        if !multiplier.is_finite() || multiplier < 1.0 {
            return Err(InvalidBackoff("the multiplier must be a number of at least 1"));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(InvalidBackoff("jitter must be between 0 and 1"));
        }
        Ok(Self { initial, max, multiplier, jitter })
    }

    /// The `nth` delay in a row, counted from 0; `random` is uniform in `[0, 1)`.
    pub fn delay(&self, nth: u32, random: f64) -> Duration {
        let exponent = i32::try_from(nth).unwrap_or(i32::MAX);
        let factor = self.multiplier.powi(exponent);
        // `powi` overflows to infinity long before the ceiling could be missed.
        let seconds = (self.initial.as_secs_f64() * factor).min(self.max.as_secs_f64());
        Duration::from_secs_f64(seconds * (1.0 - self.jitter * random.clamp(0.0, 1.0)))
    }

    /// A delay that somebody waits for, shortened by chance, but at most by half.
    pub(crate) fn dither(&self, delay: Duration, random: f64) -> Duration {
        delay.mul_f64(1.0 - self.jitter * random.clamp(0.0, 1.0) / 2.0)
    }

    /// The first delay, without jitter.
    pub fn initial(&self) -> Duration {
        self.initial
    }

    /// The ceiling, for callers that clamp a delay somebody else asked for.
    pub fn max(&self) -> Duration {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn doubles_up_to_the_ceiling() {
        let backoff = Backoff::new(SECOND, 32 * SECOND, 2.0, 0.0).unwrap();
        let delays: Vec<u64> = (0..8).map(|nth| backoff.delay(nth, 0.5).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 32, 32]);
    }

    #[test]
    fn full_jitter_spans_from_nothing_to_the_whole_delay() {
        let backoff = Backoff::new(SECOND, 32 * SECOND, 2.0, 1.0).unwrap();
        assert_eq!(backoff.delay(3, 0.0), 8 * SECOND);
        assert_eq!(backoff.delay(3, 0.5), 4 * SECOND);
        assert!(backoff.delay(3, 0.999_999) < Duration::from_millis(1));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        assert!(Backoff::new(Duration::ZERO, SECOND, 2.0, 0.0).is_err());
        assert!(Backoff::new(2 * SECOND, SECOND, 2.0, 0.0).is_err());
        assert!(Backoff::new(SECOND, SECOND, 0.5, 0.0).is_err());
        assert!(Backoff::new(SECOND, SECOND, f64::NAN, 0.0).is_err());
        assert!(Backoff::new(SECOND, SECOND, 2.0, 1.5).is_err());
        assert!(Backoff::new(SECOND, SECOND, 2.0, f64::NAN).is_err());
    }

    proptest! {
        #[test]
        fn never_exceeds_the_ceiling(
            initial in 1u64..10_000, extra in 0u64..100_000, multiplier in 1.0f64..10.0,
            jitter in 0.0f64..=1.0, nth in 0u32.., random in 0.0f64..1.0,
        ) {
            let initial = Duration::from_millis(initial);
            let max = initial + Duration::from_millis(extra);
            let backoff = Backoff::new(initial, max, multiplier, jitter).unwrap();
            prop_assert!(backoff.delay(nth, random) <= max);
        }
    }
}
