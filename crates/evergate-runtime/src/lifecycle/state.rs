//! The states of a slot, in the operator's words.

use std::num::NonZeroU64;
use std::time::Instant;

use serde::Serialize;

use super::reason::Reason;

/// Which connection of a slot something belongs to. Counts up from 1 and is never reused; everything that crosses
/// a task carries one, so that what an old connection still has to say cannot be taken for the new one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Generation(NonZeroU64);

/// Where a slot is in its life.
///
/// ```text
///                    Enable                dial ok
///        ┌─────────┐ ──────► ┌────────────┐ ──────► ┌───────────┐
///        │Disabled │         │ Connecting │         │ Connected │◄─┐ doubt: a second handshake
///        └─────────┘         └────────────┘         └───────────┘──┘ beside the first decides
///             ▲                    │ dial failed      │      ▲
///             │ all closed         ▼                  │ lost │ dial ok
///       ┌───────────┐        ┌──────────────┐ ◄───────┘      │
///       │ Disabling │        │ Reconnecting │ ───────────────┤
///       └───────────┘        └──────────────┘                │
///             ▲                    │ attempts spent          │
///             │ Disable            ▼                         │
///        (any state)         ┌──────────────┐  slow probe ok │
///                            │ Disconnected │ ───────────────┘
///                            └──────────────┘
///       a permanent failure, from any of the dialling states or Connected:
///                            ┌───────────────────┐
///                            │ PermanentlyFailed │ ── Enable, Restart ──► Connecting
///                            └───────────────────┘
/// ```
///
/// The whole table, every state against every event, is the snapshot
/// `lifecycle/tests/snapshots/…__state_event_table.snap`; the graph drawn from it is in ARCHITECTURE.md.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    /// Switched off. Final until enabled.
    Disabled,
    /// The first connect since it was enabled or restarted is under way.
    Connecting,
    /// One generation is installed and serves calls.
    Connected(Connected),
    /// Lost, and quick attempts are left. Waiting for `until`; without it, dialling or about to as soon as the old
    /// connection of an exclusive transport is closed.
    Reconnecting { until: Option<Instant>, reason: Reason },
    /// Quick attempts are spent; probing slowly, for ever.
    Disconnected { until: Option<Instant>, reason: Reason },
    /// Switched off, but something is still being closed.
    Disabling { then_enable: bool },
    /// Parked: trying again would not help until somebody changes something.
    PermanentlyFailed { reason: Reason },
}

/// The data of [`State::Connected`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Connected {
    pub(crate) generation: Generation,
    /// When it will have been up long enough for backoff to start over; `None` once it has.
    pub(crate) proven_at: Option<Instant>,
    /// A check, beside this generation, whether the server still knows our session.
    pub(crate) doubt: Option<Doubt>,
    pub(crate) reason: Reason,
}

/// How far a check of a doubtful session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The second handshake is under way.
    Dialing,
    /// It succeeded; a caller in doubt is to try its request on this candidate, or it is given up at `until`.
    Testing { candidate: Generation, until: Instant },
}

/// Where a server is in its life: what status, logs, metrics and the API show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateKind {
    /// Switched off.
    Disabled,
    /// First connect under way.
    Connecting,
    /// Serving calls.
    Connected,
    /// Lost; quick attempts under way. Calls wait.
    Reconnecting,
    /// Quick attempts are spent; probing slowly.
    Disconnected,
    /// Being switched off.
    Disabling,
    /// Parked until somebody changes something.
    PermanentlyFailed,
}

// === impl Generation ===

impl Generation {
    /// The first connection of a slot.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// As a number, counted from 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    #[must_use]
    pub(crate) fn next(self) -> Self {
        // 2^64 reconnects of one server take longer than there is time for.
        Self(self.0.saturating_add(1))
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// === impl State ===

impl State {
    pub(crate) fn kind(&self) -> StateKind {
        match self {
            Self::Disabled => StateKind::Disabled,
            Self::Connecting => StateKind::Connecting,
            Self::Connected(_) => StateKind::Connected,
            Self::Reconnecting { .. } => StateKind::Reconnecting,
            Self::Disconnected { .. } => StateKind::Disconnected,
            Self::Disabling { .. } => StateKind::Disabling,
            Self::PermanentlyFailed { .. } => StateKind::PermanentlyFailed,
        }
    }
}

// === impl StateKind ===

impl StateKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Disabled,
        Self::Connecting,
        Self::Connected,
        Self::Reconnecting,
        Self::Disconnected,
        Self::Disabling,
        Self::PermanentlyFailed,
    ];

    /// The name used in JSON, logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Disconnected => "disconnected",
            Self::Disabling => "disabling",
            Self::PermanentlyFailed => "permanently_failed",
        }
    }
}

impl std::fmt::Display for StateKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
