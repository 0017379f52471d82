//! The only place that spawns. Every task is counted, so that shutdown can wait for all of them and a test can see
//! that none is left.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// Spawns and counts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// Some tasks are spawned by dropping something, and that may happen on any thread.
    runtime: Handle,
}

// === impl Tasks ===

impl Tasks {
    /// Must be called within a tokio runtime, on which all tasks run from then on.
    pub(crate) fn new() -> Self {
        Self { tracker: TaskTracker::new(), runtime: Handle::current() }
    }

    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_on(&self.runtime, task)
    }

    /// The same on another runtime, which may end first.
    pub(crate) fn spawn_on<F>(&self, runtime: &Handle, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn_on(task, runtime)
    }

    /// Tasks that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Returns when every task has ended.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
