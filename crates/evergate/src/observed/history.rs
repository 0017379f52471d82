//! Where one server was in the last hour.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::unix_ms;
use crate::admin::model::Moment;

const KEPT: Duration = Duration::from_secs(60 * 60);
/// Of a server that comes and goes all the time, so many changes.
const MOST: usize = 500;

/// Changes of state, oldest first. The one before the hour began is kept: it is the state the hour began in.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Moment>);

// === impl History ===

impl History {
    /// From this moment on it is so. No change is no news. A clock that was set back does not turn the order around.
    pub(super) fn add(&mut self, mut moment: Moment) {
        if let Some(newest) = self.0.back() {
            if (newest.state, newest.generation) == (moment.state, moment.generation) {
                return;
            }
            moment.at_unix_ms = moment.at_unix_ms.max(newest.at_unix_ms);
        }
        let hour_ago = moment.at_unix_ms.saturating_sub(hour());
        self.0.push_back(moment);
        while self.0.len() > MOST || self.begins_before(hour_ago) {
            self.0.pop_front();
        }
    }

    pub(super) fn recent(&mut self, now: SystemTime) -> Vec<Moment> {
        let hour_ago = unix_ms(now).saturating_sub(hour());
        while self.begins_before(hour_ago) {
            self.0.pop_front();
        }
        self.0.iter().cloned().collect()
    }

    /// Whether the oldest is needed no more, since another took its place before the hour began.
    fn begins_before(&self, hour_ago: u64) -> bool {
        self.0.get(1).is_some_and(|second| second.at_unix_ms <= hour_ago)
    }
}

fn hour() -> u64 {
    u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::model::ServerState::{self, Connected, Reconnecting};

    fn at(minutes: u64, state: ServerState, generation: u64) -> Moment {
        Moment {
            at_unix_ms: minutes * 60_000,
            state,
            reason: "test".to_owned(),
            generation: Some(generation),
        }
    }

    fn minutes(history: &mut History, now: u64) -> Vec<u64> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now * 60);
        history.recent(now).iter().map(|moment| moment.at_unix_ms / 60_000).collect()
    }

    #[test]
    fn the_state_that_the_hour_began_in_is_kept() {
        let mut history = History::default();
        history.add(at(0, Connected, 1));
        history.add(at(10, Reconnecting, 1));
        history.add(at(11, Connected, 2));
        assert_eq!(minutes(&mut history, 60), [0, 10, 11]);
        assert_eq!(minutes(&mut history, 70), [10, 11]);
        assert_eq!(minutes(&mut history, 1000), [11]);
    }

    #[test]
    fn what_is_no_change_is_no_news_and_a_clock_set_back_changes_no_order() {
        let mut history = History::default();
        history.add(at(5, Connected, 1));
        history.add(at(6, Connected, 1));
        assert_eq!(minutes(&mut history, 60), [5]);
        history.add(at(4, Reconnecting, 1));
        history.add(at(7, Connected, 2));
        assert_eq!(minutes(&mut history, 60), [5, 5, 7]);
    }

    #[test]
    fn a_restless_server_does_not_fill_the_memory() {
        let mut history = History::default();
        for generation in 0..10 * MOST as u64 {
            history.add(at(generation / 100, Connected, generation));
        }
        assert_eq!(history.0.len(), MOST);
    }
}
