//! A line that anybody could cause any number of times, and that is worth saying once a minute.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One line; a static beside it.
#[derive(Debug)]
pub(crate) struct Seldom(Mutex<Option<Said>>);

#[derive(Debug)]
struct Said {
    at: Instant,
    /// Left unsaid since then.
    unsaid: u64,
}

const PAUSE: Duration = Duration::from_secs(60);

// === impl Seldom ===

impl Seldom {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Whether to say it now, and how often it was left unsaid before.
    pub(crate) fn may_say(&self) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = said.as_mut().filter(|said| said.at.elapsed() < PAUSE) {
            said.unsaid += 1;
            return None;
        }
        let before = said.replace(Said { at: Instant::now(), unsaid: 0 });
        Some(before.map_or(0, |before| before.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_said_once_a_minute_with_how_often_it_was_not() {
        static LINE: Seldom = Seldom::new();
        assert_eq!(LINE.may_say(), Some(0));
        for _ in 0..9 {
            assert_eq!(LINE.may_say(), None);
        }
        tokio::time::advance(PAUSE).await;
        assert_eq!(LINE.may_say(), Some(9));
        assert_eq!(LINE.may_say(), None);
    }
}
