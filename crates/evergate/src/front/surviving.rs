//! A call that survives its connection. As long as somebody waits where it was asked for it runs there, which spares
//! most calls a task and the way to another thread and back; once nobody does, it moves to a task of its own.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use crate::tasks::Tasks;

/// To be polled until it is over; dropped before, it goes on by itself.
pub(super) struct Surviving {
    call: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tasks: Tasks,
}

// === impl Surviving ===

impl Surviving {
    /// A panic ends the call and nothing else.
    pub(super) fn new(tasks: &Tasks, call: impl Future<Output = ()> + Send + 'static) -> Self {
        let call = AssertUnwindSafe(call).catch_unwind();
        // What panicked has been reported by then.
        let call = Box::pin(call.map(drop));
        Self { call: Some(call), tasks: tasks.clone() }
    }
}

impl Future for Surviving {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(call) = &mut self.call {
            std::task::ready!(call.as_mut().poll(context));
            self.call = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Surviving {
    fn drop(&mut self) {
        // Without a runtime the process is at its end.
        if let Some(call) = self.call.take()
            && Handle::try_current().is_ok()
        {
            self.tasks.spawn(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_goes_on() {
        let (go_on, (done, finished)) = (Arc::new(Notify::new()), oneshot::channel());
        let (tasks, wait) = (Tasks::default(), go_on.clone());
        let mut call = Surviving::new(&tasks, async move {
            wait.notified().await;
            let _ = done.send(());
        });
        assert!((&mut call).now_or_never().is_none());
        drop(call);
        go_on.notify_one();
        finished.await.unwrap();
    }

    #[tokio::test]
    async fn a_call_runs_where_it_is_waited_for_and_its_panic_stays_in_it() {
        let tasks = Tasks::default();
        let here = tokio::task::try_id();
        let (done, finished) = oneshot::channel();
        Surviving::new(&tasks, async move {
            let _ = done.send(tokio::task::try_id());
        })
        .await;
        assert_eq!(finished.await.unwrap(), here);
        Surviving::new(&tasks, async { panic!("as a test") }).await;
    }
}
