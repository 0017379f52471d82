//! One JSON-RPC message per line over a pair of byte streams: child processes and in-memory servers.
//!
//! The reader is a task of its own (`lines/reading.rs`). A caller writes by itself what the server takes at once; what it does
//! not take is left to a task, and so is everything after it (`lines/pen.rs`): a caller who gives up can never leave half a
//! message behind.

mod callers;
mod inlet;
mod pen;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::callers::Callers;
pub(super) use self::inlet::Inlet;
use self::pen::{Pen, Queued, Written};
use self::reading::Reading;
use super::line_splitter::LineSplitter;
use super::stdio::ChildControl;
use super::{Answer, SendFailure, TransportError};
use crate::connection::{CallWatch, Inbox, Reporter};
use crate::lifecycle::Loss;
use crate::tasks::Tasks;

/// A way to a server that reads and writes lines.
#[derive(Debug)]
pub(crate) struct LineLink {
    pen: Arc<Pen>,
    outbox: mpsc::Sender<Outbound>,
    stop_writing: CancellationToken,
    stop_reading: CancellationToken,
    /// The server no longer reads. What it had written before may still be on its way.
    write_failed: CancellationToken,
    child: Option<ChildControl>,
    callers: Callers,
}

#[derive(Debug)]
struct Outbound {
    message: Bytes,
    watch: Option<Arc<CallWatch>>,
    queued: Queued,
}

/// Enough for a burst of calls to be written back to back; beyond it callers wait their turn.
const OUTBOX: usize = 64;
/// A closed stdout is usually followed by the end of the process; that is the better reason to report, and the one a
/// restart policy goes by. Long enough for a busy machine; only a server that lives on without its stdout takes it.
const EXIT_FOLLOWS: Duration = Duration::from_secs(2);
/// A process that has ended has written all it ever will. Who still holds its stdout is none of our business.
const STDOUT_ENDS: Duration = Duration::from_millis(250);

/// Starts the two tasks: one reads, one writes what nobody could write at once.
pub(crate) fn start(
    inlet: Inlet,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    child: Option<ChildControl>,
    inbox: Arc<Inbox>,
    reporter: Reporter,
    tasks: &Tasks,
    max_message_bytes: usize,
) -> Arc<LineLink> {
    let (outbox, queue) = mpsc::channel(OUTBOX);
    let link = Arc::new(LineLink {
        pen: Arc::new(Pen::new(writer)),
        outbox,
        stop_writing: CancellationToken::new(),
        stop_reading: CancellationToken::new(),
        write_failed: CancellationToken::new(),
        child,
        callers: Callers::new(inlet.may_move()),
    });
    let (stop, failed) = (link.stop_writing.clone(), link.write_failed.clone());
    tasks.spawn(write(link.pen.clone(), queue, stop, failed));
    let splitter = LineSplitter::new(max_message_bytes);
    let reading = Reading { link: link.clone(), inlet, inbox, splitter, max_message_bytes };
    tasks.spawn(reading::read(reading, reporter, tasks.clone()));
    link
}

async fn write(
    pen: Arc<Pen>,
    mut queue: mpsc::Receiver<Outbound>,
    stop: CancellationToken,
    failed: CancellationToken,
) {
    loop {
        let outbound = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            outbound = queue.recv() => outbound,
        };
        let Some(Outbound { message, watch, queued }) = outbound else { break };
        // A write that blocks because the server reads nothing must not outlive the connection.
        let written = tokio::select! {
            () = stop.cancelled() => break,
            written = pen.write(&message, watch.as_deref()) => written,
        };
        if written.is_err() {
            failed.cancel();
            break;
        }
        drop(queued);
    }
    // The server hears that nothing more will come.
    pen.put_down();
}

// === impl LineLink ===

impl LineLink {
    pub(crate) async fn exchange(
        &self,
        inbox: &Arc<Inbox>,
        message: Bytes,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        self.callers.note();
        let mut pending = inbox.expect(watch);
        match self.pen.write_now(&message, Some(watch)) {
            Written::All => return pending.answer().await,
            Written::Failed => {
                // The reader is about to say why.
                self.write_failed.cancel();
                return pending.answer().await;
            }
            // The rest goes before everything else, whoever wakes the task first.
            Written::Part(queued) => {
                let rest = Outbound { message: Bytes::new(), watch: None, queued };
                let _ = self.outbox.try_send(rest);
                return pending.answer().await;
            }
            Written::Nothing => {}
        }
        let queued = self.pen.queue();
        let outbound = Outbound { message, watch: Some(watch.clone()), queued };
        tokio::select! {
            biased;
            // The connection may end while the outbox is full.
            answer = pending.answer() => return answer,
            // If it cannot be queued the connection is over, and the reader is about to say why.
            _ = self.outbox.send(outbound) => {}
        }
        pending.answer().await
    }

    pub(crate) async fn post(&self, message: Bytes) -> Result<(), TransportError> {
        let outbound = Outbound { message, watch: None, queued: self.pen.queue() };
        self.outbox.send(outbound).await.map_err(|_| TransportError::Closed)
    }

    pub(crate) async fn close(&self, within: Duration) -> Result<(), TransportError> {
        self.stop_writing.cancel();
        let stopped = match &self.child {
            // The reader goes on meanwhile: a child blocked on a full pipe could not end in peace.
            Some(child) => child.stop(within).await,
            None => Ok(()),
        };
        self.stop_reading.cancel();
        stopped
    }

    /// Lets go without waiting: the backstop for a connection that is dropped rather than closed.
    pub(crate) fn abandon(&self) {
        self.stop_writing.cancel();
        self.stop_reading.cancel();
        if let Some(child) = &self.child {
            child.abandon();
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.child.is_some() { "stdio" } else { "memory" }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(ChildControl::pid)
    }

    /// Resolves when no more can come: the child has ended, or takes nothing, and has had time for its last words.
    async fn over(&self) {
        let exited = async {
            match &self.child {
                Some(child) => drop(child.exited().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = exited => {}
            () = self.write_failed.cancelled() => {}
        }
        tokio::time::sleep(STDOUT_ENDS).await;
    }

    async fn post_mortem(&self, broken: TransportError) -> (Loss, TransportError) {
        let Some(child) = &self.child else { return (Loss::Transport, broken) };
        match tokio::time::timeout(EXIT_FOLLOWS, child.exited()).await {
            Ok(exit) => {
                (Loss::Exited { clean: exit.clean }, TransportError::Exited(exit.description))
            }
            Err(_) => (Loss::Transport, broken),
        }
    }
}
