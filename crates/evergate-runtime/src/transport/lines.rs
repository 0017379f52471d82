//! One JSON-RPC message per line over a pair of byte streams: child processes and in-memory servers.
//!
//! Reader and writer are tasks of their own that own their stream, so that a caller who gives up can never leave half
//! a message behind.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::line_splitter::{Line, LineSplitter};
use super::stdio::ChildControl;
use super::{Answer, Link, SendFailure, TransportError};
use crate::connection::{CallWatch, Inbox, Reporter};
use crate::error::SharedError;
use crate::lifecycle::Loss;
use crate::protocol::{self, parse};
use crate::tasks::Tasks;

/// A way to a server that reads and writes lines.
#[derive(Debug)]
pub(crate) struct LineLink {
    outbox: mpsc::Sender<Outbound>,
    stop_writing: CancellationToken,
    stop_reading: CancellationToken,
    /// The server no longer reads. What it had written before may still be on its way.
    write_failed: CancellationToken,
    child: Option<ChildControl>,
}

#[derive(Debug)]
struct Outbound {
    message: Bytes,
    watch: Option<Arc<CallWatch>>,
}

/// Enough for a burst of calls to be written back to back; beyond it callers wait their turn.
const OUTBOX: usize = 64;
/// How much to read at a time: little, because an idle connection keeps that much room, and more as long as the server
/// fills it.
const FIRST_READ: usize = 1024;
const LARGEST_READ: usize = 64 * 1024;
/// A closed stdout is usually followed by the end of the process; that is the better reason to report, and the one a
/// restart policy goes by. Long enough for a busy machine; only a server that lives on without its stdout takes it.
const EXIT_FOLLOWS: Duration = Duration::from_secs(2);
/// A process that has ended has written all it ever will. Who still holds its stdout is none of our business.
const STDOUT_ENDS: Duration = Duration::from_millis(250);

/// Starts the two tasks.
pub(crate) fn start<R, W>(
    reader: R,
    writer: W,
    child: Option<ChildControl>,
    inbox: Arc<Inbox>,
    reporter: Reporter,
    tasks: &Tasks,
    max_message_bytes: usize,
) -> Arc<LineLink>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (outbox, queue) = mpsc::channel(OUTBOX);
    let link = Arc::new(LineLink {
        outbox,
        stop_writing: CancellationToken::new(),
        stop_reading: CancellationToken::new(),
        write_failed: CancellationToken::new(),
        child,
    });
    tasks.spawn(write(writer, queue, link.stop_writing.clone(), link.write_failed.clone()));
    tasks.spawn(read(link.clone(), reader, inbox, reporter, max_message_bytes));
    link
}

async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut queue: mpsc::Receiver<Outbound>,
    stop: CancellationToken,
    failed: CancellationToken,
) {
    loop {
        let outbound = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            outbound = queue.recv() => outbound,
        };
        let Some(Outbound { message, watch }) = outbound else { return };
        // A write that blocks because the server reads nothing must not outlive the connection.
        let written = tokio::select! {
            () = stop.cancelled() => return,
            written = write_line(&mut writer, &message, watch.as_deref()) => written,
        };
        if written.is_err() {
            failed.cancel();
            return;
        }
    }
}

async fn write_line<W: AsyncWrite + Unpin>(
    writer: &mut W,
    message: &Bytes,
    watch: Option<&CallWatch>,
) -> std::io::Result<()> {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message);
    // Raw payloads may be spread over lines; a newline can only stand between tokens, where a space means the same.
    if memchr::memchr2(b'\n', b'\r', &line).is_some() {
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    line.push(b'\n');
    // Said before the first byte leaves, so that nobody ever takes a request for unsent that was not …
    if watch.is_some_and(|watch| !watch.mark_sent()) {
        return Ok(());
    }
    let first = writer.write(&line).await;
    if let (Err(_), Some(watch)) = (&first, watch) {
        // … and taken back if that byte did not.
        watch.mark_unsent();
    }
    writer.write_all(&line[first?..]).await?;
    writer.flush().await
}

async fn read<R: AsyncRead + Unpin>(
    link: Arc<LineLink>,
    mut reader: R,
    inbox: Arc<Inbox>,
    reporter: Reporter,
    max_message_bytes: usize,
) {
    let mut splitter = LineSplitter::new(max_message_bytes);
    let over = link.over();
    tokio::pin!(over);
    let mut step = FIRST_READ;
    let broken = loop {
        while let Some(line) = splitter.next_line() {
            match line {
                Line::Message(text) => match parse(&text) {
                    Ok(messages) => {
                        for message in messages {
                            inbox.receive(message, &Link::Lines(link.clone()), None);
                        }
                    }
                    Err(error) => inbox.count_garbage(&error),
                },
                Line::Oversized(ends) => {
                    let error = TransportError::TooLarge { limit: max_message_bytes };
                    inbox.count_garbage(&error);
                    if let Some(id) = protocol::answered_id(&ends.start, &ends.end) {
                        inbox.fail(id, error);
                    }
                }
            }
        }
        let space = splitter.space(step);
        let got = tokio::select! {
            biased;
            () = link.stop_reading.cancelled() => break TransportError::Closed,
            got = reader.read_buf(space) => got,
            () = &mut over => break TransportError::StreamEnded,
        };
        match got {
            Ok(0) => break TransportError::StreamEnded,
            Ok(got) if got >= step => step = (step * 2).min(LARGEST_READ),
            Ok(got) if got < step / 4 => step = FIRST_READ,
            Ok(_) => {}
            Err(error) => break TransportError::Broken(SharedError::new(error)),
        }
    };
    link.stop_writing.cancel();
    let (loss, error) = link.post_mortem(broken).await;
    // First the report that knows why: callers report too as they fail, and know only that.
    inbox.set_broken(&error);
    reporter.lost(loss, error.clone()).await;
    inbox.fail_all(&error);
}

// === impl LineLink ===

impl LineLink {
    pub(crate) async fn exchange(
        &self,
        inbox: &Arc<Inbox>,
        message: Bytes,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        let mut pending = inbox.expect(watch);
        let outbound = Outbound { message, watch: Some(watch.clone()) };
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
        let outbound = Outbound { message, watch: None };
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
