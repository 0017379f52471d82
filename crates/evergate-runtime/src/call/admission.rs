//! Waiting for a connection: as long as it makes sense, and no longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::{Call, Report};
use crate::connection::{Connection, Lease};
use crate::error::CallFailure;
use crate::lifecycle::{Generation, StateKind};
use crate::own::Own;
use crate::slot::{Probe, Published, Slot, Underway};

/// The right to send one request on one connection.
pub(super) struct Admitted {
    pub(super) lease: Lease,
    /// It is to find out whether the server takes calls again.
    pub(super) probe: Option<Probe>,
    _place: Place,
}

/// One of the places that a server has for calls, for as long as the call is with it.
struct Place {
    slot: Own<Slot>,
    is_counted: bool,
}

/// Counts a call for as long as it waits.
struct Held<'a>(&'a AtomicUsize);

/// What the published state means for a call.
enum View {
    Ready(Arc<Connection>),
    Wait,
    Hopeless(CallFailure),
}

// === impl Call ===

impl Call {
    /// A connection newer than `after`. The waits of one call add up.
    pub(super) async fn admit(
        &self,
        after: Option<Generation>,
        report: &mut Report,
    ) -> Result<Admitted, CallFailure> {
        // The usual case: connected, and not too busy.
        let slot = &self.slot;
        if !slot.shared.closing.has_begun()
            && !slot.retirement.has_begun()
            && let Some(connection) = slot.connection()
            && is_newer(&connection, slot.commands.underway(), after)
            && slot.permits.try_take()
        {
            return self.admitted(connection, self.place());
        }
        let hold = Instant::now() + self.clock.hold.saturating_sub(report.waited);
        let until = hold.min(self.clock.expires_at());
        report.waiting(Box::pin(self.admit_until(after, until))).await
    }

    async fn admit_until(
        &self,
        after: Option<Generation>,
        until: Instant,
    ) -> Result<Admitted, CallFailure> {
        let slot = &self.slot;
        if slot.shared.closing.has_begun() {
            return Err(CallFailure::ShuttingDown);
        }
        if slot.retirement.has_begun() {
            return Err(CallFailure::Removed);
        }
        if !self.keeps_alive
            && let Some(retry_in) = slot.shut_for()
        {
            return Err(CallFailure::RateLimited { retry_in });
        }
        let _held = Held::within(&slot.held, slot.settings.max_held)?;
        let mut permit: Option<OwnedSemaphorePermit> = None;
        // One place in the queue, kept through every change of state: first come, first served.
        let queueing = slot.permits.queue();
        let mut turn = std::pin::pin!(queueing.turn());
        let mut queued: Option<Held<'_>> = None;
        let mut published = slot.published.subscribe();
        loop {
            if slot.retirement.has_begun() {
                return Err(CallFailure::Removed);
            }
            let now = view(
                &published.borrow_and_update(),
                slot.commands.underway(),
                after,
                until,
                self.clock.started.elapsed(),
            );
            match now {
                View::Hopeless(failure) => return Err(failure),
                View::Ready(connection) => {
                    if let Some(permit) = permit.take() {
                        permit.forget();
                        return self.admitted(Own::new(connection), self.place());
                    }
                    queued.get_or_insert_with(|| Held::counted(&slot.queued));
                }
                View::Wait => {
                    queued = None;
                    let status = published.borrow().status.clone();
                    if status.earliest_attempt_at < status.next_retry_at {
                        slot.commands.demand();
                    }
                }
            }
            // With a permit in hand we wait for the connection; without, for either.
            tokio::select! {
                acquired = &mut turn, if permit.is_none() => {
                    permit = acquired;
                }
                changed = published.changed() => {
                    if changed.is_err() {
                        return Err(CallFailure::ShuttingDown);
                    }
                }
                () = self.cancelled() => return Err(CallFailure::Cancelled),
                () = slot.shared.closing.begun() => return Err(CallFailure::ShuttingDown),
                () = slot.retirement.begun() => return Err(CallFailure::Removed),
                () = sleep_until(until) => {
                    let (now, waited) = (published.borrow().clone(), self.clock.started.elapsed());
                    let view = view(&now, slot.commands.underway(), after, until, waited);
                    return Err(match view {
                        // All that was missing was a permit.
                        View::Ready(_) if permit.is_none() => {
                            CallFailure::TooBusy { limit: slot.settings.max_in_flight }
                        }
                        _ => not_connected(&now, waited),
                    });
                }
            }
        }
    }

    fn admitted(&self, connection: Own<Connection>, place: Place) -> Result<Admitted, CallFailure> {
        let probe = if self.keeps_alive { Ok(None) } else { self.slot.pass_rate_gate() };
        let probe = probe.map_err(|retry_in| CallFailure::RateLimited { retry_in })?;
        Ok(Admitted { lease: Lease::of(connection), probe, _place: place })
    }

    /// Of a permit that was taken.
    fn place(&self) -> Place {
        // Whether anybody uses the server is not for a ping to decide.
        let is_counted = !self.keeps_alive;
        if is_counted {
            self.slot.in_flight.own().fetch_add(1, Ordering::Relaxed);
        }
        Place { slot: self.slot.clone(), is_counted }
    }
}

fn view(
    published: &Published,
    underway: Underway,
    after: Option<Generation>,
    until: Instant,
    waited: Duration,
) -> View {
    match underway {
        Underway::Stop => return View::Hopeless(CallFailure::Disabled),
        Underway::Restart => return View::Wait,
        Underway::Start | Underway::Nothing => {}
    }
    if let Some(connection) = newer(published, underway, after) {
        return View::Ready(connection);
    }
    let status = &published.status;
    if underway == Underway::Start {
        return View::Wait;
    }
    match status.state {
        StateKind::Disabling if status.returning => View::Wait,
        StateKind::Disabled | StateKind::Disabling => View::Hopeless(CallFailure::Disabled),
        StateKind::PermanentlyFailed => View::Hopeless(CallFailure::PermanentlyFailed {
            reason: status.reason,
            last_error: status.last_failure.clone(),
        }),
        // Nothing can happen before this call's time is up: say so now rather than then.
        StateKind::Disconnected if status.earliest_attempt_at.is_some_and(|at| at > until) => {
            View::Hopeless(not_connected(published, waited))
        }
        StateKind::Connecting
        | StateKind::Connected
        | StateKind::Reconnecting
        | StateKind::Disconnected => View::Wait,
    }
}

/// The connection, if it is newer than that and nobody is about to take it away.
fn newer(
    published: &Published,
    underway: Underway,
    after: Option<Generation>,
) -> Option<Arc<Connection>> {
    published.connection.clone().filter(|found| is_newer(found, underway, after))
}

fn is_newer(connection: &Connection, underway: Underway, after: Option<Generation>) -> bool {
    !matches!(underway, Underway::Stop | Underway::Restart)
        && after.is_none_or(|after| connection.generation() > after)
}

fn not_connected(published: &Published, waited: Duration) -> CallFailure {
    let status = &published.status;
    CallFailure::NotConnected {
        state: status.state,
        reason: status.reason,
        waited,
        next_retry: status.next_retry_at.map(|at| at.saturating_duration_since(Instant::now())),
        last_error: status.last_failure.clone(),
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_counted {
            self.slot.in_flight.own().fetch_sub(1, Ordering::Relaxed);
        }
        self.slot.permits.give_back();
    }
}

// === impl Held ===

impl<'a> Held<'a> {
    fn counted(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::Relaxed);
        Self(calls)
    }

    fn within(calls: &'a AtomicUsize, limit: usize) -> Result<Self, CallFailure> {
        let held = Self(calls);
        if calls.fetch_add(1, Ordering::Relaxed) >= limit {
            return Err(CallFailure::TooManyHeld { limit });
        }
        Ok(held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
