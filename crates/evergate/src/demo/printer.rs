//! One line per thing that happened, in the order it happened.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use evergate_runtime::HubEvent;
use tokio::sync::broadcast;

/// Writes to standard output, and prints transitions before whatever comes after them.
#[derive(Debug)]
pub(super) struct Printer {
    started: SystemTime,
    colour: bool,
    events: Arc<Mutex<broadcast::Receiver<HubEvent>>>,
}

const BOLD: &str = "1";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const DIM: &str = "2";

// === impl Printer ===

impl Printer {
    pub(super) fn new(events: broadcast::Receiver<HubEvent>) -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { started: SystemTime::now(), colour, events: Arc::new(Mutex::new(events)) }
    }

    pub(super) fn title(&self, text: &str) -> anyhow::Result<()> {
        write(&format!("{}\n", self.paint(BOLD, text)))
    }

    pub(super) fn act(&self, text: &str) -> anyhow::Result<()> {
        self.catch_up()?;
        write(&format!("\n{}\n", self.paint(BOLD, text)))
    }

    pub(super) fn note(&self, text: &str) -> anyhow::Result<()> {
        self.catch_up()?;
        write(&format!("           {}\n", self.paint(DIM, text)))
    }

    pub(super) fn call(
        &self,
        server: &str,
        tool: &str,
        id: &str,
        outcome: &str,
        elapsed: Duration,
    ) -> anyhow::Result<()> {
        self.catch_up()?;
        let colour = if outcome == "answered" { GREEN } else { YELLOW };
        let outcome = self.paint(colour, outcome);
        let call = format!("{tool} ({id})");
        self.line(
            SystemTime::now(),
            &format!("{server:<6} {call:<22} {outcome} after {} ms", elapsed.as_millis()),
        )
    }

    /// Prints the transitions that have happened since.
    fn catch_up(&self) -> anyhow::Result<()> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(event) = events.try_recv() {
            if let HubEvent::Transition(t) = event {
                let generation =
                    t.generation.map_or(String::new(), |g| format!(", generation {g}"));
                let text =
                    format!("{:<6} {} → {} ({}{generation})", t.server, t.from, t.to, t.reason);
                self.line(t.at, &self.paint(DIM, &text))?;
            }
        }
        Ok(())
    }

    fn line(&self, at: SystemTime, text: &str) -> anyhow::Result<()> {
        // A clock that was set back meanwhile shows zero.
        let since = at.duration_since(self.started).unwrap_or_default();
        write(&format!("  {:>6.2} s {text}\n", since.as_secs_f32()))
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
