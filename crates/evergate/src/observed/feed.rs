//! What happened, numbered, for whoever follows it: the newest are kept, so that a follower can take up where it left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use super::unix_ms;
use crate::admin::model::{Happening, What};

/// So many are kept.
const KEPT: usize = 1000;

/// Numbered from 1. Nothing that happens waits for followers: one that is too slow misses the oldest.
#[derive(Debug)]
pub(crate) struct Feed {
    kept: Mutex<VecDeque<Arc<Happening>>>,
    /// The number of the newest.
    newest: watch::Sender<u64>,
}

/// Reads on from some point.
#[derive(Debug)]
pub(crate) struct Follower {
    after: u64,
    newest: watch::Receiver<u64>,
}

// === impl Feed ===

impl Default for Feed {
    fn default() -> Self {
        Self { kept: Mutex::default(), newest: watch::Sender::new(0) }
    }
}

impl Feed {
    pub(crate) fn add(&self, at: SystemTime, what: What) {
        let mut kept = self.kept();
        let n = *self.newest.borrow() + 1;
        kept.push_back(Arc::new(Happening { n, at_unix_ms: unix_ms(at), what }));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        // Under the lock, so that whoever sees the number finds what it stands for.
        self.newest.send_replace(n);
    }

    pub(crate) fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// What comes after that one. A number that is too large is from before a restart of the gateway, and nothing since then
    /// is known to whoever has it.
    pub(crate) fn follow(&self, after: u64) -> Follower {
        let after = if after > self.newest() { 0 } else { after };
        Follower { after, newest: self.newest.subscribe() }
    }

    /// The next ones, as soon as there are any.
    pub(crate) async fn next(&self, follower: &mut Follower) -> Vec<Arc<Happening>> {
        let after = follower.after;
        if follower.newest.wait_for(|newest| *newest > after).await.is_err() {
            return std::future::pending().await;
        }
        let kept = self.kept();
        let new: Vec<_> = kept.iter().filter(|one| one.n > after).cloned().collect();
        follower.after = new.last().map_or(after, |last| last.n);
        new
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Happening>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(feed: &Feed, times: u64) {
        for version in 0..times {
            let what = What::CatalogChanged { server: "a".to_owned(), version };
            feed.add(SystemTime::now(), what);
        }
    }

    async fn numbers(feed: &Feed, follower: &mut Follower) -> Vec<u64> {
        feed.next(follower).await.iter().map(|one| one.n).collect()
    }

    #[tokio::test]
    async fn a_follower_takes_up_where_it_left() {
        let feed = Feed::default();
        add(&feed, 3);
        let mut follower = feed.follow(1);
        assert_eq!(numbers(&feed, &mut follower).await, [2, 3]);
        add(&feed, 1);
        assert_eq!(numbers(&feed, &mut follower).await, [4]);
    }

    #[tokio::test]
    async fn to_a_number_of_an_earlier_run_everything_is_new() {
        let feed = Feed::default();
        add(&feed, 2);
        let mut follower = feed.follow(4000);
        add(&feed, 1);
        assert_eq!(numbers(&feed, &mut follower).await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_slow_follower_misses_the_oldest() {
        let feed = Feed::default();
        let mut follower = feed.follow(0);
        add(&feed, KEPT as u64 + 5);
        let seen = numbers(&feed, &mut follower).await;
        assert_eq!((seen.len(), seen[0]), (KEPT, 6));
    }
}
