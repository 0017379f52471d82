//! Callers that call all the time, and somebody who looks at the tool list.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::faults::host::Host;
use crate::faults::pace::{LOOK_EVERY, PAUSE};
use crate::faults::witness::Tool;

/// Callers that call without a break, and somebody who looks at the list.
#[derive(Debug)]
pub(super) struct Traffic {
    go_on: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// One caller: what it calls in turn.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) server: usize,
    pub(super) tools: Vec<Tool>,
    pub(super) doomed: bool,
}

// === impl Caller ===

impl Caller {
    /// One that calls a tool that must not be repeated, of the first server.
    pub(super) fn plain() -> Self {
        Self { server: 0, tools: vec![Tool::Echo], doomed: false }
    }
}

// === impl Traffic ===

impl Traffic {
    /// Starts callers, each with what it calls in turn (as the product names it) and whether that is doomed.
    pub(super) fn start(
        host: &Arc<Host>,
        callers: impl IntoIterator<Item = (Vec<(String, Tool)>, bool)>,
    ) -> Self {
        let mut this = Self { go_on: watch::Sender::new(true), tasks: JoinSet::new() };
        for (names, doomed) in callers {
            this.add(host, names, doomed);
        }
        let (host, goes_on) = (host.clone(), this.go_on.subscribe());
        this.tasks.spawn(async move {
            while *goes_on.borrow() {
                drop(host.look().await);
                sleep(LOOK_EVERY).await;
            }
        });
        this
    }

    /// One caller more.
    pub(super) fn add(&mut self, host: &Arc<Host>, names: Vec<(String, Tool)>, doomed: bool) {
        let (host, goes_on) = (host.clone(), self.go_on.subscribe());
        self.tasks.spawn(async move {
            for (exposed, tool) in names.iter().cycle() {
                if !*goes_on.borrow() {
                    break;
                }
                host.call(exposed, *tool, doomed).await;
                sleep(PAUSE).await;
            }
        });
    }

    /// Lets every caller finish what it is doing.
    pub(super) async fn stop(mut self) {
        self.go_on.send_replace(false);
        while self.tasks.join_next().await.is_some() {}
    }
}
