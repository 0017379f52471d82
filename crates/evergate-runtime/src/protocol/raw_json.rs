//! JSON text that is passed on, not understood.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// One valid JSON value as the sender wrote it: unknown fields, key order and big integers included. A cheap clone
/// that shares the bytes it was read from.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

// === impl RawJson ===

impl RawJson {
    /// The JSON text of any serializable value.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(text.into()))
    }

    /// Takes over JSON text after checking that it is one valid value.
    pub fn from_text(text: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        let value: &RawValue = serde_json::from_slice(&text)?;
        Ok(Self::part_of(&text, value))
    }

    /// Takes over text that is known to be one valid value without white space around it.
    pub fn from_valid(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        debug_assert!(serde_json::from_slice::<&RawValue>(&text).is_ok());
        Self(text)
    }

    /// The bytes of `value`, which was borrowed from `whole`: shared, not copied. Panics if it was not.
    pub fn part_of(whole: &Bytes, value: &RawValue) -> Self {
        Self(whole.slice_ref(value.get().as_bytes()))
    }

    /// The same with another value in place of `part`, which was borrowed from it. Panics if it was not.
    #[must_use]
    pub fn with_part(&self, part: &RawValue, replacement: &Self) -> Self {
        let part = self.0.slice_ref(part.get().as_bytes());
        let start = part.as_ptr() as usize - self.0.as_ptr() as usize;
        let mut text = Vec::with_capacity(self.0.len() + replacement.0.len());
        text.extend_from_slice(&self.0[..start]);
        text.extend_from_slice(&replacement.0);
        text.extend_from_slice(&self.0[start + part.len()..]);
        Self(text.into())
    }

    /// `{}`
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, shared.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The text as a string. Checks its encoding anew, so prefer [`Self::as_bytes`] for large payloads.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Reads it as a typed value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl std::fmt::Debug for RawJson {
    /// Payloads may hold secrets and may be huge: only the size is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue =
            serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}
