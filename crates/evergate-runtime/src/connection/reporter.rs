//! How a connection tells its driver what it noticed. Every report carries the generation.

use tokio::sync::mpsc;

use crate::driver::Input;
use crate::error::SharedError;
use crate::lifecycle::{Budget, Event, Generation, Loss};
use crate::transport::TransportError;

/// Speaks for one generation. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    generation: Generation,
    inputs: mpsc::Sender<Input>,
}

// === impl Reporter ===

impl Reporter {
    pub(crate) fn new(generation: Generation, inputs: mpsc::Sender<Input>) -> Self {
        Self { generation, inputs }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) async fn lost(&self, loss: Loss, error: TransportError) {
        let generation = self.generation;
        self.send(Event::Lost { generation, loss }, Some(SharedError::new(error))).await;
    }

    pub(crate) async fn doubted(&self) {
        self.send(Event::Doubted { generation: self.generation }, None).await;
    }

    pub(crate) async fn verdict(&self, lost: bool) {
        self.send(Event::Verdict { candidate: self.generation, lost }, None).await;
    }

    pub(crate) async fn health(&self, budget: Budget, ok: bool) {
        self.send(Event::Health { generation: self.generation, budget, ok }, None).await;
    }

    async fn send(&self, event: Event, error: Option<SharedError>) {
        // The driver never waits for anything but its inputs, so this is short; a driver that is gone needs no news.
        let _ = self.inputs.send(Input::Event { event, error }).await;
    }
}
