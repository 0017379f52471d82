//! Waiting for a cancellation that hardly ever comes, beside something that is polled often.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio_util::sync::CancellationToken;

/// What the token wakes, on behalf of a task.
struct Bell {
    has_rung: AtomicBool,
    task: Waker,
}

/// As [`CancellationToken::cancelled`], but it looks at the token once for each task that polls it, not with every poll: the
/// token has a lock, and may be that of all connections.
pub(crate) async fn cancelled(token: &CancellationToken) {
    let mut waiting = pin!(token.cancelled());
    let mut bell: Option<Arc<Bell>> = None;
    poll_fn(|context| {
        let known = bell.as_ref().filter(|bell| bell.task.will_wake(context.waker()));
        if known.is_some_and(|bell| !bell.has_rung.load(Ordering::Acquire)) {
            return Poll::Pending;
        }
        let task = context.waker().clone();
        let new = Arc::new(Bell { has_rung: AtomicBool::new(false), task });
        let waker = Waker::from(new.clone());
        bell = Some(new);
        waiting.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await;
}

// === impl Bell ===

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_polled_last_is_woken() {
        let token = CancellationToken::new();
        let mut waiting = pin!(cancelled(&token));
        let tasks: [Arc<Woken>; 2] = Default::default();
        for task in [&tasks[0], &tasks[0], &tasks[1], &tasks[1]] {
            let waker = Waker::from(task.clone());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        token.cancel();
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        assert!(waiting.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
