//! Waiting for a cancellation that hardly ever comes, beside something that is polled often.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tokio_util::sync::CancellationToken;

/// As [`CancellationToken::cancelled`], but it queues up once for each task that polls it, not with every poll.
pub(crate) async fn cancelled(token: &CancellationToken) {
    let mut waiting = pin!(token.cancelled());
    let mut queued: Option<Waker> = None;
    poll_fn(|context| {
        if token.is_cancelled() {
            return Poll::Ready(());
        }
        if queued.as_ref().is_some_and(|queued| queued.will_wake(context.waker())) {
            return Poll::Pending;
        }
        queued = Some(context.waker().clone());
        waiting.as_mut().poll(context)
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

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
