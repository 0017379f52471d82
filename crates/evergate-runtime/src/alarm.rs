//! A timer that is set for nearly every call and hardly ever goes off.
//!
//! A new timer that is due before all others wakes the thread's own driver, by a system call. One that is set already
//! and only moved to a later time costs nothing to speak of. So those of calls that are over are kept, still set, for the
//! next call on the same thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep};

use crate::moment;

thread_local! {
    static IDLE: RefCell<Idle> = const { RefCell::new(Idle { home: None, sleeps: Vec::new() }) };
}

/// Of one runtime only, the last that was used on this thread: each of them keeps some of its runtime alive.
#[derive(Debug)]
struct Idle {
    home: Option<Id>,
    sleeps: Vec<Pin<Box<Sleep>>>,
}

/// More calls than that at once, on one thread, set new ones.
const MAX_IDLE: usize = 256;

/// Resolves when its time has come.
#[derive(Debug)]
pub struct Alarm {
    /// Until it is dropped.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The runtime that it belongs to.
    home: Id,
}

// === impl Alarm ===

impl Alarm {
    /// Set for so long from now.
    pub fn after(time: Duration) -> Self {
        Self::at(moment::now() + time)
    }

    /// Set for that time.
    pub(crate) fn at(at: Instant) -> Self {
        let home = Handle::current().id();
        let kept = IDLE
            .with_borrow_mut(|idle| if idle.home == Some(home) { idle.sleeps.pop() } else { None });
        let sleep = match kept {
            Some(mut sleep) => {
                sleep.as_mut().reset(at);
                sleep
            }
            None => Box::pin(tokio::time::sleep_until(at)),
        };
        Self { sleep: Some(sleep), home }
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().map_or(Poll::Ready(()), |sleep| sleep.as_mut().poll(context))
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let Some(sleep) = self.sleep.take() else { return };
        // At the end of a thread there is nobody to keep it for.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let mut others = Vec::new();
            if idle.home.replace(self.home) != Some(self.home) {
                others = std::mem::take(&mut idle.sleeps);
            }
            if idle.sleeps.len() < MAX_IDLE {
                idle.sleeps.push(sleep);
            }
            // What goes with them may be waiting for an alarm itself.
            drop(idle);
            drop(others);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_that_was_used_before_goes_off_at_its_new_time() {
        let started = Instant::now();
        for seconds in [1, 5, 2] {
            let before = Instant::now();
            Alarm::after(Duration::from_secs(seconds)).await;
            assert_eq!(before.elapsed().as_secs(), seconds);
        }
        drop(Alarm::after(Duration::from_secs(1)));
        Alarm::after(Duration::from_secs(3)).await;
        assert_eq!(started.elapsed().as_secs(), 11);
        assert_eq!(IDLE.with_borrow(|idle| idle.sleeps.len()), 1);
    }

    #[test]
    fn those_of_a_runtime_that_is_gone_are_not_used_and_not_kept() {
        for _ in 0..3 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(async { Alarm::after(Duration::from_millis(1)).await });
        }
        assert_eq!(IDLE.with_borrow(|idle| idle.sleeps.len()), 1);
    }
}
