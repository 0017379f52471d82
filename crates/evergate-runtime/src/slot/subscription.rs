//! Hearing of changes without a handshake (2026-07-28): one request that the server answers only in the end, and on whose
//! stream it says what has changed. It is made again whenever it ends, and whenever something else is to be heard of.
//!
//! There is no replay, so what may have changed while nobody listened counts as changed once the server has said that it
//! has taken up the request: not before, or what changes in between would be lost. The first listing waits for that word,
//! which spares a second one, and a request for something else is made before the one in use is dropped, which spares a
//! gap. In that moment a change may be told twice.
//!
//! What the server took up and what it refused is remembered for as long as the generation lives. A resource that it
//! refuses is refused to whoever waits for it, and left out of further requests until somebody asks for it anew; one that
//! somebody was promised before is tried again with the next generation.

mod listen;
mod trials;

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use self::listen::{End, Ended, Listen};
use self::trials::{Trial, Trials, Verdict, is_about_resources};
use super::Slot;
use super::side_state::announce;
use crate::connection::Connection;
use crate::protocol::RpcError;

/// After a request ended; doubles while it keeps ending soon. Half of it is left to chance.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// Between two requests, however quickly the wishes change: clients subscribe in bursts.
const PAUSE: Duration = Duration::from_millis(50);
/// The server's word comes at once or, from a server out of order, not at all.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(30);
/// How long the first listing waits for it.
const LISTED_WITHIN: Duration = Duration::from_secs(1);

/// The task of one generation.
struct Follower {
    connection: Arc<Connection>,
    slot: Arc<Slot>,
    /// Of the resources that are to be heard of.
    changes: watch::Receiver<u64>,
    /// What is heard of now.
    current: Option<Listen>,
    /// When a request was last made.
    asked_at: Option<Instant>,
    /// Requests in a row that ended soon.
    failures: u32,
    trials: Trials,
}

/// What there is to hear of, as far as the server offers it.
struct Wanted {
    /// Lists.
    filter: Map<String, Value>,
    /// The oldest first.
    resources: Vec<String>,
    /// Of the subscriptions.
    change: u64,
}

/// Listens for as long as the generation lives; the caller ends it by dropping it.
pub(crate) fn follow(connection: Arc<Connection>, slot: Arc<Slot>) -> impl Future<Output = ()> {
    // Now, not when it is first polled: by then the first listing may have begun.
    connection.inbox().stale_lists().hold(LISTED_WITHIN);
    // It may be another server by now.
    slot.side_state.forget_refusals();
    let changes = slot.side_state.changes();
    let follower = Follower {
        connection,
        slot,
        changes,
        current: None,
        asked_at: None,
        failures: 0,
        trials: Trials::default(),
    };
    follower.run()
}

// === impl Follower ===

impl Follower {
    async fn run(mut self) {
        loop {
            if let Some(asked_at) = self.asked_at {
                sleep_until(asked_at + PAUSE).await;
            }
            self.changes.mark_unchanged();
            let wanted = Wanted::new(&self.connection, &self.slot);
            let (lists, trial) = (!wanted.filter.is_empty(), self.next_trial(&wanted));
            let end = match self.listen_for(&wanted, &trial).await {
                Ok(()) if trial.is_all => self.until_something_happens().await,
                Ok(()) => None,
                // Some servers take one at a time.
                Err(End::Soon | End::Later) if self.current.take().is_some() => continue,
                Err(End::Refused(error))
                    if !is_about_resources(&error) && self.current.take().is_some() =>
                {
                    continue;
                }
                Err(End::Refused(error)) => self.refused(&trial, lists, error),
                Err(end) => Some(end),
            };
            let Some(end) = end else { continue };
            self.current = None;
            // Whatever it was, nobody needs to wait for it.
            self.connection.inbox().stale_lists().release();
            match end {
                End::Soon | End::Refused(_) => self.back_off().await,
                End::Later => {
                    self.failures = 0;
                    self.back_off().await;
                }
                End::Idle => self.changed().await,
                End::Deaf => return self.stay_deaf().await,
                End::Lost(loss, error) => {
                    return self.connection.reporter().lost(loss, error).await;
                }
            }
        }
    }

    fn next_trial(&mut self, wanted: &Wanted) -> Trial {
        self.trials.next(&wanted.resources, !wanted.filter.is_empty())
    }

    /// Has the server tell of what is to be tried, if it does not yet.
    async fn listen_for(&mut self, wanted: &Wanted, trial: &Trial) -> Result<(), End> {
        let Trial { resources, is_all } = trial;
        if wanted.filter.is_empty() && resources.is_empty() {
            self.current = None;
        } else if self.current.as_ref().is_none_or(|current| current.resources != *resources) {
            self.asked_at = Some(Instant::now());
            let filter = wanted.filter.clone();
            let next = Listen::begin(&self.connection, filter, resources.clone());
            let mut next = next.ok_or(End::Deaf)?;
            let too_late = sleep(TAKEN_UP_WITHIN);
            tokio::pin!(too_late);
            let ended = loop {
                tokio::select! {
                    biased;
                    honoured = next.acknowledgement.said() => {
                        next.taken_up = Some((Instant::now(), honoured));
                        break None;
                    }
                    ended = &mut next.ending => break Some(ended),
                    _ = ending(&mut self.current) => self.current = None,
                    () = &mut too_late => return Err(End::Soon),
                }
            };
            // Both may have come at once.
            next.look_for_word();
            if next.taken_up.is_some() {
                self.catch_up(&next);
                if let Some((uri, error)) = self.trials.taken_up(resources) {
                    self.refuse(&uri, error);
                }
                if *is_all {
                    self.slot.side_state.set_told(wanted.change);
                }
            }
            if let Some(ended) = ended {
                return Err(next.end(ended));
            }
            // Drops the one before, which ends it.
            self.current = Some(next);
        }
        if *is_all {
            self.slot.side_state.set_told(wanted.change);
        }
        self.connection.inbox().stale_lists().release();
        Ok(())
    }

    /// `None` if something else is to be tried.
    fn refused(&mut self, trial: &Trial, lists: bool, error: RpcError) -> Option<End> {
        let accompanied = self.current.is_some();
        match self.trials.refused(&trial.resources, lists, accompanied, error) {
            Verdict::Again => None,
            Verdict::Guilty(uri, error) => {
                self.refuse(&uri, error);
                None
            }
            Verdict::GiveUp => Some(End::Soon),
        }
    }

    /// Tells whoever waits for a resource, or else the operator.
    fn refuse(&self, uri: &str, error: RpcError) {
        let (server, why) = (self.slot.name.clone(), error.to_string());
        if self.slot.side_state.refuse(uri, error) {
            // What follows may be secret.
            let uri = uri.split(['?', '#']).next().unwrap_or_default();
            tracing::warn!(%server, uri, why, "the server refuses to tell of changes of a resource");
        }
    }

    /// What was not heard of until now may have changed.
    fn catch_up(&self, next: &Listen) {
        if self.current.is_none() {
            self.connection.inbox().stale_lists().mark_all();
        }
        let heard = |uri: &String| {
            self.current.as_ref().is_some_and(|current| current.resources.contains(uri))
        };
        let promised = self.slot.side_state.promised();
        self.announce(promised.iter().filter(|uri| next.resources.contains(*uri) && !heard(uri)));
    }

    fn announce<'a>(&self, uris: impl Iterator<Item = &'a String>) {
        for uri in uris {
            announce(uri, &self.connection, &self.slot.name, &self.slot.shared.notifications);
        }
    }

    /// `None` if something else is wanted.
    async fn until_something_happens(&mut self) -> Option<End> {
        let ended = tokio::select! {
            ended = ending(&mut self.current) => ended,
            _ = self.changes.changed() => return None,
        };
        self.current.take().map(|current| current.end(ended))
    }

    async fn changed(&mut self) {
        // Cannot fail: the slot keeps the sender.
        let _ = self.changes.changed().await;
    }

    /// Waits a while, less if something else is wanted.
    async fn back_off(&mut self) {
        let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_DELAY);
        let delay = delay.mul_f64(1.0 - fastrand::f64() / 2.0);
        self.failures += 1;
        tokio::select! {
            () = sleep(delay) => {}
            () = self.changed() => {}
        }
    }

    /// Keeps nobody waiting for what will not be heard of.
    async fn stay_deaf(mut self) {
        self.announce(self.slot.side_state.promised().iter());
        loop {
            self.slot.side_state.set_told(*self.changes.borrow_and_update());
            self.changed().await;
        }
    }
}

async fn ending(listen: &mut Option<Listen>) -> Ended {
    match listen {
        Some(listen) => (&mut listen.ending).await,
        None => pending().await,
    }
}

// === impl Wanted ===

impl Wanted {
    fn new(connection: &Connection, slot: &Slot) -> Self {
        let offers: Value = connection.peer().capabilities.parse().unwrap_or_default();
        let (change, resources) = slot.side_state.subscriptions();
        let mut filter = Map::new();
        for (list, field) in [
            ("tools", "toolsListChanged"),
            ("prompts", "promptsListChanged"),
            ("resources", "resourcesListChanged"),
        ] {
            if offers[list]["listChanged"] == true {
                filter.insert(field.to_owned(), true.into());
            }
        }
        Self { filter, resources, change }
    }
}
