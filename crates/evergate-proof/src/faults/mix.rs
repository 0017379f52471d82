//! Which revisions the client and the server of a cell speak.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::product::{Product, Transport};

/// The eras of both sides. *Legacy* revisions, up to 2025-11-25, have a handshake; *modern*, 2026-07-28, has none.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Both have a handshake: what every product knows.
    #[default]
    LegacyLegacy,
    /// The client has a handshake, the server has none.
    LegacyModern,
    /// The server has a handshake, the client has none.
    ModernLegacy,
    /// Neither has one.
    ModernModern,
}

// === impl Mix ===

impl Mix {
    /// Every mix, in the order of the table.
    pub const ALL: &[Self] =
        &[Self::LegacyLegacy, Self::LegacyModern, Self::ModernLegacy, Self::ModernModern];

    /// Those that are played with a product. The others are measured with what all of them know.
    pub fn of(product: Product) -> &'static [Self] {
        match product {
            Product::Evergate => Self::ALL,
            _ => &[Self::LegacyLegacy],
        }
    }

    /// As on the command line: first the client, then the server.
    pub fn name(self) -> &'static str {
        match self {
            Self::LegacyLegacy => "legacy-legacy",
            Self::LegacyModern => "legacy-modern",
            Self::ModernLegacy => "modern-legacy",
            Self::ModernModern => "modern-modern",
        }
    }

    /// For the head of a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::LegacyLegacy => "legacy client, legacy server",
            Self::LegacyModern => "legacy client, modern server",
            Self::ModernLegacy => "modern client, legacy server",
            Self::ModernModern => "modern client, modern server",
        }
    }

    /// Whether the client speaks 2026-07-28.
    pub fn has_modern_client(self) -> bool {
        matches!(self, Self::ModernLegacy | Self::ModernModern)
    }

    /// Whether the server speaks 2026-07-28.
    pub fn has_modern_server(self) -> bool {
        matches!(self, Self::LegacyModern | Self::ModernModern)
    }

    /// Why a server that is reached this way cannot be of this era, if it cannot.
    pub fn rules_out(self, transport: Transport) -> Option<&'static str> {
        (self.has_modern_server() && transport == Transport::Sse)
            .then_some("the transport of 2024-11-05 has no revision without a handshake")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line_and_of_the_file() {
        for mix in Mix::ALL {
            let name = mix.name();
            assert_eq!(Mix::from_str(name, false).as_ref(), Ok(mix));
            assert_eq!(serde_json::to_value(mix).unwrap(), name);
        }
        assert_eq!(Mix::ALL.len(), Mix::value_variants().len());
    }
}
