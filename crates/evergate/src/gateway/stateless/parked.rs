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
use crate::sealed::SealingKey;
use crate::tasks::Tasks;

/// As long as servers of this revision keep theirs.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// More people than one gateway could keep waiting.
const MOST: usize = 4096;
/// Of one caller at one server. Fewer than a server may ask at once, so that others can be asked too.
const MOST_AT_ONE: usize = 48;
const FORMAT: u8 = 2;

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
        let opened = opened.ok_or(NotResumed::NotOurs)?;
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::advance;

    use super::*;
    use crate::front::keys::Caller;
    use crate::gateway::Answer;
    use crate::gateway::client::{Client, Kind, Scope};
    use crate::gateway::stateless::call::Step;

    const SECOND: Duration = Duration::from_secs(1);
    const ALMOST: Duration = KEPT.saturating_sub(SECOND);

    fn caller(number: usize) -> Client {
        let mut uid = Uid::default();
        uid[..8].copy_from_slice(&number.to_le_bytes());
        let mut owner = [0; 32];
        owner[..16].copy_from_slice(&uid);
        let kind = Kind::Principal { is_known: true, owner };
        Client::stateless(uid, Caller::anonymous(), Scope::All, kind, None)
    }

    /// A call that waits for ever, and how to see whether it still does.
    fn waiting(number: usize) -> (StatelessCall, Arc<()>) {
        let alive = Arc::new(());
        let held = alive.clone();
        let calling = async move {
            let answer = pending::<Answer>().await;
            drop(held);
            answer
        };
        (StatelessCall::doing(caller(number), calling), alive)
    }

    async fn is_gone(alive: &Arc<()>) -> bool {
        // What is aborted ends when its turn comes; time passes when everybody had theirs.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Arc::strong_count(alive) == 1
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_ten_minutes_to_come_back() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (call, alive) = waiting(1);
        let mine = call.binding();
        let note = parked.park(call, &tasks).unwrap();
        advance(ALMOST).await;
        parked.sweep();
        assert!(!is_gone(&alive).await);
        let call = parked.resume(&note, &mine).unwrap();
        // From now on they count anew.
        let note = parked.park(call, &tasks).unwrap();
        advance(ALMOST).await;
        parked.sweep();
        let call = parked.resume(&note, &mine).unwrap();
        drop(call);
        assert!(is_gone(&alive).await, "a caller that hangs up has cancelled");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_does_not_come_back_is_given_up() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (call, alive) = waiting(1);
        let mine = call.binding();
        let note = parked.park(call, &tasks).unwrap();
        advance(KEPT).await;
        assert!(!is_gone(&alive).await, "nobody has looked yet");
        parked.sweep();
        assert!(is_gone(&alive).await);
        assert_eq!(parked.resume(&note, &mine).unwrap_err(), NotResumed::Expired);
        // Also when its caller comes before anybody has looked.
        let (call, alive) = waiting(1);
        let note = parked.park(call, &tasks).unwrap();
        advance(KEPT).await;
        assert_eq!(parked.resume(&note, &mine).unwrap_err(), NotResumed::Expired);
        assert!(is_gone(&alive).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_is_good_for_its_own_call_and_once() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (call, alive) = waiting(1);
        let mine = call.binding();
        let note = parked.park(call, &tasks).unwrap();
        let others = waiting(2).0.binding();
        assert_eq!(parked.resume(&note, &others).unwrap_err(), NotResumed::OtherCall);
        assert_eq!(parked.resume("", &mine).unwrap_err(), NotResumed::NotOurs);
        assert_eq!(parked.resume("state of a server", &mine).unwrap_err(), NotResumed::NotOurs);
        // Of an earlier run, or of another gateway further on.
        let elsewhere = Parked::default();
        assert_eq!(elsewhere.resume(&note, &mine).unwrap_err(), NotResumed::NotOurs);
        assert!(!is_gone(&alive).await);
        let _call = parked.resume(&note, &mine).unwrap();
        assert_eq!(parked.resume(&note, &mine).unwrap_err(), NotResumed::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_while_nobody_waits_is_kept() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let call = StatelessCall::doing(caller(1), async {
            tokio::time::sleep(SECOND).await;
            Answer::Cancelled
        });
        let mine = call.binding();
        let note = parked.park(call, &tasks).unwrap();
        advance(2 * SECOND).await;
        let mut call = parked.resume(&note, &mine).unwrap();
        assert!(matches!(call.step().await, Step::Answer(Answer::Cancelled)));
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_of_one_caller_the_oldest_is_given_up() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let (others, theirs) = waiting(2);
        parked.park(others, &tasks).unwrap();
        let mut alive = Vec::new();
        for _ in 0..=MOST_AT_ONE {
            let (call, one) = waiting(1);
            parked.park(call, &tasks).unwrap();
            alive.push(one);
            advance(SECOND).await;
        }
        assert!(is_gone(&alive[0]).await);
        assert!(!is_gone(&alive[1]).await && !is_gone(&theirs).await);
        parked.forget(&caller(1).uid);
        assert!(is_gone(&alive[1]).await && !is_gone(&theirs).await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_kept_and_all_go_at_the_end() {
        let (parked, tasks) = (Parked::default(), Tasks::default());
        let mut alive = Vec::new();
        for number in 0..MOST {
            let (call, one) = waiting(number);
            parked.park(call, &tasks).unwrap();
            alive.push(one);
        }
        let (call, one) = waiting(MOST);
        assert_eq!(parked.park(call, &tasks).unwrap_err(), NotParked::Full);
        assert!(is_gone(&one).await, "the one too many is cancelled");
        parked.clear();
        assert!(is_gone(&alive[0]).await && is_gone(&alive[MOST - 1]).await);
        let (call, _) = waiting(MOST);
        assert!(parked.park(call, &tasks).is_ok());
    }
}
