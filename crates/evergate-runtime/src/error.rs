//! How a call fails. Three questions are answered by every error: what happened to the request, may it be retried,
//! and why.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use crate::entrusted::Entrusted;
use crate::lifecycle::{Generation, Reason, StateKind};
use crate::protocol::RpcError;
use crate::retry::Outcome;
use crate::transport::TransportError;

/// A call that ended without a result.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{server}: {source} [{outcome}]")]
#[non_exhaustive]
pub struct CallError {
    /// The server that was called.
    pub server: Arc<str>,
    /// What happened to the request.
    pub outcome: Outcome,
    /// The connection that held it last, if any did.
    pub generation: Option<Generation>,
    /// Whether the same call may well succeed later and cannot have been executed by this one.
    pub retryable: bool,
    /// Why.
    pub source: CallFailure,
    pub(crate) entrusted: Entrusted,
}

/// Why a call ended without a result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallFailure {
    /// The server answered with an error of its own.
    #[error("the server answered with an error")]
    Rpc(#[source] RpcError),
    /// The server did not come back in time.
    #[error("{state} ({reason}), and no connection came within {waited:?}")]
    NotConnected {
        /// The state it was in when the wait ended.
        state: StateKind,
        /// Why it is in that state.
        reason: Reason,
        /// How long the call waited.
        waited: Duration,
        /// When the next attempt to connect is due, counted from now.
        next_retry: Option<Duration>,
        /// The newest failure to connect.
        #[source]
        last_error: Option<SharedError>,
    },
    /// The server is switched off.
    #[error("the server is disabled")]
    Disabled,
    /// The server was removed, or replaced by another of the same name, which may take the call.
    #[error("the server was removed or replaced")]
    Removed,
    /// The server is parked until somebody changes something.
    #[error("the server has failed permanently ({reason})")]
    PermanentlyFailed {
        /// Why it was parked.
        reason: Reason,
        /// The failure that led to it.
        #[source]
        last_error: Option<SharedError>,
    },
    /// Too many calls wait for this server already.
    #[error("{limit} calls wait for this server already")]
    TooManyHeld {
        /// The limit.
        limit: usize,
    },
    /// The server is connected, and busy with as many calls as `max_in_flight` allows: this one's turn did not come in
    /// time.
    #[error(
        "the server is given at most {limit} call(s) at once, and this one's turn did not come"
    )]
    TooBusy {
        /// The limit.
        limit: usize,
    },
    /// The server limits our rate, and is left alone for a while; see [`Settings::rate_limit`](crate::Settings::rate_limit).
    #[error(
        "rate limited: the server refused too many calls, and gets none for another {retry_in:.1?}"
    )]
    RateLimited {
        /// When a call may get through again, counted from now.
        retry_in: Duration,
    },
    /// The call's own time ran out.
    #[error("no answer within {after:?}")]
    TimedOut {
        /// How long it was given.
        after: Duration,
    },
    /// The caller gave up.
    #[error("cancelled by the caller")]
    Cancelled,
    /// The transport failed.
    #[error("the connection failed")]
    Transport(#[source] SharedError),
    /// The answer came and is larger than `max_message_bytes` allows.
    #[error("a message larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The server lost our session, and renewing it did not help; the session's loss comes first.
    #[error("the session was lost and could not be renewed: {renewal}")]
    NotRenewed {
        /// What the renewal died of.
        renewal: SharedError,
        /// What the server said first.
        #[source]
        original: SharedError,
    },
    /// The params are not a JSON object, so no progress token can be put into them.
    #[error("the params must be a JSON object")]
    InvalidParams,
    /// The hub is shutting down.
    #[error("the hub is shutting down")]
    ShuttingDown,
}

/// An error that several callers get.
#[derive(Debug, Clone)]
pub struct SharedError(Arc<dyn StdError + Send + Sync>);

/// No server of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no server is called {0:?}")]
pub struct UnknownServer(pub String);

// === impl CallFailure ===

impl CallFailure {
    pub(crate) fn of_transport(error: TransportError) -> Self {
        match error {
            TransportError::TooLarge { limit } => Self::TooLarge { limit },
            error => Self::Transport(SharedError::new(error)),
        }
    }
}

// === impl CallError ===

impl CallError {
    /// The error with everything that caused it, for logs: each message once, and without what the server was trusted with,
    /// should it repeat that.
    pub fn chain(&self) -> String {
        self.entrusted.hide(&chain(self))
    }
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // `CallError` shows its source in its own line; nothing is said twice.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

// === impl SharedError ===

impl SharedError {
    pub(crate) fn new(error: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl From<Box<dyn StdError + Send + Sync>> for SharedError {
    fn from(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self(error.into())
    }
}

impl std::fmt::Display for SharedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for SharedError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
