//! One request to hear of changes, from its beginning to its end.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::connection::{Acknowledgement, Asking, Connection, Honoured};
use crate::lifecycle::Loss;
use crate::protocol::{RpcError, code, method};
use crate::transport::{Answer, SendFailure, Sign, TransportError};

/// One that lasted this long was worth coming back to.
const LASTED: Duration = Duration::from_secs(5);

/// A request that is under way.
pub(super) struct Listen {
    pub(super) ending: Pin<Box<dyn Future<Output = Ended> + Send>>,
    pub(super) acknowledgement: Acknowledgement,
    pub(super) resources: HashSet<String>,
    pub(super) taken_up: Option<(Instant, Honoured)>,
}

pub(super) type Ended = Result<Answer, SendFailure>;

/// What a request came to in the end.
pub(super) enum End {
    /// Worth another try after a while.
    Soon,
    /// It lasted, and is worth another try.
    Later,
    /// There is nothing to hear, unless something else is asked for.
    Idle,
    /// There is nothing to hear from this server.
    Deaf,
    /// The server does not take up such a request.
    Refused(RpcError),
    /// The connection is of no more use.
    Lost(Loss, TransportError),
}

// === impl Listen ===

impl Listen {
    pub(super) fn begin(
        connection: &Arc<Connection>,
        mut filter: Map<String, Value>,
        resources: HashSet<String>,
    ) -> Option<Self> {
        if !resources.is_empty() {
            let mut uris: Vec<_> = resources.iter().cloned().collect();
            uris.sort_unstable();
            filter.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        let watch = connection.watch(None);
        let params = format!("{{\"notifications\":{}}}", Value::Object(filter));
        let asking = Asking::plain(method::LISTEN, Some(params.as_bytes()));
        // What we write ourselves are valid params.
        let message = connection.write(&watch, asking).ok()?;
        let acknowledgement = connection.inbox().expect_acknowledgement(watch.id());
        let connection = connection.clone();
        let ending = Box::pin(async move { connection.ask(message, &watch).await });
        Some(Self { ending, acknowledgement, resources, taken_up: None })
    }

    pub(super) fn look_for_word(&mut self) {
        if self.taken_up.is_none() {
            let word = self.acknowledgement.said_already();
            self.taken_up = word.map(|honoured| (Instant::now(), honoured));
        }
    }

    pub(super) fn end(&self, ended: Ended) -> End {
        match (ended, self.taken_up) {
            (Err(SendFailure { sign: Sign::Lost(loss), error, .. }), _) => End::Lost(loss, error),
            (Ok(Err(error)), _) if error.code == code::METHOD_NOT_FOUND => End::Deaf,
            (Ok(Err(error)) | Err(SendFailure { answer: Some(error), .. }), None) => {
                End::Refused(error)
            }
            (Ok(Ok(_)), Some((_, Honoured::Nothing))) => End::Idle,
            (_, Some((since, _))) if since.elapsed() >= LASTED => End::Later,
            _ => End::Soon,
        }
    }
}
