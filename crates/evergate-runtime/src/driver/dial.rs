//! One attempt to connect, from the limiter to the handshake, that can be called off at any point.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Input;
use super::remembered::{Learnt, Remembered};
use crate::connection::{Connection, Inbox, InboxContext, Reporter};
use crate::handlers::Handlers;
use crate::lifecycle::Generation;
use crate::retry::ReconnectLimiter;
use crate::slot::Slot;
use crate::transport::{HttpClient, OpenError, Opening, open};

/// What every dial of a hub needs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Dialing {
    pub(crate) client: HttpClient,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) limiter: ReconnectLimiter,
    pub(crate) answers_follow_calls: bool,
}

// === impl Dialing ===

impl Dialing {
    /// Dials, cleans up after itself if it comes to nothing, and only then reports.
    pub(crate) async fn dial(
        self,
        slot: Arc<Slot>,
        generation: Generation,
        remembered: Remembered,
        reconnect: bool,
        abort: CancellationToken,
    ) {
        let settings = slot.settings.clone();
        let context = InboxContext {
            server: slot.name.clone(),
            handlers: self.handlers.clone(),
            notifications: slot.shared.notifications.clone(),
            garbage: slot.garbage.clone(),
            tasks: slot.shared.tasks.clone(),
        };
        let inbox = Arc::new(Inbox::new(context, generation));
        let reporter = Reporter::new(generation, slot.inputs.clone());
        let mut opening = Opening {
            settings: &settings,
            client: &self.client,
            handlers: &self.handlers,
            stderr: &slot.stderr,
            entrusted: &slot.entrusted,
            tasks: &slot.shared.tasks,
            answers_follow_calls: self.answers_follow_calls,
            inbox: inbox.clone(),
            reporter: reporter.clone(),
            link: None,
            era: remembered.era(Instant::now()),
        };
        let mut began = (SystemTime::now(), Instant::now());
        let attempt = async {
            if reconnect {
                sleep(self.limiter.reserve(Instant::now().into_std())).await;
                began = (SystemTime::now(), Instant::now());
            }
            timeout(settings.connect_timeout, open(&mut opening, remembered.kind())).await
        };
        let result = tokio::select! {
            biased;
            () = abort.cancelled() => Err(OpenError::Aborted),
            result = attempt => {
                result.unwrap_or(Err(OpenError::TimedOut(settings.connect_timeout)))
            }
        };
        let took = began.1.elapsed();
        let result = match result {
            Ok(opened) => {
                let tasks = slot.shared.tasks.clone();
                let connection = Connection::new(opened.link, inbox, opened.peer, reporter, tasks);
                let learnt = Learnt { kind: opened.kind, shown: opened.shown };
                Ok((Arc::new(connection), learnt))
            }
            Err(error) => {
                opening.close(settings.close_timeout).await;
                Err(error)
            }
        };
        // A driver that is gone needs no news; the connection is then dropped, which cuts it off.
        let _ = slot
            .inputs
            .send(Box::new(Input::Dialed { generation, began: began.0, took, result }))
            .await;
    }
}
