//! The audit log: a line of JSON for every call to a server and everything operators do.
//!
//! Calls only put what they know into a queue; one task makes lines of it and writes them. A queue that is full, or a disk
//! that is, costs lines and never a call: what is lost is counted, and the log says so itself.

mod file;
mod line;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admin::model::Action;
use crate::config;
use crate::front::keys::Caller;
use crate::logging::streak::Streak;
use crate::observed::CallRecord;
use file::AuditFile;

/// What calls and operators see of it.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Whether there is one: looked at for every call.
    on: AtomicBool,
    /// Where lines go, once there is a task that writes them.
    queue: OnceLock<mpsc::Sender<Entry>>,
    /// What did not fit into the queue.
    lost: AtomicU64,
    wanted: Mutex<Wanted>,
}

/// What the task is to do before the next line.
#[derive(Debug, Default)]
struct Wanted {
    settings: Settings,
    reopen: bool,
}

#[derive(Debug, Default)]
enum Settings {
    /// Those that it has.
    #[default]
    Known,
    /// To be used in place of those.
    New(Option<config::Audit>),
}

/// One line to be.
#[derive(Debug)]
enum Entry {
    Call(Box<CallRecord>),
    Other(Box<Note>),
}

/// What happened besides calls.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Note {
    /// The gateway began to write.
    Started { time: String, version: &'static str },
    /// An operator did something to a server.
    Action { time: String, key: Option<String>, action: Action, server: String },
    /// An operator chose what is logged.
    LogLevel { time: String, key: Option<String>, level: String },
    /// An operator ended the gateway.
    Closed { time: String, key: Option<String> },
    /// Lines that are missing before this one.
    Lost { time: String, lines: u64 },
}

/// Enough for what a busy gateway does while a disk takes its time.
const QUEUE: usize = 4096;
/// Written at once.
const BATCH: usize = 512;

// === impl Audit ===

impl Audit {
    /// What the configuration says from now on.
    pub(crate) fn configure(&self, settings: Option<config::Audit>) {
        let on = settings.is_some();
        let mut wanted = self.wanted();
        wanted.settings = Settings::New(settings);
        drop(wanted);
        self.on.store(on, Ordering::Release);
    }

    /// Somebody may have moved the file away.
    pub(crate) fn reopen(&self) {
        self.wanted().reopen = true;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// A call is over. On the way of every call.
    pub(crate) fn call_ended(&self, record: &CallRecord) {
        if self.is_on() {
            self.add(Entry::Call(Box::new(record.clone())));
        }
    }

    /// An operator did something to a server.
    pub(crate) fn acted(&self, by: &Caller, action: Action, server: &str) {
        let key = by.name().map(str::to_owned);
        self.note(Note::Action { time: now(), key, action, server: server.to_owned() });
    }

    /// An operator chose what is logged.
    pub(crate) fn level_set(&self, by: &Caller, level: &str) {
        let key = by.name().map(str::to_owned);
        self.note(Note::LogLevel { time: now(), key, level: level.to_owned() });
    }

    /// An operator ends the gateway.
    pub(crate) fn closed(&self, by: &Caller) {
        let key = by.name().map(str::to_owned);
        self.note(Note::Closed { time: now(), key });
    }

    fn note(&self, note: Note) {
        if self.is_on() {
            self.add(Entry::Other(Box::new(note)));
        }
    }

    fn add(&self, entry: Entry) {
        let Some(queue) = self.queue.get() else { return };
        if queue.try_send(entry).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until told to stop, and then whatever is left. To be run once.
    pub(crate) async fn write(&self, stop: CancellationToken) {
        let (sender, mut entries) = mpsc::channel(QUEUE);
        if self.queue.set(sender).is_err() {
            return;
        }
        let mut writing = Writing { file: None, lost: 0, trouble: Streak::default() };
        let mut batch = Vec::new();
        loop {
            let stopped = tokio::select! {
                biased;
                _ = entries.recv_many(&mut batch, BATCH) => false,
                () = stop.cancelled() => true,
            };
            if stopped {
                // Nothing new is taken; what is there already is written.
                entries.close();
                while entries.recv_many(&mut batch, BATCH).await > 0 {
                    writing = self.write_some(writing, std::mem::take(&mut batch)).await;
                }
                return;
            }
            writing = self.write_some(writing, std::mem::take(&mut batch)).await;
        }
    }

    async fn write_some(&self, mut writing: Writing, batch: Vec<Entry>) -> Writing {
        let Wanted { settings, reopen } = std::mem::take(&mut *self.wanted());
        let mut lines = Vec::with_capacity(batch.len() + 2);
        if let Settings::New(settings) = settings {
            writing.file = settings.map(AuditFile::new);
            let version = env!("CARGO_PKG_VERSION");
            lines.push(line::of(&Note::Started { time: now(), version }));
        }
        if let Some(file) = writing.file.as_mut().filter(|_| reopen) {
            file.reopen();
        }
        writing.lost += self.lost.swap(0, Ordering::Relaxed);
        if writing.file.is_none() {
            return writing;
        }
        if writing.lost > 0 {
            lines.push(line::of(&Note::Lost { time: now(), lines: writing.lost }));
        }
        let lost_is_told = writing.lost > 0;
        lines.extend(batch.iter().map(|entry| match entry {
            Entry::Call(record) => line::of_call(record),
            Entry::Other(note) => line::of(note),
        }));
        // It is always `spawn_blocking` that runs it: a panic there would end the log, not the gateway.
        let count = batch.len() as u64;
        let written = tokio::task::spawn_blocking(move || {
            let result = writing.file.as_mut().map(|file| file.add(&lines));
            (writing, lines.len(), result)
        });
        let Ok((mut writing, all, Some((written, result)))) = written.await else {
            return Writing { file: None, lost: count, trouble: Streak::default() };
        };
        writing.note(all, written, lost_is_told, result.err());
        writing
    }
}

/// The task's own.
#[derive(Debug)]
struct Writing {
    file: Option<AuditFile>,
    /// Lines that nobody will read.
    lost: u64,
    trouble: Streak,
}

// === impl Writing ===

impl Writing {
    /// Takes account of what was written.
    fn note(
        &mut self,
        all: usize,
        written: usize,
        lost_is_told: bool,
        error: Option<std::io::Error>,
    ) {
        let told = lost_is_told && written > 0;
        if told {
            self.lost = 0;
        }
        let missing = (all - written) as u64;
        // The line that would have told of the others is none of them.
        self.lost += missing - u64::from(lost_is_told && !told);
        match error {
            Some(error) => {
                if self.trouble.failed() {
                    tracing::error!(%error, "cannot write the audit log: calls go on without it");
                }
            }
            None => {
                if let Some(over) = self.trouble.worked() {
                    tracing::info!(after = over.in_words(), "the audit log is written again");
                }
            }
        }
    }
}

fn now() -> String {
    crate::timestamp::rfc3339(SystemTime::now())
}

#[cfg(test)]
mod tests;
