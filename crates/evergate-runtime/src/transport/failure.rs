//! How sending and opening fail, and what each failure says about the connection.

use std::io;

use crate::error::SharedError;
use crate::lifecycle::{DialFailure, Loss, Reason};
use crate::protocol::{Malformed, RpcError};
use crate::retry::Outcome;

/// A request that got no answer.
#[derive(Debug)]
pub(crate) struct SendFailure {
    pub(crate) outcome: Outcome,
    pub(crate) error: TransportError,
    pub(crate) sign: Sign,
    /// The JSON-RPC error in the refusal, to be passed on unchanged if the refusal turns out to be an answer.
    pub(crate) answer: Option<RpcError>,
}

/// What a failed request says about the connection it was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Nothing.
    None,
    /// One more strike; several in a row condemn it.
    Strike,
    /// The session may be gone; a second handshake decides.
    Doubtful,
    /// It is of no more use.
    Lost(Loss),
}

/// What went wrong on the wire. Holds no secret: no header values, no session ids, no payloads.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("could not connect")]
    Connect(#[source] SharedError),
    #[error("the connection broke")]
    Broken(#[source] SharedError),
    #[error("the connection is closed")]
    Closed,
    #[error("the stream ended before the answer came")]
    StreamEnded,
    #[error("the server does not know our session (HTTP {status}{detail})")]
    SessionLost { status: u16, detail: String },
    #[error("the server lost our session after it had accepted the request")]
    SessionLostAfterAccept,
    #[error("the server forgot what it had asked for before the call was done")]
    QuestionForgotten,
    #[error("HTTP {status}{detail}")]
    Status { status: u16, detail: String },
    #[error("the server accepted the request and sent no answer (HTTP {status})")]
    NoAnswer { status: u16 },
    #[error("the server answered with {0:?} where JSON or an event stream was expected")]
    ContentType(String),
    #[error("the server sent something unusable")]
    Malformed(#[source] Malformed),
    #[error("the server's answer turned out not to be JSON")]
    NotJson,
    #[error("the server's event ids cannot be sent back to it")]
    UnusableCursor,
    #[error("the server answered another request's id")]
    WrongId,
    #[error("a message larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("no response within {0:?}")]
    Slow(std::time::Duration),
    #[error("the process ended ({0})")]
    Exited(String),
    #[error("the process could not be stopped")]
    NotStopped(#[source] SharedError),
}

/// Why no connection came about.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("could not start the command")]
    Spawn(#[source] SharedError, io::ErrorKind),
    #[error("could not start the guardian of the command's process group")]
    Guardian(#[source] SharedError),
    #[error("the working directory does not exist")]
    NoDirectory,
    #[error("could not connect")]
    Transport(#[from] TransportError),
    #[error("the server ended when it was asked which revision it speaks")]
    EndedWhenAsked(#[source] TransportError),
    #[error("the server refused to begin")]
    Refused(#[source] RpcError),
    #[error("the server answered initialize with something unusable: {0}")]
    BadHandshake(String),
    #[error("the server speaks revision {0:?}, which we do not")]
    UnsupportedProtocol(String),
    #[error("the server wants credentials (HTTP {status})")]
    AuthRequired { status: u16 },
    #[error("no transport fits: {0}")]
    NoTransportFits(String),
    #[error("the event stream names a message address at another host")]
    ForeignEndpoint,
    #[error("no handshake within {0:?}")]
    TimedOut(std::time::Duration),
    #[error("called off")]
    Aborted,
}

// === impl SendFailure ===

impl SendFailure {
    pub(crate) fn new(outcome: Outcome, error: TransportError, sign: Sign) -> Self {
        Self { outcome, error, sign, answer: None }
    }

    /// Whether a new connection may take away what it failed of.
    pub(crate) fn is_renewable(&self) -> bool {
        matches!(self.sign, Sign::Lost(Loss::Session | Loss::Transport))
    }

    /// The connection ended under a request.
    pub(crate) fn broken(sent: bool, error: TransportError) -> Self {
        let outcome = if sent { Outcome::Unknown } else { Outcome::NotSent };
        Self::new(outcome, error, Sign::Lost(Loss::Transport))
    }
}

// === impl OpenError ===

impl OpenError {
    /// What it means for the slot.
    pub(crate) fn dial_failure(&self) -> DialFailure {
        match self {
            Self::Spawn(_, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                DialFailure::Permanent(Reason::CommandNotFound)
            }
            Self::AuthRequired { .. } => DialFailure::Permanent(Reason::AuthRequired),
            Self::UnsupportedProtocol(_) => DialFailure::Permanent(Reason::UnsupportedProtocol),
            Self::Aborted => DialFailure::Aborted,
            Self::NoDirectory => DialFailure::Permanent(Reason::InvalidConfig),
            Self::Spawn(..) | Self::Guardian(_) | Self::TimedOut(_) => DialFailure::Unreachable,
            Self::Transport(error) | Self::EndedWhenAsked(error) => match error {
                TransportError::Connect(_)
                | TransportError::Broken(_)
                | TransportError::Closed
                | TransportError::StreamEnded
                | TransportError::Slow(_) => DialFailure::Unreachable,
                TransportError::Exited(_) => DialFailure::Exited,
                _ => DialFailure::Refused,
            },
            Self::Refused(_)
            | Self::BadHandshake(_)
            | Self::NoTransportFits(_)
            | Self::ForeignEndpoint => DialFailure::Refused,
        }
    }
}
