//! What happens in a gateway, as it happens.

use std::time::Duration;

use evergate_runtime::wire::{EventDecoder, ServerEvent};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::ClientError;

/// An event stream. Ends when the gateway ends it, or says nothing for too long.
#[derive(Debug)]
pub(crate) struct EventStream {
    body: Incoming,
    decoder: EventDecoder,
    url: String,
}

/// The gateway says something every 15 seconds, if only a comment; twice missed may be a pause, three times is the end.
const SILENCE: Duration = Duration::from_secs(50);
/// The longest event names every server of a configuration.
const LARGEST_EVENT: usize = 4 << 20;

// === impl EventStream ===

impl EventStream {
    pub(super) fn new(body: Incoming, url: String) -> Self {
        Self { body, decoder: EventDecoder::new(LARGEST_EVENT), url }
    }

    /// The next event; `None` when the gateway ended the stream. Nothing is lost if this is dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        loop {
            let broken = |source| ClientError::Broken { url: self.url.clone(), source };
            match self.decoder.next_event() {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(error) => return Err(broken(Box::new(error))),
            }
            let frame = timeout(SILENCE, self.body.frame()).await.map_err(|_| {
                ClientError::Silent { url: self.url.clone(), seconds: SILENCE.as_secs() }
            })?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken(Box::new(error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
            }
        }
    }
}
