//! What can happen to a slot, and what the slot wants done about it.

use super::reason::Reason;
use super::state::Generation;

/// Everything the lifecycle reacts to. What comes from a connection names its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Command: be connected. Revives a parked slot.
    Enable,
    /// Command: be off. Wins over everything in progress.
    Disable,
    /// Command: drop what there is and connect afresh.
    Restart,
    /// A call wants this server now; pulls the next attempt forward.
    Demand,
    /// Time passed [`super::Lifecycle::deadline`].
    Tick,
    /// A dial ended with a handshaken connection.
    DialSucceeded { generation: Generation },
    /// A dial ended without one.
    DialFailed { generation: Generation, failure: DialFailure },
    /// The connection is of no more use.
    Lost { generation: Generation, loss: Loss },
    /// A sign of session loss that other answers share; a second handshake should decide.
    Doubted { generation: Generation },
    /// The caller that tried its request on the candidate says whether the session really was lost.
    Verdict { candidate: Generation, lost: bool },
    /// A close that was ordered has ended, well or not.
    Closed { generation: Generation },
    /// A call or listing was answered, or was not.
    Health { generation: Generation, budget: Budget, ok: bool },
}

/// Why a dial ended without a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialFailure {
    /// Nobody there: refused, unresolved, timed out.
    Unreachable,
    /// The child process ended before it had said who it is.
    Exited,
    /// Somebody there, but the handshake failed in a way that may pass.
    Refused,
    /// Trying again will not help.
    Permanent(Reason),
    /// We called it off.
    Aborted,
}

/// How a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server is there but forgot our session.
    Session,
    /// The transport broke.
    Transport,
    /// The child process ended.
    Exited { clean: bool },
    /// The server no longer takes our credentials.
    Auth,
}

/// The two ways a connection proves or loses its worth; they never clear each other, because a server that answers
/// calls may still fail to list its tools, and the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Listing tools, prompts, resources.
    Discovery,
    /// Everything else.
    Rpc,
}

/// What the driver must do next. Every `Dial` is matched by the end of that dial or by a `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Open a connection and shake hands.
    Dial { generation: Generation },
    /// Call that off; the end is reported as `DialFailed(Aborted)`, or as a success that lost the race.
    AbortDial { generation: Generation },
    /// Hand the candidate to the callers in doubt.
    Offer { generation: Generation },
    /// Make this the connection that serves calls.
    Install { generation: Generation },
    /// Close a connection that is no longer installed.
    Close { generation: Generation, manner: Manner },
    /// The catalog of this slot is no longer true of anything.
    DropCatalog,
}

/// What happens to the calls still running on a connection that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// They finish first.
    Drain,
    /// They end now.
    Now,
}

// === impl DialFailure ===

impl DialFailure {
    /// Why trying again will not help, if it will not.
    pub(crate) fn reason(self) -> Option<Reason> {
        if let Self::Permanent(reason) = self { Some(reason) } else { None }
    }
}

// === impl Event ===

impl Event {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Restart => "restart",
            Self::Demand => "demand",
            Self::Tick => "tick",
            Self::DialSucceeded { .. } => "dial_succeeded",
            Self::DialFailed { .. } => "dial_failed",
            Self::Lost { .. } => "lost",
            Self::Doubted { .. } => "doubted",
            Self::Verdict { .. } => "verdict",
            Self::Closed { .. } => "closed",
            Self::Health { .. } => "health",
        }
    }
}
