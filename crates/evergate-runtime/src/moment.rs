//! The time, looked at once for all that happens in one go.
//!
//! A call wants to know the time a dozen times: when it began, until when it may take, since when its connection has been
//! idle. Each look takes 25 to 40 ns, and most of them come within a few microseconds, between two waits of the task that
//! makes the call. So whoever runs such a task can have all of that happen in one moment. Elsewhere the clock is looked at
//! each time.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;

use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
enum Time {
    Passes,
    /// Nobody has asked yet.
    StandsStill,
    StandsStillAt(Instant),
}

thread_local! {
    static TIME: Cell<Time> = const { Cell::new(Time::Passes) };
}

/// The time goes on when it is dropped.
struct Moment {
    before: Time,
}

/// What time it is. In one moment it is always the same; so it may be earlier than what the clock said meanwhile.
pub fn now() -> Instant {
    match TIME.get() {
        Time::Passes => Instant::now(),
        Time::StandsStill => {
            let now = Instant::now();
            TIME.set(Time::StandsStillAt(now));
            now
        }
        Time::StandsStillAt(now) => now,
    }
}

/// Runs a future, and has everything that it does between two waits happen in one moment.
pub async fn by_moment<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    poll_fn(|context| {
        let _moment = Moment { before: TIME.replace(Time::StandsStill) };
        future.as_mut().poll(context)
    })
    .await
}

// === impl Moment ===

impl Drop for Moment {
    fn drop(&mut self) {
        TIME.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    /// Returns when it is later than that.
    fn pass(time: Instant) {
        while Instant::now() <= time {}
    }

    #[tokio::test]
    async fn time_stands_still_between_two_waits_and_nowhere_else() {
        let outside = now();
        pass(outside);
        assert!(now() > outside);
        let inside = pin!(async {
            let first = now();
            pass(first);
            assert_eq!(now(), first);
            tokio::task::yield_now().await;
            assert!(now() > first);
            let (within, around) = (pin!(async { now() }), now());
            pass(around);
            assert!(by_moment(within).await > around, "a moment of its own");
            assert_eq!(now(), around);
            around
        });
        let inside = by_moment(inside).await;
        pass(inside);
        assert!(now() > inside);
    }
}
