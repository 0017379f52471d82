//! Text that cannot be printed by accident.

use std::fmt;

/// A key or token. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

/// Shorter ones can be guessed: 16 characters of hexadecimal digits are 64 bits.
const SHORTEST: usize = 16;

// === impl Secret ===

impl Secret {
    /// Refuses what is too short to be one, and says so without showing it.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.chars().count() {
            0 => Err("is empty".into()),
            length if length < SHORTEST => Err(format!(
                "has only {length} characters: at least {SHORTEST} are needed, as `openssl rand -hex 32` makes them"
            )),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// The text itself, for comparing and sending; never for showing.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
