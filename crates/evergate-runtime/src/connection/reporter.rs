//! How a connection tells its driver what it noticed. Every report carries the generation.

use tokio::sync::{mpsc, oneshot};

use crate::driver::Input;
use crate::error::SharedError;
use crate::lifecycle::{Budget, Event, Generation, Loss};
use crate::transport::TransportError;

/// Speaks for one generation. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    generation: Generation,
    inputs: mpsc::Sender<Box<Input>>,
}

// === impl Reporter ===

impl Reporter {
    pub(crate) fn new(generation: Generation, inputs: mpsc::Sender<Box<Input>>) -> Self {
        Self { generation, inputs }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) async fn lost(&self, loss: Loss, error: TransportError) {
        let generation = self.generation;
        self.send(Event::Lost { generation, loss }, Some(SharedError::new(error))).await;
    }

    /// Returns when the driver has taken it into account and published what it does about it.
    pub(crate) async fn doubted(&self) {
        let (heard, hearing) = oneshot::channel();
        let event = Event::Doubted { generation: self.generation };
        if self.inputs.send(Box::new(Input::Asked { event, heard })).await.is_ok() {
            // A driver that is gone needs no news.
            let _ = hearing.await;
        }
    }

    pub(crate) async fn verdict(&self, lost: bool) {
        self.send(Event::Verdict { candidate: self.generation, lost }, None).await;
    }

    /// A call or listing was answered, or failed with this error.
    pub(crate) async fn health(&self, budget: Budget, error: Option<SharedError>) {
        let ok = error.is_none();
        self.send(Event::Health { generation: self.generation, budget, ok }, error).await;
    }

    async fn send(&self, event: Event, error: Option<SharedError>) {
        // The driver never waits for anything but its inputs, so this is short; a driver that is gone needs no news.
        let _ = self.inputs.send(Box::new(Input::Event { event, error })).await;
    }
}
