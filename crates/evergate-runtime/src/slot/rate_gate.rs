//! Lets calls through, or not, while the server limits our rate: the breaker with a clock, and what the outside hears of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Slot;
use crate::driver::Input;
use crate::observe::{HubEvent, RateLimited};
use crate::retry::{Change, Limited, Passage, RateBreaker, ShownBy};
use crate::settings::Checked;

/// One per slot. Costs one look at a flag per call and one per answer as long as nothing is wrong.
#[derive(Debug)]
pub(crate) struct RateGate {
    /// The breaker has something to remember.
    troubled: AtomicBool,
    /// `None` if it is switched off.
    breaker: Option<Mutex<RateBreaker>>,
}

/// The right to find out whether the server takes calls again. Dropped without an answer, it passes to the next call.
#[derive(Debug)]
pub(crate) struct Probe {
    slot: Arc<Slot>,
    number: u64,
}

// === impl RateGate ===

impl RateGate {
    pub(super) fn new(settings: &Checked) -> Self {
        let (threshold, pause) = settings.rate_limit;
        let breaker = (threshold > 0).then(|| Mutex::new(RateBreaker::new(threshold, pause)));
        Self { troubled: AtomicBool::new(false), breaker }
    }

    /// The breaker, if anything is wrong.
    fn troubled(&self) -> Option<MutexGuard<'_, RateBreaker>> {
        if self.troubled.load(Ordering::Relaxed) { self.locked() } else { None }
    }

    fn locked(&self) -> Option<MutexGuard<'_, RateBreaker>> {
        Some(self.breaker.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the status shows.
    pub(super) fn status(&self) -> Option<RateLimited> {
        let breaker = self.troubled()?;
        let (until, last) = breaker.shut()?;
        Some(RateLimited {
            until: Instant::from_std(until),
            because: because(breaker.threshold(), last?),
        })
    }
}

// === impl Slot ===

impl Slot {
    /// Whether a call may be sent now; if not, how long until one may.
    pub(crate) fn pass_rate_gate(self: &Arc<Self>) -> Result<Option<Probe>, Duration> {
        let Some(mut breaker) = self.rate.troubled() else { return Ok(None) };
        let now = Instant::now().into_std();
        match breaker.pass(now) {
            Passage::Free => Ok(None),
            Passage::Probe(number) => Ok(Some(Probe { slot: self.clone(), number })),
            Passage::Shut { until } => Err(until.saturating_duration_since(now)),
        }
    }

    /// How long until a call may be sent, if none may now.
    pub(crate) fn shut_for(&self) -> Option<Duration> {
        let (until, _) = self.rate.troubled()?.shut()?;
        let left = until.saturating_duration_since(Instant::now().into_std());
        (!left.is_zero()).then_some(left)
    }

    /// An answer came, to a probe or another call, which says that the server limits our rate, or does not.
    pub(crate) fn note_rate(&self, limited: Option<Limited>, probe: Option<u64>) {
        let breaker = if limited.is_some() { self.rate.locked() } else { self.rate.troubled() };
        let Some(mut breaker) = breaker else { return };
        let now = Instant::now().into_std();
        let change = breaker.on_answer(limited, probe, now);
        self.rate.troubled.store(!breaker.is_calm(), Ordering::Relaxed);
        drop(breaker);
        let Some(change) = change else { return };
        let paused = self.rate.status();
        let server = self.name.clone();
        // Once when it begins and once when it ends, not once per call.
        match (&paused, change) {
            (Some(paused), Change::Opened) => {
                let pause = paused.until.saturating_duration_since(Instant::now());
                let because = &paused.because;
                tracing::warn!(%server, ?pause, because, "the server limits our rate: calls are refused");
            }
            (_, Change::OpenedAgain) => {
                tracing::debug!(%server, "the server still limits our rate");
                return self.look_again();
            }
            _ => tracing::info!(%server, "the server takes calls again"),
        }
        // Nobody listening is fine.
        let _ = self.shared.events.send(HubEvent::RateLimit { server, paused });
        self.look_again();
    }

    /// Has the status published. A driver that is too busy for it publishes soon anyway.
    fn look_again(&self) {
        let _ = self.inputs.try_send(Box::new(Input::Publish));
    }
}

// === impl Probe ===

impl Probe {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // After an answer there is nothing to release.
        if let Some(mut breaker) = self.slot.rate.locked() {
            breaker.release(self.number, Instant::now().into_std());
        }
    }
}

/// No word of the server's own: it may hold anything.
fn because(threshold: u32, last: Limited) -> String {
    let shown_by = match last.shown_by {
        ShownBy::Status(status) => format!("HTTP {status}"),
        ShownBy::Error => "a JSON-RPC error".to_owned(),
        ShownBy::ToolResult => "a tool's result".to_owned(),
    };
    let asked = last.reset_in.map(|reset| format!(", and it asked to wait {} s", reset.as_secs()));
    format!(
        "{threshold} rate-limit answer(s) in a row, the last {shown_by}{}",
        asked.unwrap_or_default()
    )
}
