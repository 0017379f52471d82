//! One JSON-RPC message per line over a pair of byte streams: child processes and in-memory servers.
//!
//! The reader is a task of its own (`lines/reading.rs`). A caller writes by itself what the server takes at once, together
//! with what others have for it; what it does not take is left to a task, and so is everything after it (`lines/pen.rs`): a
//! caller who gives up can never leave half a message behind.

mod callers;
mod inlet;
mod pen;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::callers::Callers;
pub(super) use self::inlet::Inlet;
use self::pen::{Gathered, Letter, Pen, Queued, Written};
use self::reading::Reading;
use super::line_splitter::LineSplitter;
use super::stdio::ChildControl;
use super::{Answer, SendFailure, TransportError};
use crate::connection::{CallWatch, Deliveries, Inbox, Reporter};
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
    tasks: Tasks,
}

#[derive(Debug)]
struct Outbound {
    /// Absent if it is only about what is left over.
    letter: Option<Letter>,
    queued: Queued,
}

/// Whose turn it is to write what has been gathered. Does so when dropped: even a runtime that ends cannot keep it from it.
struct Turn(Arc<LineLink>);

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
        tasks: tasks.clone(),
    });
    let (stop, failed) = (link.stop_writing.clone(), link.write_failed.clone());
    tasks.spawn(write(link.pen.clone(), queue, stop, failed));
    let reading = Reading {
        link: link.clone(),
        callers: Callers::new(inlet.may_move()),
        inlet,
        inbox,
        splitter: LineSplitter::new(max_message_bytes),
        max_message_bytes,
        answers: Deliveries::default(),
    };
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
        let Some(Outbound { letter, queued }) = outbound else { break };
        // A write that blocks because the server reads nothing must not outlive the connection.
        let written = tokio::select! {
            () = stop.cancelled() => break,
            written = pen.write(letter) => written,
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
        self: &Arc<Self>,
        inbox: &Arc<Inbox>,
        message: Bytes,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        let mut pending = inbox.expect(watch);
        let letter = Letter { message, watch: Some(watch.clone()) };
        match self.pen.gather(letter) {
            Ok(Gathered::First) => self.write_soon(pending.has_others()),
            // It goes with the first.
            Ok(Gathered::Another) => {}
            // The first may be on a thread that is held up.
            Ok(Gathered::Last) => self.write_soon(false),
            Err(letter) => {
                let outbound = Outbound { letter: Some(letter), queued: self.pen.queue() };
                tokio::select! {
                    biased;
                    // The connection may end while the outbox is full.
                    answer = pending.answer() => return answer,
                    // If it cannot be queued the connection is over, and the reader is about to say why.
                    _ = self.outbox.send(outbound) => {}
                }
            }
        }
        pending.answer().await
    }

    pub(crate) async fn post(&self, message: Bytes) -> Result<(), TransportError> {
        let letter = Some(Letter { message, watch: None });
        let outbound = Outbound { letter, queued: self.pen.queue() };
        self.outbox.send(outbound).await.map_err(|_| TransportError::Closed)
    }

    /// Writes what has been gathered: now, or after everybody has had a turn who was woken at the same time and may have
    /// something for this server too. As a task of its own: this caller may not be polled for a while, and others wait.
    fn write_soon(self: &Arc<Self>, together: bool) {
        let turn = Turn(self.clone());
        if together {
            self.tasks.spawn_on(&Handle::current(), async move { drop(turn) });
        } else {
            drop(turn);
        }
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

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        let Self(link) = self;
        match link.pen.write_gathered() {
            Written::All => {}
            // The reader is about to say why.
            Written::Failed => link.write_failed.cancel(),
            // Goes before everything else, whoever wakes the task first. If there is no room for it, the task has enough to
            // wake up for.
            Written::Part(queued) => {
                let _ = link.outbox.try_send(Outbound { letter: None, queued });
            }
        }
    }
}
