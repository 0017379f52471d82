//! How long a server was in which state. Of a server that each client has for itself: all its connections together.

use std::time::Duration;

use evergate_runtime::StateKind;
use tokio::time::Instant;

/// Stands still while nobody looks: what has passed is added up when something changes or somebody asks.
#[derive(Debug)]
pub(super) struct StateClock {
    /// How many connections are in each state now, in the order of [`StateKind::ALL`].
    now: [u32; STATES],
    passed: [Duration; STATES],
    added_up: Instant,
}

pub(super) const STATES: usize = StateKind::ALL.len();

// === impl StateClock ===

impl StateClock {
    pub(super) fn enter(&mut self, state: StateKind) {
        self.add_up();
        self.now[index(state)] += 1;
    }

    pub(super) fn leave(&mut self, state: StateKind) {
        self.add_up();
        let now = &mut self.now[index(state)];
        *now = now.saturating_sub(1);
    }

    /// How many are in each state, and how long all have been, until now.
    pub(super) fn read(&mut self) -> [(StateKind, u32, Duration); STATES] {
        self.add_up();
        std::array::from_fn(|at| (StateKind::ALL[at], self.now[at], self.passed[at]))
    }

    fn add_up(&mut self) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.added_up);
        self.added_up = now;
        for (passed, count) in self.passed.iter_mut().zip(self.now) {
            *passed += elapsed * count;
        }
    }
}

impl Default for StateClock {
    fn default() -> Self {
        Self { now: [0; STATES], passed: [Duration::ZERO; STATES], added_up: Instant::now() }
    }
}

/// A state of a newer runtime would count as the last.
fn index(state: StateKind) -> usize {
    StateKind::ALL.iter().position(|known| *known == state).unwrap_or(STATES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_is_counted_for_each_connection_in_each_state() {
        let mut clock = StateClock::default();
        let seconds = |n| tokio::time::advance(Duration::from_secs(n));
        seconds(5).await;
        clock.enter(StateKind::Connecting);
        seconds(1).await;
        clock.leave(StateKind::Connecting);
        clock.enter(StateKind::Connected);
        clock.enter(StateKind::Connected);
        seconds(10).await;
        clock.leave(StateKind::Connected);
        seconds(100).await;
        let read = clock.read();
        let of = |wanted| read.iter().find(|(state, ..)| *state == wanted).copied().unwrap();
        assert_eq!(of(StateKind::Connecting), (StateKind::Connecting, 0, Duration::from_secs(1)));
        assert_eq!(of(StateKind::Connected), (StateKind::Connected, 1, Duration::from_secs(120)));
        assert_eq!(of(StateKind::Disabled).2, Duration::ZERO);
    }
}
