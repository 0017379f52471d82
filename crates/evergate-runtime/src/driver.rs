//! One task per slot: turns what happens into events, and effects into IO. Decides nothing; see `lifecycle`.

mod dial;
mod remembered;
mod telling;
mod witnessed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub(crate) use dial::Dialing;
use remembered::{Learnt, Remembered};
use telling::Telling;
use witnessed::{Place, Witnessed};

use crate::catalog::keep_fresh;
use crate::connection::Connection;
use crate::error::{SharedError, chain};
use crate::lifecycle::{DialFailure, Effect, Event, Generation, Lifecycle, Manner, StateKind};
use crate::observe::{AttemptEnd, Dialed, Happening, HubEvent, Status, Transition};
use crate::slot::{Published, Slot, follow, keep_alive};
use crate::transport::http::listen::listen;
use crate::transport::{Link, OpenError};

/// What reaches a driver. Sent boxed: a channel keeps room for dozens of them for every slot, and they are rare.
#[derive(Debug)]
pub(crate) enum Input {
    Event {
        event: Event,
        error: Option<SharedError>,
    },
    /// An event whose sender waits until its effect is published.
    Asked {
        event: Event,
        heard: oneshot::Sender<()>,
    },
    /// What the status shows besides changed.
    Publish,
    Dialed {
        generation: Generation,
        began: SystemTime,
        took: Duration,
        result: Result<(Arc<Connection>, Learnt), OpenError>,
    },
}

/// Enough that reporters hardly ever wait; they may, the driver never does.
pub(crate) const INPUTS: usize = 256;

/// The task's own state.
#[derive(Debug)]
pub(crate) struct Driver {
    slot: Arc<Slot>,
    inputs: mpsc::Receiver<Box<Input>>,
    lifecycle: Lifecycle,
    dialing: Dialing,
    /// The hub is gone.
    stop: CancellationToken,
    /// Calls off the dial in flight.
    abort: CancellationToken,
    /// Every connection that is not closed yet: the current one, a candidate, and those that drain.
    connections: HashMap<Generation, Arc<Connection>>,
    remembered: Remembered,
    since: SystemTime,
    installed: Option<Generation>,
    installed_at: Option<SystemTime>,
    installs: u64,
    stale_events: u64,
    last_failure: Option<SharedError>,
    last_failure_at: Option<SystemTime>,
    witnessed: Witnessed,
    telling: Telling,
    /// It was retired, and its calls are done.
    drained: bool,
}

/// A failure and all that led to it, in the words that may be shown.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Shown(String);

enum Action {
    Commands,
    Input(Input),
    Tick,
    Drained,
    SumUp,
    Stop,
}

// === impl Driver ===

impl Driver {
    pub(crate) fn new(
        slot: Arc<Slot>,
        inputs: mpsc::Receiver<Box<Input>>,
        lifecycle: Lifecycle,
        dialing: Dialing,
        stop: CancellationToken,
    ) -> Self {
        Self {
            witnessed: Witnessed::new(slot.shared.witness.of(&slot.name)),
            slot,
            inputs,
            lifecycle,
            dialing,
            abort: stop.child_token(),
            stop,
            connections: HashMap::new(),
            remembered: Remembered::default(),
            since: SystemTime::now(),
            installed: None,
            installed_at: None,
            installs: 0,
            stale_events: 0,
            last_failure: None,
            last_failure_at: None,
            telling: Telling::new(),
            drained: false,
        }
    }

    /// Runs until the slot is retired or the hub shuts down, and everything this slot opened is closed, or until the
    /// hub is dropped.
    pub(crate) async fn run(mut self) {
        self.witnessed.tell(Happening::Began(self.lifecycle.state().kind()));
        while !(self.slot.is_leaving() && self.lifecycle.is_at_rest()) {
            let action = self.next_action().await;
            match action {
                Action::Commands => {
                    let leaving = self.slot.is_leaving();
                    for event in self.slot.commands.take() {
                        // What is on its way out opens nothing any more, whoever asks.
                        if !leaving || event == Event::Disable {
                            self.apply(event, None);
                        }
                    }
                    self.slot.commands.done();
                    // Whoever looked before that line must look again.
                    self.slot.published.send_modify(|_| ());
                }
                Action::Input(Input::Event { event, error }) => self.apply(event, error),
                Action::Input(Input::Asked { event, heard }) => {
                    self.apply(event, None);
                    // Whoever asked may have given up.
                    let _ = heard.send(());
                }
                Action::Input(Input::Publish) => self.publish(None),
                Action::Input(Input::Dialed { generation, began, took, result }) => {
                    self.dialed(generation, (began, took), result);
                }
                Action::Tick => self.apply(Event::Tick, None),
                Action::Drained => {
                    self.drained = true;
                    self.apply(Event::Disable, None);
                }
                Action::SumUp => {
                    let lifecycle = &self.lifecycle;
                    self.telling.sum_up(&self.slot.name, lifecycle.state().kind(), self.installed);
                }
                Action::Stop => break,
            }
        }
        self.witnessed.tell(Happening::Ended(self.lifecycle.state().kind()));
        // A dropped hub closes nothing in an orderly way. Handles may outlive it and must find nothing.
        for connection in self.connections.values() {
            connection.abandon();
        }
        self.slot.publish(|published| {
            let status = Status { state: StateKind::Disabled, ..Status::clone(&published.status) };
            *published = Published { status: Arc::new(status), connection: None, candidate: None };
        });
    }

    async fn next_action(&mut self) -> Action {
        let deadline = self.lifecycle.deadline().map(Instant::from_std);
        let at = async |time: Option<Instant>| match time {
            Some(time) => sleep_until(time).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = self.slot.commands.changed() => Action::Commands,
            input = self.inputs.recv() => input.map_or(Action::Stop, |input| Action::Input(*input)),
            () = at(deadline) => Action::Tick,
            () = at(self.telling.due()) => Action::SumUp,
            () = self.slot.retirement.drained(self.slot.settings.max_timeout), if !self.drained => {
                Action::Drained
            }
            () = self.stop.cancelled() => Action::Stop,
        }
    }

    fn dialed(
        &mut self,
        generation: Generation,
        time: (SystemTime, Duration),
        result: Result<(Arc<Connection>, Learnt), OpenError>,
    ) {
        self.tell_dialed(generation, time, &result);
        let now = Instant::now();
        match result {
            Ok((connection, learnt)) => {
                self.remembered.succeeded(learnt, now);
                self.connections.insert(generation, connection);
                self.apply(Event::DialSucceeded { generation }, None);
            }
            Err(error) => {
                self.remembered.failed(&error, now);
                let failure = error.dial_failure();
                let error = Some(error)
                    .filter(|error| !matches!(error, OpenError::Aborted))
                    .map(SharedError::new);
                self.apply(Event::DialFailed { generation, failure }, error);
            }
        }
    }

    /// Tells the witness how an attempt went, and whoever follows along.
    fn tell_dialed(
        &self,
        generation: Generation,
        (began, took): (SystemTime, Duration),
        result: &Result<(Arc<Connection>, Learnt), OpenError>,
    ) {
        let (connection, error) = match result {
            Ok((connection, _)) => (Some(connection), None),
            Err(error) => (None, Some(error)),
        };
        let failure = error.map(OpenError::dial_failure);
        let end = failure.map_or(AttemptEnd::Ok, Into::into);
        self.witnessed.tell(Happening::Attempted(end));
        // Most of the time nobody follows. The name may be another's by now.
        if self.slot.shared.events.receiver_count() == 0 || self.slot.retirement.has_begun() {
            return;
        }
        let dialed = Dialed {
            server: self.slot.name.clone(),
            generation,
            began,
            took,
            end,
            reason: failure.and_then(DialFailure::reason),
            transport: connection.map(|connection| connection.link().name()),
            protocol: connection.map(|connection| connection.peer().version),
            error: error.map(|error| self.slot.entrusted.hide(&chain(error))),
        };
        // Nobody listening is fine.
        let _ = self.slot.shared.events.send(HubEvent::Dialed(dialed));
    }

    /// The only place where a slot changes: one step, one log line, one publication, its effects.
    fn apply(&mut self, event: Event, error: Option<SharedError>) {
        if self.lifecycle.is_stale(&event) {
            self.stale_events += 1;
            return;
        }
        if let Event::Closed { generation } = event {
            self.connections.remove(&generation);
        }
        self.telling.note(&event);
        let before = self.place();
        let now = Instant::now().into_std();
        let (next, effects) = self.lifecycle.clone().step(event, now);
        self.lifecycle = next;
        if let Some(error) = error {
            // Shown, logged, and told to callers: whoever gets it gets it without secrets.
            let shown = Shown(self.slot.entrusted.hide(&chain(&error)));
            self.last_failure = Some(SharedError::new(shown));
            self.last_failure_at = Some(SystemTime::now());
        }
        let after = self.place();
        if before.state != after.state {
            self.since = SystemTime::now();
        }
        if after.current.is_some() && after.current != before.current {
            self.installed = after.current;
            self.installed_at = Some(SystemTime::now());
            self.installs += 1;
        }
        let process = after.current.and_then(|current| self.connections.get(&current));
        let process = process.is_some_and(|connection| connection.link().pid().is_some());
        let reason = self.lifecycle.reason();
        self.witnessed.stepped((before, after), &event, reason, process);
        let changed = (before.state, before.current) != (after.state, after.current);
        let transition = changed.then(|| self.transition(before.state, after.state, &event));
        // Before the effects: whoever an effect wakes, by cutting its connection say, finds the new state.
        self.publish(transition);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn place(&self) -> Place {
        let lifecycle = &self.lifecycle;
        Place {
            state: lifecycle.state().kind(),
            current: lifecycle.current(),
            in_doubt: lifecycle.is_in_doubt(),
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { generation } => {
                self.abort = self.stop.child_token();
                let reconnect = self.installs > 0 || self.lifecycle.attempts() > 0;
                let task = self.dialing.clone().dial(
                    self.slot.clone(),
                    generation,
                    self.remembered,
                    reconnect,
                    self.abort.clone(),
                );
                self.slot.shared.tasks.spawn(task);
            }
            Effect::AbortDial { .. } => self.abort.cancel(),
            // Published with the state.
            Effect::Offer { .. } => {}
            Effect::Install { generation } => self.install(generation),
            Effect::Close { generation, manner } => self.close(generation, manner),
            Effect::DropCatalog => {
                self.slot.shared.catalog.remove(&self.slot.name, self.slot.id);
            }
        }
    }

    fn install(&mut self, generation: Generation) {
        let Some(connection) = self.connections.get(&generation).cloned() else { return };
        let slot = &self.slot;
        slot.shared.catalog.set_current(&slot.name, slot.id, generation);
        let detached = connection.detached().clone();
        if connection.peer().version.is_modern() {
            let following = follow(connection.clone(), slot.clone());
            slot.shared.tasks.spawn(detached.clone().run_until_cancelled_owned(following));
        } else if let Link::Http(link) = connection.link()
            && link.may_listen()
        {
            let listening =
                listen(link.clone(), connection.inbox().clone(), connection.reporter().clone());
            slot.shared.tasks.spawn(detached.clone().run_until_cancelled_owned(listening));
        }
        let refreshing = keep_fresh(
            connection.clone(),
            (slot.name.clone(), slot.id),
            slot.settings.clone(),
            slot.shared.catalog.clone(),
            slot.garbage.clone(),
        );
        slot.shared.tasks.spawn(detached.clone().run_until_cancelled_owned(refreshing));
        let restored = slot.clone();
        slot.shared.tasks.spawn(detached.run_until_cancelled_owned(async move {
            let news = &restored.shared.notifications;
            let within = restored.settings.list_timeout;
            // Boxed because it is large, and mostly there is nothing to restore.
            let restoring = restored.side_state.restore(&connection, &restored.name, within, news);
            Box::pin(restoring).await;
            keep_alive(restored, connection).await;
        }));
    }

    fn close(&mut self, generation: Generation, manner: Manner) {
        let Some(connection) = self.connections.get(&generation).cloned() else { return };
        if manner == Manner::Now {
            connection.cut();
        }
        if connection.detached().is_cancelled() {
            // It is draining already; the cut above hurries it.
            return;
        }
        connection.detach();
        let (drain, within) = (self.slot.settings.max_timeout, self.slot.settings.close_timeout);
        let (inputs, server) = (self.slot.inputs.clone(), self.slot.name.clone());
        let entrusted = self.slot.entrusted.clone();
        self.slot.shared.tasks.spawn(async move {
            if let Err(error) = connection.close(manner, drain, within).await {
                let error = entrusted.hide(&chain(&error));
                tracing::debug!(%server, %generation, error, "close failed");
            }
            // A driver that is gone needs no news.
            let _ = inputs
                .send(Box::new(Input::Event { event: Event::Closed { generation }, error: None }))
                .await;
        });
    }

    /// Status and event at once: whoever sees one finds the other.
    fn publish(&self, transition: Option<Transition>) {
        let lifecycle = &self.lifecycle;
        let connection =
            lifecycle.current().and_then(|generation| self.connections.get(&generation).cloned());
        let candidate =
            lifecycle.candidate().and_then(|candidate| self.connections.get(&candidate).cloned());
        let failures = lifecycle.failures();
        let status = Status {
            server: self.slot.name.clone(),
            state: lifecycle.state().kind(),
            reason: lifecycle.reason(),
            since: self.since,
            generation: self.installed,
            connected_since: connection.as_ref().and(self.installed_at),
            degraded: connection.is_some() && (failures.discovery > 0 || failures.rpc > 0),
            attempts: lifecycle.attempts(),
            next_retry_at: lifecycle.next_attempt_at().map(Instant::from_std),
            earliest_attempt_at: lifecycle.earliest_attempt_at().map(Instant::from_std),
            last_error: self.last_failure.as_ref().map(SharedError::to_string),
            last_error_at: self.last_failure_at,
            last_failure: self.last_failure.clone(),
            reconnects: self.installs.saturating_sub(1),
            discovery_failures: failures.discovery,
            rpc_failures: failures.rpc,
            failure_threshold: self.slot.settings.policy.failure_threshold,
            transport: connection.as_ref().map(|connection| connection.link().name()),
            protocol: connection.as_ref().map(|connection| connection.peer().version),
            pid: connection.as_ref().and_then(|connection| connection.link().pid()),
            stale_events: self.stale_events,
            stderr_tail: Vec::new(),
            stderr_lines: 0,
            garbage: 0,
            last_garbage: None,
            held: 0,
            queued: 0,
            max_held: self.slot.settings.max_held,
            in_flight: 0,
            max_in_flight: self.slot.settings.max_in_flight,
            rate_limited: None,
            in_doubt: lifecycle.is_in_doubt(),
            returning: lifecycle.is_returning(),
        };
        let status = Arc::new(self.slot.with_live_numbers(&status));
        self.slot.publish(|published| {
            *published = Published { status, connection, candidate };
            if let Some(transition) = transition
                // The name may be another's by now.
                && !self.slot.retirement.has_begun()
            {
                // Nobody listening is fine.
                let _ = self.slot.shared.events.send(HubEvent::Transition(transition));
            }
        });
    }

    /// Logs a transition and puts it into words.
    fn transition(&mut self, from: StateKind, to: StateKind, event: &Event) -> Transition {
        let transition = Transition {
            server: self.slot.name.clone(),
            from,
            to,
            event: event.name(),
            reason: self.lifecycle.reason(),
            generation: self.installed,
            at: SystemTime::now(),
        };
        let error = self.last_failure.as_ref().map(SharedError::to_string);
        self.telling.tell(&transition, error.as_deref());
        transition
    }
}
