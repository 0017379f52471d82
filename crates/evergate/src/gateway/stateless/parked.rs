//! Calls that wait for their callers to answer a question.
//!
//! The caller holds a note that names the call. It is [sealed](crate::sealed) with a key of this process, as the call lives in
//! this process too; it says until when it is good and what the call is about, and it is good once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Binding, StatelessCall};
use crate::hash::HashMap;
use crate::random;
use crate::sealed::SealingKey;
use crate::tasks::Tasks;

/// As long as servers of this revision keep theirs.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// More people than one gateway could keep waiting.
const MOST: usize = 4096;
const FORMAT: u8 = 2;

type Name = [u8; 16];

#[derive(Debug)]
pub(in crate::gateway) struct Parked {
    /// `None` only on a system without randomness, where no call can be kept.
    key: Option<SealingKey>,
    calls: Mutex<HashMap<Name, (Instant, StatelessCall)>>,
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
    pub(super) fn park(&self, call: StatelessCall, tasks: &Tasks) -> Result<String, NotParked> {
        let name: Name = random::bytes().map_err(|_| NotParked::Cipher)?;
        let key = self.key.as_ref().ok_or(NotParked::Cipher)?;
        let note = [&name[..], &call.binding].concat();
        let note = key.seal(FORMAT, note).ok_or(NotParked::Cipher)?;
        let mut calls = self.calls();
        if calls.len() >= MOST {
            return Err(NotParked::Full);
        }
        calls.insert(name, (Instant::now() + KEPT, call.apart(tasks)));
        Ok(note)
    }

    /// The call that a note names, if it is about what it was about.
    pub(super) fn resume(
        &self,
        note: &str,
        binding: &Binding,
    ) -> Result<StatelessCall, NotResumed> {
        let note = self.key.as_ref().and_then(|key| key.open(FORMAT, note));
        let note = note.ok_or(NotResumed::NotOurs)?;
        let (name, bound) = note.split_first_chunk().ok_or(NotResumed::NotOurs)?;
        if bound != binding {
            return Err(NotResumed::OtherCall);
        }
        let kept = self.calls().remove(name);
        let kept = kept.filter(|(until, _)| *until > Instant::now());
        kept.map(|(_, call)| call).ok_or(NotResumed::Expired)
    }

    /// Gives up those whose callers did not come back.
    pub(in crate::gateway) fn sweep(&self) {
        let now = Instant::now();
        let expired: Vec<_> = self.calls().extract_if(|_, (until, _)| *until <= now).collect();
        // Without the lock: what ends with a call may want it.
        drop(expired);
    }

    /// Gives up all.
    pub(in crate::gateway) fn clear(&self) {
        let all = std::mem::take(&mut *self.calls());
        drop(all);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Name, (Instant, StatelessCall)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
