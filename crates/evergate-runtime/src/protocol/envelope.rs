//! What every request of a revision without a handshake says of the one who makes it (2026-07-28).

use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ProtocolVersion, RawJson, object_fields};

pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

type Fields<'a> = IndexMap<String, &'a RawValue>;

/// Who makes requests: said with each of them.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    version: ProtocolVersion,
    /// The fields of `_meta` that say it, each as JSON; the revision first.
    fields: Arc<[(&'static str, Box<RawValue>)]>,
}

/// What one request has besides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes<'a> {
    /// Under which token it wants to hear of progress.
    pub(crate) progress: Option<u64>,
    pub(crate) log_level: Option<&'a str>,
    /// What its caller can do, if that is not what the connection's can.
    pub(crate) capabilities: Option<&'a RawJson>,
}

/// Params without what only requests of later revisions say, for a server of an earlier one. `None` if they say nothing
/// of that.
pub(crate) fn without_envelope(params: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(params, b"io.modelcontextprotocol")?;
    let mut fields: Fields<'_> = serde_json::from_slice(params).ok()?;
    let mut meta: Fields<'_> = serde_json::from_str(fields.get("_meta")?.get()).ok()?;
    let before = meta.len();
    let later = [VERSION, CAPABILITIES, CLIENT_INFO, LOG_LEVEL];
    meta.retain(|name, _| !later.contains(&name.as_str()));
    if meta.len() == before {
        return None;
    }
    // Answers to questions that such a server asks in another way.
    fields.retain(|name, _| !["inputResponses", "requestState"].contains(&name.as_str()));
    let meta = serde_json::value::to_raw_value(&meta).ok().filter(|_| !meta.is_empty());
    match &meta {
        Some(meta) => drop(fields.insert("_meta".into(), meta)),
        None => drop(fields.shift_remove("_meta")),
    }
    serde_json::to_vec(&fields).ok()
}

// === impl Envelope ===

impl Envelope {
    pub(crate) fn new(version: ProtocolVersion, capabilities: &Value, client_info: &Value) -> Self {
        let raw = |value: &Value| serde_json::value::to_raw_value(value).unwrap_or_default();
        let fields = [
            (VERSION, raw(&version.as_str().into())),
            (CAPABILITIES, raw(capabilities)),
            (CLIENT_INFO, raw(client_info)),
        ];
        Self { version, fields: fields.into() }
    }

    pub(crate) fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// A whole request. What the caller says of itself stays; the revision is the connection's.
    pub(crate) fn request(
        &self,
        id: u64,
        method: &str,
        params: Option<&[u8]>,
        wishes: Wishes<'_>,
    ) -> Result<Bytes, serde_json::Error> {
        let params = std::str::from_utf8(params.unwrap_or(b"{}")).unwrap_or_default();
        let params = self.around(params, wishes)?;
        Ok(super::request(id, method, Some(&params)))
    }

    fn around(&self, params: &str, wishes: Wishes<'_>) -> Result<Vec<u8>, serde_json::Error> {
        let mut theirs = None;
        let mut is_empty = true;
        let found = object_fields(params, |name, place| {
            is_empty = false;
            if name == "_meta" {
                theirs = Some(place);
            }
        });
        if found.is_none() {
            // Written in an unusual way: read and written anew.
            let mut fields: Fields<'_> = serde_json::from_str(params)?;
            let meta = self.meta(fields.get("_meta").map(|meta| meta.get()), wishes)?;
            fields.insert("_meta".into(), &meta);
            return serde_json::to_vec(&fields);
        }
        let meta = self.meta(theirs.clone().map(|place| &params[place]), wishes)?;
        let mut text = Vec::with_capacity(params.len() + meta.get().len() + 16);
        if let Some(place) = theirs {
            text.extend_from_slice(&params.as_bytes()[..place.start]);
            text.extend_from_slice(meta.get().as_bytes());
            text.extend_from_slice(&params.as_bytes()[place.end..]);
        } else {
            // Before the closing brace of the object, which is all there is but for white space.
            let end = params.trim_ascii_end().len() - 1;
            text.extend_from_slice(&params.as_bytes()[..end]);
            text.extend_from_slice(if is_empty { b"\"_meta\":" } else { b",\"_meta\":" });
            text.extend_from_slice(meta.get().as_bytes());
            text.push(b'}');
        }
        Ok(text)
    }

    fn meta(
        &self,
        theirs: Option<&str>,
        wishes: Wishes<'_>,
    ) -> Result<Box<RawValue>, serde_json::Error> {
        let text = |text: &str| RawValue::from_string(Value::from(text).to_string());
        let progress = wishes.progress.map(|token| RawValue::from_string(token.to_string()));
        let (progress, level) = (progress.transpose()?, wishes.log_level.map(text).transpose()?);
        let mut meta: Fields<'_> =
            theirs.map_or_else(|| Ok(Fields::new()), serde_json::from_str)?;
        let own =
            wishes.capabilities.map(|own| serde_json::from_slice::<&RawValue>(own.as_bytes()));
        if let Some(own) = own.transpose()? {
            meta.entry(CAPABILITIES.into()).or_insert(own);
        }
        for (name, value) in &*self.fields {
            if *name == VERSION || !meta.contains_key(*name) {
                meta.insert((*name).into(), value);
            }
        }
        if let Some(level) = &level {
            meta.entry(LOG_LEVEL.into()).or_insert(level);
        }
        if let Some(token) = &progress {
            meta.insert("progressToken".into(), token);
        }
        serde_json::value::to_raw_value(&meta)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn params_stay_as_they_are_around_what_is_said_of_the_caller() {
        let version = ProtocolVersion::NEWEST;
        let envelope = Envelope::new(version, &json!({}), &json!({ "name": "x" }));
        let ours = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x"}"#;
        for (params, expected) in [
            ("{}", format!(r#"{{"_meta":{{{ours}}}}}"#)),
            (r#"{ "n": 1.0 } "#, format!(r#"{{ "n": 1.0 ,"_meta":{{{ours}}}}}"#)),
            (
                r#"{"_meta" : {"a": 1e2}, "b":[ ]}"#,
                format!(r#"{{"_meta" : {{"a":1e2,{ours}}}, "b":[ ]}}"#),
            ),
            (r#"{"\u005fmeta":{"a":1},"b":2}"#, format!(r#"{{"_meta":{{"a":1,{ours}}},"b":2}}"#)),
        ] {
            let text = envelope.around(params, Wishes::default()).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected, "{params}");
        }
        assert!(envelope.around("[1]", Wishes::default()).is_err());
        assert!(envelope.around(r#"{"_meta":1}"#, Wishes::default()).is_err());
    }
}
