//! Answers that were read together are handed over together.
//!
//! Whoever waits on another runtime is woken up by a system call. So, where several wait on the same one, a single task there
//! hands them their answers: it alone is woken up like that, and wakes the others without.

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::sharded::SHARDS;
use crate::tasks::Tasks;
use crate::transport::{Answer, SendFailure};

pub(super) type Reply = oneshot::Sender<Result<Answer, SendFailure>>;

/// By the table that their requests waited in, which is their thread's.
#[derive(Debug, Default)]
pub(crate) struct Deliveries([Batch; SHARDS]);

/// Handed over when dropped: even a runtime that ends cannot keep answers from those who wait elsewhere.
#[derive(Debug, Default)]
pub(super) struct Batch(Vec<(Reply, Answer)>);

// === impl Deliveries ===

impl Deliveries {
    pub(super) fn add(&mut self, table: usize, reply: Reply, answer: Answer) {
        self.0[table].0.push((reply, answer));
    }

    /// Those that are not empty, with the numbers of their tables.
    pub(super) fn batches(&mut self) -> impl Iterator<Item = (usize, &mut Batch)> {
        self.0.iter_mut().enumerate().filter(|(_, batch)| !batch.0.is_empty())
    }
}

// === impl Batch ===

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Hands over what is there, on a runtime where most of those are who wait for it.
    pub(super) fn hand_over(&mut self, there: Option<&Handle>, tasks: &Tasks) {
        match there {
            Some(there) if self.len() > 1 && there.id() != Handle::current().id() => {
                let batch = std::mem::take(self);
                tasks.spawn_on(there, async move { drop(batch) });
            }
            _ => self.hand_over_here(),
        }
    }

    fn hand_over_here(&mut self) {
        for (reply, answer) in self.0.drain(..) {
            // A caller that gave up a moment ago does not mind.
            let _ = reply.send(Ok(answer));
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.hand_over_here();
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::protocol::RawJson;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    /// So many that are to be handed over, and who waits for them.
    fn batch(answers: usize) -> (Batch, Vec<oneshot::Receiver<Result<Answer, SendFailure>>>) {
        let (replies, waiting): (Vec<_>, Vec<_>) = (0..answers).map(|_| oneshot::channel()).unzip();
        let answer = || Ok(RawJson::empty_object());
        (Batch(replies.into_iter().map(|reply| (reply, answer())).collect()), waiting)
    }

    #[test]
    fn several_are_handed_over_where_they_are_waited_for() {
        let (here, there) = (runtime(), runtime());
        let tasks = here.block_on(async { Tasks::new() });
        let (mut several, mut waiting) = batch(3);
        here.block_on(async { several.hand_over(Some(there.handle()), &tasks) });
        assert!(waiting.iter_mut().all(|reply| reply.try_recv().is_err()), "not from here");
        there.block_on(async {
            for reply in waiting {
                assert!(reply.await.is_ok_and(|answer| answer.is_ok()));
            }
        });
        assert_eq!(several.len(), 0);
    }

    #[test]
    fn one_and_those_of_the_same_runtime_are_handed_over_at_once() {
        let (here, there) = (runtime(), runtime());
        let tasks = here.block_on(async { Tasks::new() });
        let places = [(1, Some(there.handle())), (3, Some(here.handle())), (3, None)];
        for (answers, place) in places {
            let (mut batch, mut waiting) = batch(answers);
            here.block_on(async { batch.hand_over(place, &tasks) });
            assert!(waiting.iter_mut().all(|reply| reply.try_recv().is_ok()));
            assert_eq!(batch.len(), 0, "the room is used again");
        }
        assert_eq!(tasks.running(), 0);
    }

    #[test]
    fn a_runtime_that_has_ended_keeps_nothing() {
        let (here, there) = (runtime(), runtime());
        let (tasks, place) = (here.block_on(async { Tasks::new() }), there.handle().clone());
        drop(there);
        let (mut several, mut waiting) = batch(3);
        here.block_on(async { several.hand_over(Some(&place), &tasks) });
        assert!(waiting.iter_mut().all(|reply| reply.try_recv().is_ok()));
    }
}
