//! Calls that wait for their callers to answer a question.
//!
//! The caller holds a note that names the call. It is [sealed](crate::sealed) with a key of this process, as the call lives in
//! this process too; it says what the call is about, and it is good once, for a while.
//!
//! A call that waits holds a place at its server, so there are only so many of one caller at one server: of more, those who
//! have waited longest are given up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Binding, StatelessCall};
use crate::gateway::client::Uid;
use crate::hash::HashMap;
use crate::random;
use crate::sealed::{self, SealingKey};
use crate::tasks::Tasks;

/// As long as servers of this revision keep theirs.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// More people than one gateway could keep waiting.
const MOST: usize = 4096;
/// Of one caller at one server. Fewer than a server may ask at once, so that others can be asked too.
const MOST_AT_ONE: usize = 48;
const FORMAT: u8 = 2;

/// How long a note is before it becomes text.
const NOTE_BYTES: usize = 16 + 32;

type Name = [u8; 16];

#[derive(Debug)]
struct Kept {
    until: Instant,
    server: Option<Arc<str>>,
    call: StatelessCall,
}

#[derive(Debug)]
pub(in crate::gateway) struct Parked {
    /// `None` only on a system without randomness, where no call can be kept.
    key: Option<SealingKey>,
    calls: Mutex<HashMap<Name, Kept>>,
}

/// Why a note leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum NotResumed {
    #[error("this requestState was not given out here")]
    NotOurs,
    #[error("this requestState belongs to another call")]
    OtherCall,
    #[error("this requestState has expired or was used before: make the call again without it")]
    Expired,
}

/// No call can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotParked {
    #[error("{MOST} calls wait for answers of their callers already")]
    Full,
    #[error("the gateway is shutting down, and nobody could bring the answer")]
    Draining,
    #[error("the note of a waiting call could not be sealed")]
    Cipher,
}

// === impl Parked ===

impl Default for Parked {
    fn default() -> Self {
        let key = random::bytes().ok().and_then(|bytes| SealingKey::new(&bytes));
        Self { key, calls: Mutex::default() }
    }
}

impl Parked {
    /// Keeps a call, and returns the note for its caller.
    pub(super) fn park(&self, mut call: StatelessCall, tasks: &Tasks) -> Result<String, NotParked> {
        let name: Name = random::bytes().map_err(|_| NotParked::Cipher)?;
        let key = self.key.as_ref().ok_or(NotParked::Cipher)?;
        let note = [&name[..], &call.binding()].concat();
        let note = key.seal(FORMAT, note).ok_or(NotParked::Cipher)?;
        let server = call.rounds.server();
        let uid = call.client.uid;
        let mut calls = self.calls();
        let alike = |kept: &&Kept| kept.call.client.uid == uid && kept.server == server;
        let oldest = if calls.values().filter(alike).count() >= MOST_AT_ONE {
            let all = calls.iter().filter(|(_, kept)| alike(kept));
            let oldest = all.min_by_key(|(_, kept)| kept.until).map(|(name, _)| *name);
            oldest.and_then(|oldest| calls.remove(&oldest))
        } else {
            None
        };
        if calls.len() >= MOST {
            return Err(NotParked::Full);
        }
        call.go_apart(tasks);
        calls.insert(name, Kept { until: Instant::now() + KEPT, server, call });
        drop(calls);
        // Without the lock: what ends with a call may want it.
        drop(oldest);
        Ok(note)
    }

    /// The call that a note names, if it is about what it was about.
    pub(super) fn resume(
        &self,
        note: &str,
        binding: &Binding,
    ) -> Result<StatelessCall, NotResumed> {
        let opened = self.key.as_ref().and_then(|key| key.open(FORMAT, note));
        let Some(opened) = opened else {
            // Of an earlier run, or tampered with; in any case no server's.
            let looks_like_ours = sealed::looks_like(FORMAT, NOTE_BYTES, note);
            return Err(if looks_like_ours { NotResumed::Expired } else { NotResumed::NotOurs });
        };
        let (name, bound) = opened.split_first_chunk().ok_or(NotResumed::NotOurs)?;
        if bound != binding {
            return Err(NotResumed::OtherCall);
        }
        let kept = self.calls().remove(name);
        let kept = kept.filter(|kept| kept.until > Instant::now());
        kept.map(|kept| kept.call).ok_or(NotResumed::Expired)
    }

    /// Gives up those whose callers did not come back.
    pub(in crate::gateway) fn sweep(&self) {
        let now = Instant::now();
        self.give_up(|kept| kept.until <= now);
    }

    /// Gives up those of a caller that is gone.
    pub(in crate::gateway) fn forget(&self, client: &Uid) {
        self.give_up(|kept| kept.call.client.uid == *client);
    }

    fn give_up(&self, which: impl Fn(&Kept) -> bool) {
        let given_up: Vec<_> = self.calls().extract_if(|_, kept| which(kept)).collect();
        // Without the lock: what ends with a call may want it.
        drop(given_up);
    }

    /// Gives up all.
    pub(in crate::gateway) fn clear(&self) {
        let all = std::mem::take(&mut *self.calls());
        drop(all);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Name, Kept>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
