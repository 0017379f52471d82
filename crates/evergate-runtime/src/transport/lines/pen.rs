//! What writes to a server that reads lines.
//!
//! Most messages fit into what the system keeps for a pipe. Whoever has one writes it then and there, which spares it the
//! way to another task, usually on another thread. Those that come at about the same time are gathered and written
//! together, so that the server is woken up once for all of them. Only as long as nothing waits: what is queued goes first.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use crate::connection::CallWatch;

/// Shared by callers and the task that writes what they could not.
pub(super) struct Pen {
    /// Apart from the ink: nobody who has a message waits for somebody who writes.
    gathered: Mutex<Vec<Letter>>,
    ink: Mutex<Ink>,
    /// Messages that wait for the task, or that it is at.
    queued: Arc<AtomicUsize>,
}

/// A message and, if it is a call's request, what knows whether it was sent.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) message: Bytes,
    pub(super) watch: Option<Arc<CallWatch>>,
}

struct Ink {
    /// Absent when nothing more will be written.
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// What is left of a line whose beginning the server has taken.
    rest: Bytes,
    /// What comes after it. The server has taken nothing of these.
    next: Vec<Letter>,
    /// Room for their lines.
    lines: Vec<u8>,
}

/// A place in the queue. Nobody writes past it.
#[derive(Debug)]
pub(super) struct Queued(Arc<AtomicUsize>);

/// Which of those that will be written together a letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathered {
    First,
    Another,
    /// More must not wait.
    Last,
}

/// What became of an attempt to write at once.
#[derive(Debug)]
pub(super) enum Written {
    All,
    /// Something is left for the task, which has to be woken.
    Part(Queued),
    Failed,
}

/// As many as may be queued.
const MOST: usize = super::OUTBOX;
/// How much is written at a time, but for a longer message: what a pipe holds.
const AT_ONCE: usize = 64 * 1024;
/// How much of the room for lines is kept for the next ones.
const KEPT_ROOM: usize = 4 * 1024;

// === impl Pen ===

impl Pen {
    pub(super) fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let ink = Ink {
            writer: Some(Box::new(writer)),
            rest: Bytes::new(),
            next: Vec::new(),
            lines: Vec::new(),
        };
        Self { gathered: Mutex::default(), ink: Mutex::new(ink), queued: Arc::default() }
    }

    /// Keeps a letter for the next [`Self::write_gathered`]. Whoever brings the first has to see to that, and so has, at once,
    /// whoever brings the last that there is room for. Gives the letter back if it has to be queued.
    pub(super) fn gather(&self, letter: Letter) -> Result<Gathered, Letter> {
        if self.queued.load(Ordering::Acquire) > 0 {
            return Err(letter);
        }
        let mut gathered = self.gathered();
        gathered.push(letter);
        Ok(match gathered.len() {
            1 => Gathered::First,
            MOST.. => Gathered::Last,
            _ => Gathered::Another,
        })
    }

    /// Writes what has been gathered, as far as the server takes it. Never blocks.
    pub(super) fn write_gathered(&self) -> Written {
        let mut ink = self.ink();
        // The task may be waiting for the server, which wakes only the last one that does. Or it may be done with its last
        // message; so it gets another round.
        if self.queued.load(Ordering::Acquire) > 0 {
            return Written::Part(self.queue());
        }
        match self.poll_all(&mut ink, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Written::All,
            Poll::Ready(Err(_)) => Written::Failed,
            Poll::Pending => Written::Part(self.queue()),
        }
    }

    /// Writes what was left over, and a letter, if there is one.
    pub(super) async fn write(&self, letter: Option<Letter>) -> io::Result<()> {
        self.ink().next.extend(letter);
        poll_fn(|context| {
            let mut ink = self.ink();
            ready!(self.poll_all(&mut ink, context))?;
            ink.writer.as_mut().map_or(Poll::Ready(Ok(())), |w| Pin::new(w).poll_flush(context))
        })
        .await
    }

    /// Announces a message that will be queued: until then nobody writes past it.
    pub(super) fn queue(&self) -> Queued {
        self.queued.fetch_add(1, Ordering::AcqRel);
        Queued(self.queued.clone())
    }

    /// Writes no more.
    pub(super) fn put_down(&self) {
        let mut ink = self.ink();
        ink.writer = None;
        ink.next.clear();
    }

    fn poll_all(&self, ink: &mut Ink, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(ink.poll_rest(context))?;
            ink.next.append(&mut self.gathered());
            if ink.next.is_empty() {
                return Poll::Ready(Ok(()));
            }
            ready!(ink.poll_next(context))?;
        }
    }

    fn ink(&self) -> MutexGuard<'_, Ink> {
        self.ink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gathered(&self) -> MutexGuard<'_, Vec<Letter>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pen")
    }
}

// === impl Ink ===

impl Ink {
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.rest.is_empty() {
            let taken = ready!(poll_write(self.writer.as_mut(), context, &self.rest))?;
            self.rest.advance(taken);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the next letters, or as much of them as the server takes at once.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { writer, rest, next, lines } = self;
        // Said before the first byte leaves, so that nobody ever takes a request for unsent that was not …
        next.retain(|letter| {
            if lines.len() >= AT_ONCE {
                return true;
            }
            let wanted = letter.mark_sent();
            if wanted {
                push_line(lines, &letter.message);
            }
            wanted
        });
        if lines.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let written = poll_write(writer.as_mut(), context, lines);
        let taken = if let Poll::Ready(Ok(taken)) = written { taken } else { 0 };
        let (mut here, mut owed) = (0, 0);
        next.retain(|letter| {
            let untouched = here >= taken;
            here += letter.message.len() + 1;
            if untouched {
                // … and taken back if that byte did not.
                letter.mark_unsent();
            } else {
                owed = here;
            }
            untouched
        });
        if owed > taken {
            *rest = std::mem::take(lines).into();
            rest.truncate(owed);
            rest.advance(taken);
        }
        lines.clear();
        lines.shrink_to(KEPT_ROOM);
        written.map_ok(|_| ())
    }
}

fn poll_write(
    writer: Option<&mut Box<dyn AsyncWrite + Send + Unpin>>,
    context: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    let Some(writer) = writer else {
        return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
    };
    match ready!(Pin::new(writer).poll_write(context, bytes))? {
        0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        taken => Poll::Ready(Ok(taken)),
    }
}

/// Raw payloads may be spread over lines; a newline can only stand between tokens, where a space means the same.
fn push_line(lines: &mut Vec<u8>, message: &[u8]) {
    let begin = lines.len();
    lines.extend_from_slice(message);
    let line = &mut lines[begin..];
    if memchr::memchr2(b'\n', b'\r', line).is_some() {
        for byte in line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    lines.push(b'\n');
}

// === impl Letter ===

impl Letter {
    /// `false` if nobody waits for it any more.
    fn mark_sent(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.mark_sent())
    }

    fn mark_unsent(&self) {
        if let Some(watch) = &self.watch {
            watch.mark_unsent();
        }
    }
}

// === impl Queued ===

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    fn letter(id: u64, message: &'static str) -> (Letter, Arc<CallWatch>) {
        let watch = Arc::new(CallWatch::new(id, None));
        (Letter { message: message.into(), watch: Some(watch.clone()) }, watch)
    }

    #[tokio::test]
    async fn what_is_not_taken_at_once_goes_before_what_comes_later() {
        let (stream, mut server) = duplex(8);
        let pen = Pen::new(stream);
        let (first, watch) = letter(1, "first\nmessage");
        let (late, unsent) = letter(2, "second");
        assert_eq!(pen.gather(first).ok(), Some(Gathered::First));
        let Written::Part(queued) = pen.write_gathered() else { panic!("a part") };
        assert!(watch.is_sent());
        let late = pen.gather(late).unwrap_err();
        let mut heard = [0; 21];
        assert!(!unsent.is_sent(), "nothing of it has left");
        let (written, read) = tokio::join!(pen.write(Some(late)), server.read_exact(&mut heard));
        written.unwrap();
        read.unwrap();
        assert_eq!(&heard, b"first message\nsecond\n");
        drop(queued);
        assert_eq!(pen.gather(letter(3, "third").0).ok(), Some(Gathered::First));
        assert!(matches!(pen.write_gathered(), Written::All));
        pen.put_down();
        assert_eq!(pen.gather(letter(4, "fourth").0).ok(), Some(Gathered::First));
        assert!(matches!(pen.write_gathered(), Written::Failed));
    }

    #[tokio::test]
    async fn what_is_gathered_goes_together_but_for_what_nobody_waits_for() {
        let (stream, mut server) = duplex(64);
        let pen = Pen::new(stream);
        let letters = [letter(1, "one"), letter(2, "two"), letter(3, "three")];
        let watches = letters.each_ref().map(|(_, watch)| watch.clone());
        let gathered = letters.map(|(letter, _)| pen.gather(letter).unwrap());
        assert_eq!(gathered, [Gathered::First, Gathered::Another, Gathered::Another]);
        assert!(watches.iter().all(|watch| !watch.is_sent()));
        assert!(!watches[1].give_up());
        assert!(matches!(pen.write_gathered(), Written::All));
        assert_eq!(watches.map(|watch| watch.is_sent()), [true, false, true]);
        let mut heard = [0; 64];
        let got = server.read(&mut heard).await.unwrap();
        assert_eq!(&heard[..got], b"one\nthree\n");
    }

    #[tokio::test]
    async fn of_what_is_gathered_only_what_has_begun_was_sent() {
        let (stream, mut server) = duplex(6);
        let pen = Pen::new(stream);
        let letters = [letter(1, "one"), letter(2, "two"), letter(3, "three")];
        let watches = letters.each_ref().map(|(_, watch)| watch.clone());
        for (letter, _) in letters {
            pen.gather(letter).unwrap();
        }
        let Written::Part(_queued) = pen.write_gathered() else { panic!("a part") };
        assert_eq!(watches.each_ref().map(|watch| watch.is_sent()), [true, true, false]);
        assert!(!watches[2].give_up(), "it may still be taken back");
        let mut heard = [0; 8];
        let (written, read) = tokio::join!(pen.write(None), server.read_exact(&mut heard));
        written.unwrap();
        read.unwrap();
        assert_eq!(&heard, b"one\ntwo\n");
        drop(pen);
        assert_eq!(server.read(&mut heard).await.unwrap(), 0, "and nothing after it");
    }

    #[tokio::test]
    async fn no_more_are_gathered_than_may_be_queued() {
        let (stream, _server) = duplex(64 * 1024);
        let pen = Pen::new(stream);
        let places: Vec<_> =
            (0..MOST as u64).map(|n| pen.gather(letter(n, "x").0).unwrap()).collect();
        assert_eq!(places.iter().position(|place| *place == Gathered::Last), Some(MOST - 1));
        assert!(matches!(pen.write_gathered(), Written::All));
        assert_eq!(pen.gather(letter(0, "x").0).ok(), Some(Gathered::First));
    }

    #[tokio::test]
    async fn what_nobody_reads_any_more_was_not_sent() {
        let (stream, server) = duplex(8);
        let pen = Pen::new(stream);
        drop(server);
        let (letter, watch) = letter(1, "x");
        pen.gather(letter).unwrap();
        assert!(matches!(pen.write_gathered(), Written::Failed));
        assert!(!watch.is_sent());
    }

    #[tokio::test]
    async fn much_is_written_in_parts() {
        let (stream, mut server) = duplex(1024);
        let pen = Pen::new(stream);
        let message = Bytes::from(vec![b'x'; AT_ONCE / 3 * 2]);
        let watches: Vec<_> = (0..5).map(|id| Arc::new(CallWatch::new(id, None))).collect();
        for watch in &watches {
            let letter = Letter { message: message.clone(), watch: Some(watch.clone()) };
            pen.gather(letter).unwrap();
        }
        let Written::Part(_queued) = pen.write_gathered() else { panic!("a part") };
        let sent = watches.iter().filter(|watch| watch.is_sent()).count();
        assert_eq!(sent, 1, "a pipe does not hold more");
        let mut heard = vec![0; 5 * (message.len() + 1)];
        let (written, read) = tokio::join!(pen.write(None), server.read_exact(&mut heard));
        written.unwrap();
        read.unwrap();
        assert!(heard.chunks(message.len() + 1).all(|line| line.ends_with(b"x\n")));
        assert!(watches.iter().all(|watch| watch.is_sent()));
    }
}
