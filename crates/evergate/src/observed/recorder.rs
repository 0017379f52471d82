//! Follows what happens to shared servers and writes it down.

use std::sync::Arc;
use std::time::SystemTime;

use evergate_runtime::{Generation, HubEvent, ServerHandle, StateKind, Status, Transition};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Observed, unix_ms};
use crate::admin::model::{Moment, What};
use crate::gateway::Gateway;

/// Until the gateway drains. `events` were subscribed to before anything could happen.
pub(crate) async fn record(gateway: Arc<Gateway>, mut events: Receiver<HubEvent>) {
    // One that is switched off has nothing happening to it.
    look_around(&gateway, |status| status.state == StateKind::Disabled);
    let mut missed = false;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = gateway.draining.begun() => return,
        };
        match event {
            Ok(HubEvent::Transition(transition)) => gateway.observed.changed(&transition),
            Ok(HubEvent::CatalogChanged { server, version }) => {
                let what = What::CatalogChanged { server: server.to_string(), version };
                gateway.observed.feed.add(SystemTime::now(), what);
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => missed = true,
            Err(RecvError::Closed) => return,
        }
        // What was missed is lost, but not where everybody is now.
        if missed && events.is_empty() {
            look_around(&gateway, |_| true);
            missed = false;
        }
    }
}

fn look_around(gateway: &Gateway, wanted: fn(&Status) -> bool) {
    for status in gateway.hub().servers().iter().map(ServerHandle::status).filter(wanted) {
        gateway.observed.seen(&status);
    }
}

// === impl Observed ===

impl Observed {
    fn changed(&self, transition: &Transition) {
        let (from, to) = (transition.from.into(), transition.to.into());
        let generation = transition.generation.map(Generation::get);
        let reason = transition.reason.to_string();
        let at_unix_ms = unix_ms(transition.at);
        let moment = Moment { at_unix_ms, state: to, reason: reason.clone(), generation };
        self.remember(&transition.server, moment);
        let what = What::Transition {
            server: transition.server.to_string(),
            from,
            to,
            reason,
            event: transition.event.to_owned(),
            generation,
        };
        self.feed.add(transition.at, what);
    }

    fn seen(&self, status: &Status) {
        let moment = Moment {
            at_unix_ms: unix_ms(status.since),
            state: status.state.into(),
            reason: status.reason.to_string(),
            generation: status.generation.map(Generation::get),
        };
        self.remember(&status.server, moment);
    }

    fn remember(&self, server: &str, moment: Moment) {
        if let Some(past) = self.known(server) {
            past.history().add(moment);
        }
    }
}
