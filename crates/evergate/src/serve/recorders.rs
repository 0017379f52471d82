//! The tasks that write down what happens: the audit log, and traces. They end after everything they write about has.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "otel")]
use evergate_runtime::HubEvent;
#[cfg(feature = "otel")]
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::tasks::Tasks;
#[cfg(feature = "otel")]
use crate::telemetry::{Exporter, Settings, follow};

/// What is running.
pub(super) struct Recorders {
    tasks: Tasks,
    stop: CancellationToken,
}

/// How long the last lines and traces may take.
const LAST_WORDS: Duration = Duration::from_secs(3);

// === impl Recorders ===

impl Recorders {
    /// Before anything can happen that is to be written down.
    pub(super) fn start(gateway: &Arc<Gateway>) -> Self {
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        gateway.observed.audit.configure(gateway.config().gateway.audit.clone());
        let (around, stopping) = (gateway.clone(), stop.clone());
        tasks.spawn(async move { around.observed.audit.write(stopping).await });
        let events = gateway.first_events();
        #[cfg(feature = "otel")]
        if let Some(events) = events {
            start_tracing(gateway, events, &tasks, &stop);
        }
        #[cfg(not(feature = "otel"))]
        drop(events);
        #[cfg(not(feature = "otel"))]
        if gateway.config().gateway.otlp.endpoint.is_some() {
            tracing::warn!("gateway.otlp has no effect: this program was built without it");
        }
        Self { tasks, stop }
    }

    /// Lets them write what is left.
    pub(super) async fn end(self) {
        self.stop.cancel();
        self.tasks.ended(LAST_WORDS).await;
    }
}

#[cfg(feature = "otel")]
fn start_tracing(
    gateway: &Arc<Gateway>,
    events: Receiver<HubEvent>,
    tasks: &Tasks,
    stop: &CancellationToken,
) {
    let config = gateway.config();
    let variable = |name: &str| std::env::var(name).ok();
    let Some(settings) = Settings::read(&config.gateway.otlp, &variable) else { return };
    match Exporter::new(settings) {
        Ok((exporter, tracer)) => {
            tasks.spawn(follow(gateway.clone(), tracer.clone(), events));
            gateway.observed.telemetry.record_with(tracer);
            tasks.spawn(exporter.run(stop.clone()));
        }
        Err(error) => tracing::warn!(%error, "no traces are sent"),
    }
}
