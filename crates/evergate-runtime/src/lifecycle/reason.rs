//! Why a slot is in the state it is in. Never a string: the names below are also JSON fields and metric labels.

use serde::Serialize;

/// Why the last transition happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The slot was just configured.
    Configured,
    /// Somebody enabled, disabled or restarted it, or the hub shuts down.
    Requested,
    /// The handshake succeeded.
    HandshakeDone,
    /// The server no longer knows our session.
    SessionLost,
    /// The connection broke, or the server could not be reached.
    TransportLost,
    /// The child process ended with a failure, or before it could be used.
    ProcessExited,
    /// The child process ended by itself without a failure.
    ProcessExitedCleanly,
    /// Too many calls or listings in a row went unanswered.
    Unresponsive,
    /// The server answered the handshake with something that does not help, but may later.
    HandshakeFailed,
    /// The server wants credentials we do not have, or no longer takes ours.
    AuthRequired,
    /// The command does not exist or may not be run.
    CommandNotFound,
    /// The settings cannot work here: the working directory does not exist.
    InvalidConfig,
    /// No revision of the protocol that both sides speak.
    UnsupportedProtocol,
    /// All attempts are used up and the settings say to stop then.
    AttemptsExhausted,
    /// It ended and the restart policy says to leave it.
    NotRestarted,
}

// === impl Reason ===

impl Reason {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Configured,
        Self::Requested,
        Self::HandshakeDone,
        Self::SessionLost,
        Self::TransportLost,
        Self::ProcessExited,
        Self::ProcessExitedCleanly,
        Self::Unresponsive,
        Self::HandshakeFailed,
        Self::AuthRequired,
        Self::CommandNotFound,
        Self::InvalidConfig,
        Self::UnsupportedProtocol,
        Self::AttemptsExhausted,
        Self::NotRestarted,
    ];

    /// The name used in JSON, logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Requested => "requested",
            Self::HandshakeDone => "handshake_done",
            Self::SessionLost => "session_lost",
            Self::TransportLost => "transport_lost",
            Self::ProcessExited => "process_exited",
            Self::ProcessExitedCleanly => "process_exited_cleanly",
            Self::Unresponsive => "unresponsive",
            Self::HandshakeFailed => "handshake_failed",
            Self::AuthRequired => "auth_required",
            Self::CommandNotFound => "command_not_found",
            Self::InvalidConfig => "invalid_config",
            Self::UnsupportedProtocol => "unsupported_protocol",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::NotRestarted => "not_restarted",
        }
    }

    /// What a person can do about it; `None` where nothing needs doing.
    pub fn revival(self) -> Option<&'static str> {
        match self {
            Self::AuthRequired => Some("renew the credentials, then restart or enable the server"),
            Self::CommandNotFound => {
                Some("fix the command or install it, then restart or enable the server")
            }
            Self::InvalidConfig => Some("fix the settings, then restart or enable the server"),
            Self::UnsupportedProtocol => Some("upgrade the server, then restart or enable it"),
            Self::AttemptsExhausted | Self::NotRestarted => Some("restart or enable the server"),
            _ => None,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
