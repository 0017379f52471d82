//! Reading what a server writes, on the runtime where most is gained by it.

use std::pin::pin;
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::runtime::Handle;

use super::callers::Callers;
use super::inlet::Inlet;
use super::{LineLink, TransportError};
use crate::connection::{Deliveries, Inbox, Reporter};
use crate::error::SharedError;
use crate::protocol::{self, parse};
use crate::tasks::Tasks;
use crate::transport::Link;
use crate::transport::line_splitter::{Line, LineSplitter};

/// How much to read at a time: little, because an idle connection keeps that much room, and more as long as the server
/// fills it.
const FIRST_READ: usize = 1024;
const LARGEST_READ: usize = 64 * 1024;

pub(super) struct Reading {
    pub(super) link: Arc<LineLink>,
    pub(super) inlet: Inlet,
    pub(super) inbox: Arc<Inbox>,
    pub(super) splitter: LineSplitter,
    pub(super) max_message_bytes: usize,
    pub(super) callers: Callers,
    /// What was read at once.
    pub(super) answers: Deliveries,
}

/// Reads to the end, and then says what has come to an end and why.
pub(super) async fn read(reading: Reading, reporter: Reporter, tasks: Tasks) {
    let (link, inbox) = (reading.link.clone(), reading.inbox.clone());
    let broken = reading.until_broken(&tasks).await;
    link.stop_writing.cancel();
    let (loss, error) = link.post_mortem(broken).await;
    // First the report that knows why: callers report too as they fail, and know only that.
    inbox.set_broken(&error);
    reporter.lost(loss, error.clone()).await;
    inbox.fail_all(&error);
}

// === impl Reading ===

impl Reading {
    async fn until_broken(mut self, tasks: &Tasks) -> TransportError {
        let home = Handle::current();
        loop {
            let there = self.callers.place().cloned();
            self.inlet = match self.inlet.moved_to(there.as_ref().unwrap_or(&home)) {
                Ok(inlet) => inlet,
                Err(error) => return TransportError::Broken(SharedError::new(error)),
            };
            let reading = async move {
                let stopped = self.until_it_should_move().await;
                (self, stopped)
            };
            let read = match there {
                None => Ok(reading.await),
                // It may end before its time, together with the runtime that it moved to.
                Some(there) => tasks.spawn_on(&there, reading).await,
            };
            match read {
                Ok((reading, Ok(()))) => self = reading,
                Ok((_, Err(broken))) => return broken,
                Err(gone) => return TransportError::Broken(SharedError::new(gone)),
            }
        }
    }

    /// Takes line after line, as long as this is the place for it.
    async fn until_it_should_move(&mut self) -> Result<(), TransportError> {
        let link = self.link.clone();
        let mut stopped = pin!(link.stop_reading.cancelled());
        let mut over = pin!(link.over());
        let mut step = FIRST_READ;
        let place = self.callers.place().map(Handle::id);
        loop {
            self.take_lines();
            if self.callers.place().map(Handle::id) != place {
                return Ok(());
            }
            let space = self.splitter.space(step);
            let got = tokio::select! {
                biased;
                // First of all: as long as something comes, nothing else is looked at. Tokio has it pause now and then, and
                // then the others have their turn.
                got = self.inlet.read_buf(space) => got,
                () = &mut stopped => return Err(TransportError::Closed),
                () = &mut over => return Err(TransportError::StreamEnded),
            };
            match got {
                Ok(0) => return Err(TransportError::StreamEnded),
                Ok(got) if got >= step => step = (step * 2).min(LARGEST_READ),
                Ok(got) if got < step / 4 => step = FIRST_READ,
                Ok(_) => {}
                Err(error) => return Err(TransportError::Broken(SharedError::new(error))),
            }
        }
    }

    fn take_lines(&mut self) {
        while let Some(line) = self.splitter.next_line() {
            match line {
                Line::Message(text) => match parse(&text) {
                    Ok(messages) => {
                        for message in messages {
                            let link = Link::Lines(self.link.clone());
                            self.inbox.receive_among(message, &link, &mut self.answers);
                        }
                    }
                    Err(error) => self.inbox.count_garbage(&error),
                },
                Line::Oversized(ends) => {
                    let error = TransportError::TooLarge { limit: self.max_message_bytes };
                    self.inbox.count_garbage(&error);
                    if let Some(id) = protocol::answered_id(&ends.start, &ends.end) {
                        self.inbox.fail(id, error);
                    }
                }
            }
        }
        self.inbox.deliver(&mut self.answers, |from, calls| self.callers.note(from, calls));
    }
}
