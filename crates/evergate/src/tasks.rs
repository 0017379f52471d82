//! The only place that spawns. Every task is counted, so that a shutdown can wait for all of them.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// Spawns and counts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(TaskTracker);

// === impl Tasks ===

impl Tasks {
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawn(task)
    }

    /// Tasks that have not ended.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn running(&self) -> usize {
        self.0.len()
    }

    /// Waits until every task has ended; says how many had not by then.
    pub(crate) async fn ended(&self, within: Duration) -> usize {
        self.0.close();
        // What is left over is counted.
        let _ = timeout(within, self.0.wait()).await;
        self.0.len()
    }
}
