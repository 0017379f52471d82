//! Where messages for a client go.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::event_log::EventLog;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum Outlet {
    /// A stream over HTTP that can be resumed.
    Log(Arc<EventLog>),
    /// One ordered stream for everything: standard output, or the stream of an HTTP+SSE client.
    Pipe(mpsc::Sender<Bytes>),
    /// Of whoever hears nothing but answers.
    Nowhere,
}

// === impl Outlet ===

impl Outlet {
    /// Never waits. `false` if the client is so far behind that there is no room, or gone.
    pub(crate) fn offer(&self, message: Bytes) -> bool {
        match self {
            Self::Log(log) => log.push(message),
            Self::Pipe(pipe) => pipe.try_send(message).is_ok(),
            Self::Nowhere => false,
        }
    }
}
