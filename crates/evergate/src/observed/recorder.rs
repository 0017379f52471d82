//! Follows what happens to shared servers and writes it down.

use std::sync::Arc;
use std::time::SystemTime;

use evergate_runtime::{Generation, HubEvent, Status, Transition};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Observed, unix_ms};
use crate::admin::model::{Moment, What};
use crate::gateway::Gateway;

/// Until the gateway drains. What happened before `events` were subscribed to is seen in where everybody is.
pub(crate) async fn record(gateway: Arc<Gateway>, mut events: Receiver<HubEvent>) {
    look_around(&gateway);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = gateway.draining.cancelled() => return,
        };
        match event {
            Ok(HubEvent::Transition(transition)) => gateway.observed.changed(&transition),
            Ok(HubEvent::CatalogChanged { server, version }) => {
                let what = What::CatalogChanged { server: server.to_string(), version };
                gateway.observed.feed.add(SystemTime::now(), what);
            }
            Ok(_) => {}
            // What was missed is lost, but not where everybody is now.
            Err(RecvError::Lagged(_)) => look_around(&gateway),
            Err(RecvError::Closed) => return,
        }
    }
}

fn look_around(gateway: &Gateway) {
    for server in gateway.hub().servers() {
        gateway.observed.seen(&server.status());
    }
}

// === impl Observed ===

impl Observed {
    fn changed(&self, transition: &Transition) {
        let (from, to) = (transition.from.into(), transition.to.into());
        let generation = transition.generation.map(Generation::get);
        let reason = transition.reason.to_string();
        self.past(&transition.server).history().add(Moment {
            at_unix_ms: unix_ms(transition.at),
            state: to,
            reason: reason.clone(),
            generation,
        });
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
        self.past(&status.server).history().add(Moment {
            at_unix_ms: unix_ms(status.since),
            state: status.state.into(),
            reason: status.reason.to_string(),
            generation: status.generation.map(Generation::get),
        });
    }
}
