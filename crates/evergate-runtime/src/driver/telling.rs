//! What is logged of a server's life: one warning when it goes down, one when quick attempts end, one line when it is back
//! that says how many attempts failed meanwhile. A server that comes and goes does not fill the log: beyond so many lines a
//! minute changes are only counted, and what it came to is said at the end.

use std::time::Duration;

use tokio::time::Instant;

use crate::lifecycle::{Event, Generation, Reason, StateKind};
use crate::observe::Transition;

/// What was said, and what was not.
#[derive(Debug)]
pub(super) struct Telling {
    /// When lines began to be counted.
    since: Instant,
    lines: u32,
    /// Not said since then.
    unsaid: u32,
    down: Option<Down>,
}

/// A server that is down for reasons of its own.
#[derive(Debug)]
struct Down {
    since: Instant,
    failed_attempts: u32,
}

/// A server that goes down and comes back needs two lines, one that is restarted or renewed a few more. What needs more
/// than these in one minute has said all there is to say.
const LINES: u32 = 12;
const WINDOW: Duration = Duration::from_secs(60);

// === impl Telling ===

impl Telling {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), lines: 0, unsaid: 0, down: None }
    }

    /// Counts attempts that came to nothing, which change nothing and are not logged one by one.
    pub(super) fn note(&mut self, event: &Event) {
        if let (Event::DialFailed { .. }, Some(down)) = (event, &mut self.down) {
            down.failed_attempts += 1;
        }
    }

    /// Logs a transition.
    pub(super) fn tell(&mut self, transition: &Transition, error: Option<&str>) {
        let Transition { server, from, to, event, reason, generation, .. } = transition;
        let generation = generation.map(Generation::get);
        // A session that is renewed and a restart that was asked for are nothing to warn of.
        let routine = matches!(reason, Reason::SessionLost | Reason::Requested);
        let went_down = match to {
            StateKind::Reconnecting => !routine,
            StateKind::Disconnected | StateKind::PermanentlyFailed => true,
            _ => false,
        };
        let over = match to {
            StateKind::Connected | StateKind::Disabled => self.down.take(),
            _ => None,
        };
        if went_down && self.down.is_none() {
            // What brought it down may have been an attempt itself.
            let failed_attempts = u32::from(*event == "dial_failed");
            self.down = Some(Down { since: Instant::now(), failed_attempts });
        }
        if !self.may_say() {
            tracing::debug!(%server, %from, %to, event, generation, %reason, error, "server state");
            return;
        }
        let suppressed = (self.unsaid > 0).then(|| std::mem::take(&mut self.unsaid));
        if went_down {
            tracing::warn!(
                %server, %from, %to, event, generation, %reason, error, suppressed, "server down"
            );
        } else if let Some(down) = over.filter(|_| *to == StateKind::Connected) {
            let down_ms = millis(down.since.elapsed());
            let failed_attempts = down.failed_attempts;
            tracing::info!(
                %server, %from, %to, event, generation, %reason, failed_attempts, down_ms,
                suppressed, "server back"
            );
        } else {
            tracing::info!(
                %server, %from, %to, event, generation, %reason, suppressed, "server state"
            );
        }
    }

    /// When something is left to be said.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.unsaid > 0).then(|| self.since + WINDOW)
    }

    /// Says what was left unsaid, and how it stands.
    pub(super) fn sum_up(
        &mut self,
        server: &str,
        state: StateKind,
        generation: Option<Generation>,
    ) {
        let suppressed = std::mem::take(&mut self.unsaid);
        (self.since, self.lines) = (Instant::now(), 0);
        if suppressed == 0 {
            return;
        }
        let generation = generation.map(Generation::get);
        let failed_attempts = self.down.as_ref().map(|down| down.failed_attempts);
        tracing::warn!(
            %server, to = %state, generation, suppressed, failed_attempts,
            "server comes and goes"
        );
    }

    /// Counts a line.
    fn may_say(&mut self) -> bool {
        if self.unsaid == 0 && self.since.elapsed() >= WINDOW {
            (self.since, self.lines) = (Instant::now(), 0);
        }
        if self.lines == LINES {
            self.unsaid += 1;
            return false;
        }
        self.lines += 1;
        true
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;
    use crate::lifecycle::DialFailure;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    impl Lines {
        fn take(&self) -> Vec<String> {
            let text = std::mem::take(&mut *self.0.lock().unwrap());
            String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
        }
    }

    fn listening() -> (Lines, tracing::subscriber::DefaultGuard) {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(lines.clone())
            .with_max_level(tracing::Level::INFO)
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    fn transition(from: StateKind, to: StateKind, event: &'static str) -> Transition {
        let reason =
            if to == StateKind::Connected { Reason::HandshakeDone } else { Reason::ProcessExited };
        let at = SystemTime::now();
        Transition { server: "docs".into(), from, to, event, reason, generation: None, at }
    }

    fn failed() -> Event {
        Event::DialFailed { generation: Generation::FIRST, failure: DialFailure::Unreachable }
    }

    #[tokio::test(start_paused = true)]
    async fn a_streak_is_one_warning_and_its_end_says_how_long_it_was() {
        let (lines, _guard) = listening();
        let mut telling = Telling::new();
        telling.tell(&transition(StateKind::Connected, StateKind::Reconnecting, "lost"), None);
        for _ in 0..5 {
            telling.note(&failed());
        }
        tokio::time::advance(Duration::from_secs(170)).await;
        let out = transition(StateKind::Reconnecting, StateKind::Disconnected, "dial_failed");
        telling.tell(&out, Some("could not connect"));
        for _ in 0..7 {
            telling.note(&failed());
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let back = transition(StateKind::Disconnected, StateKind::Connected, "dial_succeeded");
        telling.tell(&back, None);
        let lines = lines.take();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].contains("WARN server down"));
        assert!(lines[1].contains("WARN server down") && lines[1].contains("could not connect"));
        assert!(lines[2].contains("INFO server back"), "{}", lines[2]);
        assert!(lines[2].contains("failed_attempts=12 down_ms=180000"), "{}", lines[2]);
        assert_eq!(telling.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_and_goes_does_not_fill_the_log() {
        let (lines, _guard) = listening();
        let mut telling = Telling::new();
        for _ in 0..500 {
            telling.tell(&transition(StateKind::Connected, StateKind::Reconnecting, "lost"), None);
            let back = transition(StateKind::Reconnecting, StateKind::Connected, "dial_succeeded");
            telling.tell(&back, None);
            tokio::time::advance(Duration::from_millis(50)).await;
        }
        assert_eq!(lines.take().len(), 12);
        tokio::time::sleep_until(telling.due().unwrap()).await;
        telling.sum_up("docs", StateKind::Connected, None);
        let summary = lines.take();
        assert!(
            summary[0].contains("server comes and goes server=docs to=connected suppressed=988"),
            "{summary:?}"
        );
        assert_eq!(telling.due(), None);
        telling.tell(&transition(StateKind::Connected, StateKind::Reconnecting, "lost"), None);
        assert!(lines.take()[0].contains("server down"));
    }
}
