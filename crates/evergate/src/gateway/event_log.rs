//! A stream of messages to a client that can be read again from the middle, within limits.
//!
//! Everything a client must get over HTTP goes through one of these: the answer to one request with what leads up to
//! it, or what the gateway has to say unasked. If the connection breaks, the client comes back with the number of the
//! last message it saw.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use evergate_runtime::{Own, PerThread};

use super::buffers::Buffers;

/// How many messages are kept, and how many bytes; the newest is kept whatever its size.
#[derive(Debug, Clone, Copy)]
struct Limit {
    messages: usize,
    bytes: usize,
}

/// For a client that comes back, and for what nobody listens to.
const READ: Limit = Limit { messages: 256, bytes: 256 * 1024 };
/// Of a call, what its client has not read yet: its answer and what the server asks must not be lost because something
/// else was said too often.
const UNREAD: Limit = Limit { messages: 8192, bytes: 16 * 1024 * 1024 };

/// Written by many, read by one.
#[derive(Debug)]
pub(crate) struct EventLog {
    state: Mutex<State>,
    unread: Limit,
    buffers: Own<Buffers>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    /// The number of the first message kept.
    first: u64,
    bytes: usize,
    closed: bool,
    /// It was read to its end.
    finished: bool,
    /// The number after the last message that was handed to a reader.
    delivered: u64,
    /// Counts readers: a new one takes over from the one before, whose connection may be dead without knowing.
    reader: u64,
    /// Whoever waits for the next change: the newest reader, or who waits for there to be something to read.
    waiting: Option<Waker>,
}

/// Reads a log from some point on.
#[derive(Debug)]
pub(crate) struct Tail {
    log: Arc<EventLog>,
    next: u64,
    reader: u64,
}

// === impl EventLog ===

impl EventLog {
    /// Of one call.
    pub(crate) fn of_call(buffers: &PerThread<Buffers>) -> Self {
        Self::new(UNREAD, buffers)
    }

    /// Of what is said unasked; nobody may be listening.
    pub(crate) fn of_news(buffers: &PerThread<Buffers>) -> Self {
        Self::new(READ, buffers)
    }

    fn new(unread: Limit, buffers: &PerThread<Buffers>) -> Self {
        Self { state: Mutex::default(), unread, buffers: buffers.own().clone() }
    }

    /// `false` if nothing more is to come.
    pub(crate) fn push(&self, message: Bytes) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        state.bytes += message.len();
        self.buffers.add(message.len());
        state.messages.push_back(message);
        loop {
            let was_read = state.first < state.delivered;
            let limit = if was_read { READ } else { self.unread };
            let over = state.messages.len() > limit.messages
                || state.bytes > limit.bytes
                // What was read once is kept only while there is room for it.
                || (was_read && self.buffers.are_full());
            if !over || state.messages.len() == 1 {
                break;
            }
            let dropped = state.messages.pop_front().map_or(0, |dropped| dropped.len());
            state.bytes -= dropped;
            self.buffers.give_back(dropped);
            state.first += 1;
        }
        changed(state);
        true
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        changed(state);
    }

    /// Nobody will ask for what is kept.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.first += state.messages.len() as u64;
        state.messages.clear();
        self.buffers.give_back(std::mem::take(&mut state.bytes));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    pub(crate) fn has_messages(&self) -> bool {
        !self.state().messages.is_empty()
    }

    /// How much memory is held for a client that may come back.
    pub(crate) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Ready when there is a first message, or the end.
    pub(crate) fn poll_begun(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.closed || state.first > 0 || !state.messages.is_empty() {
            return Poll::Ready(());
        }
        state.wait(context);
        Poll::Pending
    }

    /// Reads from message number `next` on; whoever read before reads no more.
    pub(crate) fn read(self: &Arc<Self>, next: u64) -> Tail {
        let mut state = self.state();
        state.reader += 1;
        let reader = state.reader;
        changed(state);
        Tail { log: self.clone(), next, reader }
    }

    /// Reads what no reader has had yet.
    pub(crate) fn read_new(self: &Arc<Self>) -> Tail {
        let next = self.state().delivered;
        self.read(next)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.bytes > 0 {
            self.buffers.give_back(state.bytes);
        }
    }
}

/// Whoever waits is to look again.
fn changed(mut state: MutexGuard<'_, State>) {
    let waiting = state.waiting.take();
    drop(state);
    if let Some(waiting) = waiting {
        waiting.wake();
    }
}

// === impl State ===

impl State {
    fn wait(&mut self, context: &Context<'_>) {
        match &mut self.waiting {
            Some(waiting) => waiting.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }
}

// === impl Tail ===

impl Tail {
    /// The number of the next message.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// The next message and its number; `None` at the end, or when another reader has taken over. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<(u64, Bytes)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Ready when there is something to read, or the end.
    pub(crate) fn poll_more(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.log.state();
        if self.has_more_in(&state) || state.closed || state.reader != self.reader {
            return Poll::Ready(());
        }
        state.wait(context);
        Poll::Pending
    }

    /// Whether there is something to read now.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more_in(&self.log.state())
    }

    fn has_more_in(&self, state: &State) -> bool {
        self.next < state.first + state.messages.len() as u64
    }

    fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<(u64, Bytes)>> {
        let mut state = self.log.state();
        if state.reader != self.reader {
            return Poll::Ready(None);
        }
        // What is no longer kept is lost to this reader.
        let number = self.next.max(state.first);
        let index = usize::try_from(number - state.first).unwrap_or(usize::MAX);
        if let Some(message) = state.messages.get(index) {
            let found = (number, message.clone());
            self.next = number + 1;
            state.delivered = state.delivered.max(self.next);
            return Poll::Ready(Some(found));
        }
        if state.closed {
            let is_first = !std::mem::replace(&mut state.finished, true);
            let keeps = !state.messages.is_empty();
            drop(state);
            if is_first && keeps {
                self.log.buffers.has_finished(Arc::downgrade(&self.log));
            }
            return Poll::Ready(None);
        }
        state.wait(context);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[tokio::test]
    async fn a_reader_gets_what_was_written_before_and_after_and_then_the_end() {
        let log = Arc::new(EventLog::of_news(&Buffers::unlimited()));
        log.push(text("a"));
        let mut tail = log.read(0);
        assert_eq!(tail.next().await, Some((0, text("a"))));
        let writer = async {
            log.push(text("b"));
            log.close();
            log.push(text("too late"));
        };
        let ((), next) = tokio::join!(writer, tail.next());
        assert_eq!(next, Some((1, text("b"))));
        assert_eq!(tail.next().await, None);
        assert_eq!(log.read(1).next().await, Some((1, text("b"))));
    }

    #[tokio::test]
    async fn a_new_reader_takes_over() {
        let log = Arc::new(EventLog::of_news(&Buffers::unlimited()));
        let mut old = log.read(0);
        let mut new = log.read(0);
        log.push(text("a"));
        assert_eq!(old.next().await, None);
        assert_eq!(new.next().await, Some((0, text("a"))));
    }

    #[tokio::test]
    async fn what_was_read_is_not_read_again_unless_asked_for() {
        let log = Arc::new(EventLog::of_news(&Buffers::unlimited()));
        log.push(text("a"));
        log.push(text("b"));
        assert_eq!(log.read_new().next().await, Some((0, text("a"))));
        assert_eq!(log.read_new().next().await, Some((1, text("b"))));
        assert_eq!(log.read(0).next().await, Some((0, text("a"))));
    }

    #[tokio::test]
    async fn old_messages_make_way_and_numbers_go_on() {
        let log = Arc::new(EventLog::of_news(&Buffers::unlimited()));
        for _ in 0..READ.messages + 10 {
            log.push(text("x"));
        }
        assert_eq!(log.read(0).next().await.unwrap().0, 10);
        log.push(Bytes::from(vec![b'y'; 2 * READ.bytes]));
        assert_eq!(log.read(0).next().await.unwrap().0, READ.messages as u64 + 10);
    }

    #[tokio::test]
    async fn of_a_call_nothing_unread_is_dropped_and_what_was_read_makes_way() {
        let log = Arc::new(EventLog::of_call(&Buffers::unlimited()));
        let many = READ.messages as u64 * 3;
        for _ in 0..many {
            log.push(text("x"));
        }
        let mut tail = log.read(0);
        for number in 0..many {
            assert_eq!(tail.next().await.unwrap().0, number);
        }
        log.push(text("last"));
        assert_eq!(log.read(0).next().await.unwrap().0, many + 1 - READ.messages as u64);
    }

    #[tokio::test]
    async fn what_is_kept_is_counted_and_what_was_read_makes_way_when_there_is_no_room() {
        let buffers = Buffers::new(10);
        let log = Arc::new(EventLog::of_call(&buffers));
        for _ in 0..4 {
            log.push(text("four"));
        }
        assert_eq!(buffers.state().0, 16);
        let mut tail = log.read(0);
        for number in 0..3 {
            assert_eq!(tail.next().await, Some((number, text("four"))));
        }
        log.push(text("five!"));
        assert_eq!(buffers.state().0, 9, "the three that were read are gone");
        assert_eq!(tail.next().await, Some((3, text("four"))));
        assert_eq!(tail.next().await, Some((4, text("five!"))));
        drop((tail, log));
        assert_eq!(buffers.state().0, 0);
    }

    #[tokio::test]
    async fn what_was_read_to_its_end_makes_way_for_new_requests() {
        let buffers = Buffers::new(10);
        let logs: Vec<_> = (0..3).map(|_| Arc::new(EventLog::of_call(&buffers))).collect();
        for log in &logs {
            log.push(text("four"));
            log.close();
        }
        let read = async |log: &Arc<EventLog>| {
            let mut tail = log.read(0);
            assert_eq!(tail.next().await, Some((0, text("four"))));
            assert_eq!(tail.next().await, None);
        };
        assert!(buffers.are_full_but_for(0), "nobody has read them");
        read(&logs[1]).await;
        read(&logs[1]).await;
        read(&logs[2]).await;
        assert!(!buffers.are_full_but_for(0));
        assert_eq!(buffers.state().0, 8, "the one that was read first made way");
        read(&logs[0]).await;
        read(&logs[2]).await;
        let mut late = logs[1].read(0);
        assert_eq!(late.next().await, None);
    }
}
