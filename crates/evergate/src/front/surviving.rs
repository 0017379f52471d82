//! A call that survives its connection. As long as somebody waits where it was asked for it runs there, which spares
//! most calls a task and the way to another thread and back; once nobody does, it moves to a task of its own.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evergate_runtime::RawJson;
use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use super::respond;
use crate::gateway::Answer;
use crate::gateway::error_body::{INTERNAL, plain};
use crate::gateway::event_log::EventLog;
use crate::tasks::Tasks;

type Calling = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// To be polled until it is over; dropped before, it goes on by itself, and its answer goes into the log.
pub(super) struct Surviving<'a> {
    call: Option<Calling>,
    id: &'a RawJson,
    log: &'a Arc<EventLog>,
    tasks: &'a Tasks,
}

// === impl Surviving ===

impl<'a> Surviving<'a> {
    /// A panic ends the call and nothing else.
    pub(super) fn new(
        tasks: &'a Tasks,
        id: &'a RawJson,
        log: &'a Arc<EventLog>,
        call: Calling,
    ) -> Self {
        Self { call: Some(call), id, log, tasks }
    }
}

impl Future for Surviving<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        // Not polled again once it is over.
        let Some(call) = &mut self.call else { return Poll::Pending };
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        let answer = std::task::ready!(polled.unwrap_or_else(|_| Poll::Ready(failed())));
        self.call = None;
        Poll::Ready(answer)
    }
}

impl Drop for Surviving<'_> {
    fn drop(&mut self) {
        // Without a runtime the process is at its end.
        if let Some(call) = self.call.take()
            && Handle::try_current().is_ok()
        {
            let (id, log) = (self.id.clone(), self.log.clone());
            self.tasks.spawn(async move {
                let answer = AssertUnwindSafe(async { call.await.whole().await }).catch_unwind();
                log.push(respond::line(&id, &answer.await.unwrap_or_else(|_| failed())));
                log.close();
            });
        }
    }
}

/// The answer to a call that panicked. What panicked has been reported by then.
fn failed() -> Answer {
    Answer::Error(plain(INTERNAL, "the gateway failed on this request"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;
    use crate::gateway::buffers::Buffers;

    fn id() -> RawJson {
        RawJson::from_text("7").unwrap()
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_goes_on_and_its_answer_is_kept() {
        let (tasks, go_on) = (Tasks::default(), Arc::new(Notify::new()));
        for panics in [false, true] {
            let (wait, log, id) =
                (go_on.clone(), Arc::new(EventLog::of_call(&Buffers::unlimited())), id());
            let call = Box::pin(async move {
                wait.notified().await;
                assert!(!panics, "as a test");
                Answer::Result(RawJson::empty_object())
            });
            let mut call = Surviving::new(&tasks, &id, &log, call);
            assert!((&mut call).now_or_never().is_none());
            drop(call);
            assert!(!log.has_messages());
            go_on.notify_one();
            let mut tail = log.read(0);
            let (_, answer) = tail.next().await.unwrap();
            let expected = if panics { "the gateway failed" } else { "\"result\":{}" };
            assert!(std::str::from_utf8(&answer).unwrap().contains(expected));
            assert_eq!(tail.next().await, None);
        }
    }

    #[tokio::test]
    async fn a_call_runs_where_it_is_waited_for_and_its_panic_stays_in_it() {
        let (tasks, log, id) =
            (Tasks::default(), Arc::new(EventLog::of_call(&Buffers::unlimited())), id());
        let here = tokio::task::try_id();
        let call = Box::pin(async move {
            assert_eq!(tokio::task::try_id(), here);
            Answer::Cancelled
        });
        assert!(matches!(Surviving::new(&tasks, &id, &log, call).await, Answer::Cancelled));
        let call = Box::pin(async { panic!("as a test") });
        assert!(matches!(Surviving::new(&tasks, &id, &log, call).await, Answer::Error(_)));
        assert!(!log.has_messages() && !log.is_closed());
    }
}
