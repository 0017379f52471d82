//! Who is told of everything that happens to servers, at once and without exception: for numbers that must be right.
//!
//! Events ([`Hub::events`](crate::Hub::events)) are for whoever follows along, and a reader that is slow misses some. They
//! also say nothing of attempts that change no state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::lifecycle::{DialFailure, Reason, StateKind};

/// Something that happened to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It is there from now on, in this state.
    Began(StateKind),
    /// It changed its state.
    Moved {
        /// From.
        from: StateKind,
        /// To.
        to: StateKind,
    },
    /// An attempt to connect and shake hands has ended.
    Attempted(AttemptEnd),
    /// It has a connection, the first or another.
    Connected {
        /// What it runs in was started for this connection.
        process: bool,
        /// Why the one before was lost, and how long ago that is. Nothing if there was none, or if it was given up for
        /// the server to be switched off.
        since_loss: Option<(Reason, Duration)>,
    },
    /// It lost its connection, or that was given up.
    Lost(Reason),
    /// It is gone; this was the state it was in.
    Ended(StateKind),
}

/// How an attempt to connect and shake hands ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptEnd {
    /// With a connection.
    Ok,
    /// Nobody was there: refused, unresolved, timed out, exited during the handshake.
    Unreachable,
    /// Somebody was there, and the handshake failed in a way that may pass.
    Refused,
    /// Trying again will not help.
    Permanent,
    /// It was called off.
    Aborted,
}

/// See [`HubBuilder::witness`](crate::HubBuilder::witness).
#[derive(Clone)]
pub(crate) struct Witness(Arc<dyn Fn(&str) -> Told + Send + Sync>);

/// Is told of one server.
pub(crate) type Told = Box<dyn Fn(Happening) + Send + Sync>;

// === impl AttemptEnd ===

impl AttemptEnd {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Ok, Self::Unreachable, Self::Refused, Self::Permanent, Self::Aborted];

    /// The name used in JSON and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Permanent => "permanent",
            Self::Aborted => "aborted",
        }
    }
}

impl From<DialFailure> for AttemptEnd {
    fn from(failure: DialFailure) -> Self {
        match failure {
            DialFailure::Unreachable | DialFailure::Exited => Self::Unreachable,
            DialFailure::Refused => Self::Refused,
            DialFailure::Permanent(_) => Self::Permanent,
            DialFailure::Aborted => Self::Aborted,
        }
    }
}

// === impl Witness ===

impl Witness {
    pub(crate) fn new<T>(of: impl Fn(&str) -> T + Send + Sync + 'static) -> Self
    where
        T: Fn(Happening) + Send + Sync + 'static,
    {
        Self(Arc::new(move |server| Box::new(of(server))))
    }

    pub(crate) fn of(&self, server: &str) -> Told {
        (self.0)(server)
    }
}

impl Default for Witness {
    fn default() -> Self {
        Self::new(|_| |_| ())
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
