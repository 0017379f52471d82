//! Asking a server what it is, which one that has no handshake may be asked at any time.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Beginning;
use super::peer::Peer;
use crate::connection::call_watch::CallWatch;
use crate::connection::dialect::{Asking, Dialect};
use crate::lifecycle::Loss;
use crate::protocol::{Envelope, ProtocolVersion, RpcError, code, method};
use crate::transport::{Answer, Link, OpenError, Received, SendFailure, Sign, TransportError};

/// What came of asking.
pub(super) enum Discovered {
    /// It has no handshake.
    Peer(Box<Peer>),
    /// It said that it wants one, or what amounts to that. With what is to be said where none is allowed.
    Legacy(OpenError),
    /// What it said has nothing to do with revisions: a handshake may be tried, but nothing is known.
    Unclear(OpenError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Option<Box<RawValue>>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Option<DiscoverMeta>,
}

#[derive(Deserialize)]
struct DiscoverMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<Box<RawValue>>,
}

// === impl Beginning ===

impl Beginning<'_> {
    /// Asks, and once more should the server refuse a revision that it says it speaks.
    pub(super) async fn discover(&self) -> Result<Discovered, OpenError> {
        let envelope = self.envelope();
        let first = match self.ask(&envelope).await {
            Ok(Err(error)) if error.code == code::UNSUPPORTED_VERSION => error,
            answer => return self.read(envelope, answer),
        };
        let spoken = first.supported_revisions().unwrap_or_default();
        if spoken.iter().any(|date| date == envelope.version().as_str()) {
            let again = self.ask(&envelope).await;
            if let Ok(Err(error)) = &again
                && error.code == code::UNSUPPORTED_VERSION
            {
                return Err(OpenError::Refused(error.clone()));
            }
            return self.read(envelope, again);
        }
        if spoken.iter().any(|date| date.as_str() > ProtocolVersion::NEWEST_WITH_HANDSHAKE.as_str())
        {
            return Err(unsupported(&spoken));
        }
        Ok(Discovered::Legacy(unsupported(&spoken)))
    }

    fn envelope(&self) -> Envelope {
        let handlers = self.handlers;
        let version = ProtocolVersion::NEWEST;
        Envelope::new(version, &handlers.capabilities(), &handlers.declared_client_info())
    }

    async fn ask(&self, envelope: &Envelope) -> Result<Answer, SendFailure> {
        let watch = Arc::new(CallWatch::new(self.next_id(), None));
        let dialect = Dialect::Modern(envelope.clone());
        // There are no params that could be unusable.
        let message = dialect.write(&watch, Asking::plain(method::DISCOVER, None));
        let message = message.unwrap_or_default();
        self.link.exchange(self.inbox, message, &watch, &|_| false).await.and_then(Received::whole)
    }

    fn read(
        &self,
        envelope: Envelope,
        answer: Result<Answer, SendFailure>,
    ) -> Result<Discovered, OpenError> {
        let result = match answer {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => return Ok(of_error(error)),
            Err(failure) => return self.unanswered(failure),
        };
        let Ok(fields) = result.parse::<DiscoverResult>() else {
            return Ok(Discovered::Legacy(unsupported(&[])));
        };
        let version = envelope.version();
        if !fields.supported_versions.iter().any(|date| date == version.as_str()) {
            return Ok(Discovered::Legacy(unsupported(&fields.supported_versions)));
        }
        if let Link::Http(link) = self.link {
            link.establish(version);
        }
        let server_info = fields.meta.and_then(|meta| meta.server_info);
        let dialect = Dialect::Modern(envelope);
        let peer =
            Peer::new(version, fields.capabilities, server_info, fields.instructions, dialect)?;
        Ok(Discovered::Peer(Box::new(peer)))
    }

    /// A question without a usable answer.
    fn unanswered(&self, failure: SendFailure) -> Result<Discovered, OpenError> {
        if failure.sign == Sign::Lost(Loss::Auth) {
            return Err(OpenError::AuthRequired { status: 401 });
        }
        let error = self.ended_when_asked(OpenError::Transport(failure.error));
        match &error {
            OpenError::EndedWhenAsked(_)
            | OpenError::Transport(
                TransportError::Connect(_) | TransportError::Closed | TransportError::Slow(_),
            ) => Err(error),
            OpenError::Transport(TransportError::Status { status, .. }) if is_verdict(*status) => {
                Ok(Discovered::Legacy(error))
            }
            _ => Ok(Discovered::Unclear(error)),
        }
    }

    /// What it means that a connection ended under the question: some servers end when the first thing they hear is no
    /// handshake.
    pub(super) fn ended_when_asked(&self, error: OpenError) -> OpenError {
        match (error, self.link) {
            (
                OpenError::Transport(
                    error @ (TransportError::Exited(_)
                    | TransportError::StreamEnded
                    | TransportError::Broken(_)),
                ),
                Link::Lines(_),
            ) => OpenError::EndedWhenAsked(error),
            (error, _) => error,
        }
    }
}

/// Whether a refusal in no more words than its status is about the request itself, not about who asks, when, or where.
fn is_verdict(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 404 | 408 | 429)
}

/// Whatever else it says, it does not say that it knows.
fn of_error(error: RpcError) -> Discovered {
    match error.code {
        code::METHOD_NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS => {
            Discovered::Legacy(unsupported(&[]))
        }
        code::INTERNAL_ERROR => Discovered::Unclear(OpenError::Refused(error)),
        _ => Discovered::Legacy(OpenError::Refused(error)),
    }
}

fn unsupported(spoken: &[String]) -> OpenError {
    let spoken = spoken.join(", ");
    let spoken = if spoken.is_empty() { "none without a handshake" } else { &spoken };
    OpenError::UnsupportedProtocol(spoken.chars().take(80).collect())
}
