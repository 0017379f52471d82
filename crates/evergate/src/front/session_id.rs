//! Session ids that carry their session.
//!
//! An id is what was agreed at `initialize`, as JSON, [sealed](crate::sealed). A gateway that was restarted, or a replica
//! with the same key, makes the session anew from the id alone, so that clients notice neither. That a session has not
//! ended or expired is left to the session table: an id only proves that it is ours.

mod reduce;
#[cfg(test)]
mod tests;

use std::fmt;

use evergate_runtime::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use self::reduce::smaller;
use crate::random;
use crate::sealed::{self, SealingKey};

/// What an id says about its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFacts {
    /// Tells sessions apart.
    pub(crate) uid: [u8; 16],
    /// When it began, in seconds of Unix time.
    pub(crate) created: u64,
    /// Whose it is: the name of an API key.
    pub(crate) caller: Option<String>,
    /// The one server it is about; `None` for all.
    pub(crate) scope: Option<String>,
    /// The protocol revision that was agreed on.
    pub(crate) version: String,
    /// What the client said it can do.
    pub(crate) capabilities: RawJson,
    /// Who the client said it is.
    pub(crate) client_info: RawJson,
}

/// The keys of session ids: the first seals, all open.
pub(crate) struct SessionKeys {
    /// Never empty.
    keys: Vec<SealingKey>,
}

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadKey {
    /// There must be one to seal with.
    #[error("no session key was given")]
    None,
    /// Counted from one.
    #[error("session key {position} has less than {MIN_KEY_CHARS} characters")]
    TooShort {
        /// Which one.
        position: usize,
    },
    /// The cipher refused it.
    #[error("session key {position} cannot be used")]
    Unusable {
        /// Which one.
        position: usize,
    },
}

/// No id could be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CannotSeal {
    /// Even without what can be left out.
    #[error("the session does not fit into an id: the names of its caller and server are too long")]
    TooLarge,
    /// The cipher failed.
    #[error("the session id could not be encrypted")]
    Cipher,
}

/// The facts as they are written. Short keys, because the id goes with every request.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    /// As a number: half as long as a list of bytes.
    #[serde(rename = "u")]
    uid: u128,
    #[serde(rename = "t")]
    created: u64,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none", default)]
    caller: Option<String>,
    #[serde(rename = "s", skip_serializing_if = "Option::is_none", default)]
    scope: Option<String>,
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "k", borrow)]
    capabilities: &'a RawValue,
    #[serde(rename = "i", borrow)]
    client_info: &'a RawValue,
}

/// Counts changes of the layout.
const FORMAT: u8 = 1;
/// Shorter ones can be guessed.
const MIN_KEY_CHARS: usize = 16;
/// Servers and proxies commonly accept header lines of 8 KiB in all; this leaves room for the others.
const MAX_ID_CHARS: usize = 2048;
/// What fits into an id after base64.
const MAX_TEXT_BYTES: usize = MAX_ID_CHARS / 4 * 3 - sealed::OVERHEAD;
/// Keeps keys for ids apart from other uses of the same text.
const KEY_DOMAIN: &[u8] = b"evergate session id, format 1\0";

// === impl SessionKeys ===

impl SessionKeys {
    /// Keys from texts of at least 16 characters; white space around them does not count.
    pub(crate) fn new(texts: &[impl AsRef<str>]) -> Result<Self, BadKey> {
        if texts.is_empty() {
            return Err(BadKey::None);
        }
        let key = |(index, text): (usize, &_)| {
            let text = AsRef::<str>::as_ref(text).trim();
            let position = index + 1;
            if text.chars().count() < MIN_KEY_CHARS {
                return Err(BadKey::TooShort { position });
            }
            let bytes = Sha256::new().chain_update(KEY_DOMAIN).chain_update(text).finalize();
            SealingKey::new(&bytes.into()).ok_or(BadKey::Unusable { position })
        };
        Ok(Self { keys: texts.iter().enumerate().map(key).collect::<Result<_, _>>()? })
    }

    /// The id of a session: visible ASCII, at most 2048 characters. Capabilities and client info that do not fit are
    /// reduced, so that what [`Self::open`] gives back may know less than `facts`.
    pub(crate) fn seal(&self, facts: &SessionFacts) -> Result<String, CannotSeal> {
        let text = smaller(facts, MAX_TEXT_BYTES).ok_or(CannotSeal::TooLarge)?;
        let key = self.keys.first().ok_or(CannotSeal::Cipher)?;
        key.seal(FORMAT, text).ok_or(CannotSeal::Cipher)
    }

    /// What an id says, or `None` if it is not one of ours.
    pub(crate) fn open(&self, id: &str) -> Option<SessionFacts> {
        if id.len() > MAX_ID_CHARS {
            return None;
        }
        let text = self.keys.iter().find_map(|key| key.open(FORMAT, id))?;
        SessionFacts::read(&text)
    }
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKeys({})", self.keys.len())
    }
}

// === impl SessionFacts ===

impl SessionFacts {
    /// A uid that no other session has.
    pub(crate) fn new_uid() -> [u8; 16] {
        // A system without randomness could not seal an id either: that is where it is reported.
        random::bytes().unwrap_or_default()
    }

    fn read(text: &[u8]) -> Option<Self> {
        let written: Written<'_> = serde_json::from_slice(text).ok()?;
        Some(Self {
            uid: written.uid.to_be_bytes(),
            created: written.created,
            caller: written.caller,
            scope: written.scope,
            version: written.version,
            capabilities: RawJson::from_value(written.capabilities).ok()?,
            client_info: RawJson::from_value(written.client_info).ok()?,
        })
    }

    /// The text to seal, with these instead of its own capabilities and client info.
    fn write(&self, capabilities: &RawJson, client_info: &RawJson) -> Option<Vec<u8>> {
        let written = Written {
            uid: u128::from_be_bytes(self.uid),
            created: self.created,
            caller: self.caller.clone(),
            scope: self.scope.clone(),
            version: self.version.clone(),
            capabilities: serde_json::from_slice(capabilities.as_bytes()).ok()?,
            client_info: serde_json::from_slice(client_info.as_bytes()).ok()?,
        };
        serde_json::to_vec(&written).ok()
    }
}
