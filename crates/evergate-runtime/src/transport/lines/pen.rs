//! What writes to a server that reads lines.
//!
//! Most messages fit into what the system keeps for a pipe. Whoever has one writes it then and there, which spares it the
//! way to another task, usually on another thread. Only as long as nothing waits: what is queued goes first.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use crate::connection::CallWatch;

/// Shared by callers and the task that writes what they could not.
pub(super) struct Pen {
    ink: Mutex<Ink>,
    /// Messages that wait for the task, or that it is at.
    queued: Arc<AtomicUsize>,
}

struct Ink {
    /// Absent when nothing more will be written.
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// What is left of a line whose beginning the server has taken.
    rest: Bytes,
}

/// A place in the queue. Nobody writes past it.
#[derive(Debug)]
pub(super) struct Queued(Arc<AtomicUsize>);

/// What became of an attempt to write at once.
#[derive(Debug)]
pub(super) enum Written {
    All,
    /// The beginning; the rest waits for the task, which has to be woken.
    Part(Queued),
    /// It has to be queued.
    Nothing,
    Failed,
}

// === impl Pen ===

impl Pen {
    pub(super) fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let ink = Ink { writer: Some(Box::new(writer)), rest: Bytes::new() };
        Self { ink: Mutex::new(ink), queued: Arc::default() }
    }

    /// Writes a message if nothing waits and the server takes it. Never blocks.
    pub(super) fn write_now(&self, message: &Bytes, watch: Option<&CallWatch>) -> Written {
        if self.queued.load(Ordering::Acquire) > 0 {
            return Written::Nothing;
        }
        let mut ink = match self.ink.try_lock() {
            Ok(ink) => ink,
            Err(TryLockError::Poisoned(ink)) => ink.into_inner(),
            Err(TryLockError::WouldBlock) => return Written::Nothing,
        };
        // Somebody may have come first.
        if self.queued.load(Ordering::Acquire) > 0 {
            return Written::Nothing;
        }
        let Ink { writer: Some(writer), rest } = &mut *ink else { return Written::Failed };
        let mut line = line(message);
        if watch.is_some_and(|watch| !watch.mark_sent()) {
            // Nobody waits for it any more.
            return Written::All;
        }
        let length = line.len();
        let mut context = Context::from_waker(Waker::noop());
        let outcome = loop {
            match Pin::new(&mut *writer).poll_write(&mut context, &line) {
                Poll::Ready(Ok(0) | Err(_)) => break Written::Failed,
                Poll::Ready(Ok(taken)) => line.advance(taken),
                Poll::Pending if line.len() == length => break Written::Nothing,
                Poll::Pending => {
                    *rest = line.clone();
                    break Written::Part(self.queue());
                }
            }
            if line.is_empty() {
                break Written::All;
            }
        };
        if line.len() == length
            && let Some(watch) = watch
        {
            watch.mark_unsent();
        }
        outcome
    }

    /// Writes what was left over, and then a message, if there is one.
    pub(super) async fn write(&self, message: &Bytes, watch: Option<&CallWatch>) -> io::Result<()> {
        poll_fn(|context| self.poll_rest(context)).await?;
        if message.is_empty() {
            return Ok(());
        }
        let line = line(message);
        // Said before the first byte leaves, so that nobody ever takes a request for unsent that was not …
        if watch.is_some_and(|watch| !watch.mark_sent()) {
            return Ok(());
        }
        let length = line.len();
        self.ink().rest = line;
        let written = poll_fn(|context| self.poll_rest(context)).await;
        if written.is_err()
            && self.ink().rest.len() == length
            && let Some(watch) = watch
        {
            // … and taken back if that byte did not.
            watch.mark_unsent();
        }
        written
    }

    /// Announces a message that will be queued: until then nobody writes past it.
    pub(super) fn queue(&self) -> Queued {
        self.queued.fetch_add(1, Ordering::AcqRel);
        Queued(self.queued.clone())
    }

    /// Writes no more.
    pub(super) fn put_down(&self) {
        self.ink().writer = None;
    }

    fn poll_rest(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ink = self.ink();
        let Ink { writer: Some(writer), rest } = &mut *ink else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        while !rest.is_empty() {
            match ready!(Pin::new(&mut *writer).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => rest.advance(taken),
            }
        }
        Pin::new(writer).poll_flush(context)
    }

    fn ink(&self) -> MutexGuard<'_, Ink> {
        self.ink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pen")
    }
}

// === impl Queued ===

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Raw payloads may be spread over lines; a newline can only stand between tokens, where a space means the same.
fn line(message: &Bytes) -> Bytes {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message);
    if memchr::memchr2(b'\n', b'\r', &line).is_some() {
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_not_taken_at_once_goes_before_what_comes_later() {
        let (stream, mut server) = duplex(8);
        let pen = Pen::new(stream);
        let (first, second) = (Bytes::from("first\nmessage"), Bytes::from("second"));
        let watch = CallWatch::new(1, None);
        let Written::Part(queued) = pen.write_now(&first, Some(&watch)) else { panic!("a part") };
        assert!(watch.is_sent());
        let late = CallWatch::new(2, None);
        assert!(matches!(pen.write_now(&second, Some(&late)), Written::Nothing));
        assert!(!late.is_sent(), "nothing of it has left");
        let mut heard = [0; 21];
        let (written, read) =
            tokio::join!(pen.write(&second, Some(&late)), server.read_exact(&mut heard));
        written.unwrap();
        read.unwrap();
        assert_eq!(&heard, b"first message\nsecond\n");
        drop(queued);
        assert!(matches!(pen.write_now(&second, None), Written::All));
        pen.put_down();
        assert!(matches!(pen.write_now(&second, None), Written::Failed));
    }

    #[tokio::test]
    async fn what_nobody_reads_any_more_was_not_sent() {
        let (stream, server) = duplex(8);
        let pen = Pen::new(stream);
        drop(server);
        let watch = CallWatch::new(1, None);
        assert!(matches!(pen.write_now(&Bytes::from("x"), Some(&watch)), Written::Failed));
        assert!(!watch.is_sent());
    }
}
