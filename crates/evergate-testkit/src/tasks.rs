//! The only place in this crate that spawns.
//!
//! Every task belongs to a [`Tasks`] group. Stopping the group ends all of its tasks at their next
//! await point, so a killed server leaves nothing behind that could still answer.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks that end together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

// === impl Tasks ===

impl Tasks {
    /// Runs `task` until it ends or the group is stopped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            // A task that loses the race is dropped here, with everything it owns.
            stop.run_until_cancelled_owned(task).await;
        });
    }

    /// Runs `task`, which watches [`Tasks::stopped`] itself because it has something to do last.
    pub(crate) fn spawn_closing(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    pub(crate) fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Ends every task of the group soon, without waiting for it.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
    }

    /// Waits until every task of a stopped group is gone.
    pub(crate) async fn gone(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
