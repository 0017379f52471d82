//! The revisions of MCP: those that begin with a handshake, and those in which every request speaks for itself.

use serde::Serialize;

/// A protocol revision, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// 2025-03-26
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// 2025-06-18
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// 2025-11-25
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// 2026-07-28
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// The two families of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Era {
    /// With a handshake.
    Legacy,
    /// Without.
    Modern,
}

// === impl ProtocolVersion ===

impl ProtocolVersion {
    /// What we ask for in a handshake.
    pub const NEWEST_WITH_HANDSHAKE: Self = Self::V2025_11_25;
    /// What we try first without one.
    pub const NEWEST: Self = Self::V2026_07_28;

    const WITH_HANDSHAKE: [Self; 4] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The date that names it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that date, if we speak it after a handshake.
    pub fn from_handshake(date: &str) -> Option<Self> {
        Self::WITH_HANDSHAKE.into_iter().find(|version| version.as_str() == date)
    }

    /// Whether requests speak for themselves, without a handshake and a session.
    pub fn is_modern(self) -> bool {
        self >= Self::V2026_07_28
    }
}

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
