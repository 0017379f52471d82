//! Trouble that may come again and again, and is worth two lines: when it begins, and when it is over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One kind of trouble.
#[derive(Debug, Default)]
pub(crate) struct Streak(Mutex<Option<Going>>);

/// How long it has gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Going {
    pub(crate) times: u64,
    pub(crate) since: Instant,
}

// === impl Streak ===

impl Streak {
    /// It happened. Says whether it is news.
    pub(crate) fn failed(&self) -> bool {
        let mut going = self.going();
        let known = going.get_or_insert_with(|| Going { times: 0, since: Instant::now() });
        known.times += 1;
        known.times == 1
    }

    /// It went well. What is over by that, if anything is.
    pub(crate) fn worked(&self) -> Option<Going> {
        self.going().take()
    }

    fn going(&self) -> MutexGuard<'_, Option<Going>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Going ===

impl Going {
    /// For how long, in words: `12 failures in 3 min`.
    pub(crate) fn in_words(&self) -> String {
        let times = if self.times == 1 { "failure" } else { "failures" };
        format!("{} {times} in {}", self.times, words(self.since.elapsed()))
    }
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_streak_is_news_once_and_counted_until_it_is_over() {
        let streak = Streak::default();
        assert_eq!(streak.worked(), None);
        assert!(streak.failed());
        assert_eq!(streak.worked().unwrap().in_words(), "1 failure in 0 s");
        assert!(streak.failed());
        for _ in 0..11 {
            assert!(!streak.failed());
        }
        tokio::time::advance(Duration::from_secs(185)).await;
        assert_eq!(streak.worked().unwrap().in_words(), "12 failures in 3 min");
        assert_eq!(streak.worked(), None);
        assert_eq!(words(Duration::from_secs(7300)), "2 h");
    }
}
