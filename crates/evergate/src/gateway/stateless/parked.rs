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

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use tokio::time::advance;

    use super::*;
    use crate::gateway::Answer;
    use crate::gateway::stateless::call::Step;

    const MINE: Binding = [1; 32];
    const SECOND: Duration = Duration::from_secs(1);

    /// A call that waits for ever, and how to see whether it still does.
    fn waiting() -> (StatelessCall, Arc<()>) {
        let alive = Arc::new(());
        let held = alive.clone();
        let calling = async move {
            let _held = held;
            pending::<Answer>().await
        };
        (StatelessCall::doing(MINE, calling), alive)
    }

    async fn is_gone(alive: &Arc<()>) -> bool {
        // What is aborted ends when its turn comes; time passes when everybody had theirs.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Arc::strong_count(alive) == 1
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_ten_minutes_to_come_back() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (call, alive) = waiting();
        let note = parked.park(call, &tasks).unwrap();
        advance(KEPT - SECOND).await;
        parked.sweep();
        assert!(!is_gone(&alive).await);
        let call = parked.resume(&note, &MINE).unwrap();
        // From now on they count anew.
        let note = parked.park(call, &tasks).unwrap();
        advance(KEPT - SECOND).await;
        parked.sweep();
        let call = parked.resume(&note, &MINE).unwrap();
        drop(call);
        assert!(is_gone(&alive).await, "a caller that hangs up has cancelled");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_does_not_come_back_is_given_up() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (call, alive) = waiting();
        let note = parked.park(call, &tasks).unwrap();
        advance(KEPT).await;
        assert!(!is_gone(&alive).await, "nobody has looked yet");
        parked.sweep();
        assert!(is_gone(&alive).await);
        assert_eq!(parked.resume(&note, &MINE).unwrap_err(), NotResumed::Expired);
        // Also when its caller comes before anybody has looked.
        let (call, alive) = waiting();
        let note = parked.park(call, &tasks).unwrap();
        advance(KEPT).await;
        assert_eq!(parked.resume(&note, &MINE).unwrap_err(), NotResumed::Expired);
        assert!(is_gone(&alive).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_is_good_for_its_own_call_and_once() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (call, alive) = waiting();
        let note = parked.park(call, &tasks).unwrap();
        assert_eq!(parked.resume(&note, &[2; 32]).unwrap_err(), NotResumed::OtherCall);
        assert_eq!(parked.resume("", &MINE).unwrap_err(), NotResumed::NotOurs);
        let elsewhere = Parked::default();
        assert_eq!(elsewhere.resume(&note, &MINE).unwrap_err(), NotResumed::NotOurs);
        assert!(!is_gone(&alive).await);
        let _call = parked.resume(&note, &MINE).unwrap();
        assert_eq!(parked.resume(&note, &MINE).unwrap_err(), NotResumed::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_while_nobody_waits_is_kept() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let call = StatelessCall::doing(MINE, async {
            tokio::time::sleep(SECOND).await;
            Answer::Cancelled
        });
        let note = parked.park(call, &tasks).unwrap();
        advance(2 * SECOND).await;
        let mut call = parked.resume(&note, &MINE).unwrap();
        assert!(matches!(call.step().await, Step::Answer(Answer::Cancelled)));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_kept_and_all_go_at_the_end() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let mut alive = Vec::new();
        for _ in 0..MOST {
            let (call, one) = waiting();
            parked.park(call, &tasks).unwrap();
            alive.push(one);
        }
        let (call, one) = waiting();
        assert_eq!(parked.park(call, &tasks).unwrap_err(), NotParked::Full);
        assert!(is_gone(&one).await, "the one too many is cancelled");
        parked.clear();
        assert!(is_gone(&alive[0]).await && is_gone(&alive[MOST - 1]).await);
        let (call, _) = waiting();
        assert!(parked.park(call, &tasks).is_ok());
    }
}
