//! How long a connection waits for its client, whatever it waits for.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};

/// One timer for a connection's whole life. It is set for the end of the first wait and looked at again when it goes off,
/// by when another wait has long begun: a wait costs no timer of its own.
pub(super) struct Patience {
    /// From the first wait on.
    timer: Option<Pin<Box<Sleep>>>,
    /// Who is woken by it.
    waits: Option<Waker>,
}

// === impl Patience ===

impl Patience {
    pub(super) const fn new() -> Self {
        Self { timer: None, waits: None }
    }

    /// Resolves at that time, which may be another with each call.
    pub(super) fn poll_until(&mut self, until: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if timer.deadline() > until {
            timer.as_mut().reset(until);
            self.waits = None;
        }
        let is_woken = self.waits.as_ref().is_some_and(|waits| waits.will_wake(context.waker()));
        if is_woken && !timer.is_elapsed() {
            return Poll::Pending;
        }
        loop {
            self.waits = Some(context.waker().clone());
            // Not within the task's budget: with none left it would not be set, only asked to be polled again.
            ready!(pin!(unconstrained(timer.as_mut())).poll(context));
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn wait(patience: &mut Patience, seconds: u64) -> u64 {
        let started = Instant::now();
        let until = started + Duration::from_secs(seconds);
        poll_fn(|context| patience.poll_until(until, context)).await;
        started.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn every_wait_ends_at_its_own_time() {
        let mut patience = Patience::new();
        for seconds in [30, 60, 1, 30] {
            assert_eq!(wait(&mut patience, seconds).await, seconds);
        }
        // One that begins when the task has done so much that it ought to yield.
        while tokio::task::coop::has_budget_remaining() {
            tokio::task::consume_budget().await;
        }
        let until = Instant::now() + Duration::from_secs(7);
        let mut late = Patience::new();
        let first = poll_fn(|context| Poll::Ready(late.poll_until(until, context))).await;
        assert!(first.is_pending());
        let waiting = poll_fn(|context| late.poll_until(until, context));
        assert!(timeout(Duration::from_secs(60), waiting).await.is_ok(), "it was never set");
        assert_eq!(Instant::now(), until);
        // One that was not waited for to its end, and is over before or after the next.
        for (given_up, seconds) in [(30, 60), (60, 30), (1, 5)] {
            let until = Instant::now() + Duration::from_secs(given_up);
            let first = poll_fn(|context| Poll::Ready(patience.poll_until(until, context))).await;
            assert!(first.is_pending());
            assert_eq!(wait(&mut patience, seconds).await, seconds);
        }
    }
}
