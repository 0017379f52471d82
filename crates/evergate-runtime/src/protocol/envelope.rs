//! What every request of a revision without a handshake says of the one who makes it (2026-07-28).

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ProtocolVersion, RawJson};

pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

type Fields<'a> = IndexMap<String, &'a RawValue>;

/// Who makes requests: said with each of them.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    version: ProtocolVersion,
    capabilities: RawJson,
    client_info: RawJson,
}

/// What one request has besides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes<'a> {
    /// Under which token it wants to hear of progress.
    pub(crate) progress: Option<u64>,
    pub(crate) log_level: Option<&'a str>,
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
    let meta = serde_json::value::to_raw_value(&meta).ok()?;
    fields.insert("_meta".into(), &meta);
    serde_json::to_vec(&fields).ok()
}

// === impl Envelope ===

impl Envelope {
    pub(crate) fn new(version: ProtocolVersion, capabilities: Value, client_info: Value) -> Self {
        Self { version, capabilities: capabilities.into(), client_info: client_info.into() }
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
        let params = self.around(params, wishes)?;
        Ok(super::request(id, method, Some(&params)))
    }

    fn around(
        &self,
        params: Option<&[u8]>,
        wishes: Wishes<'_>,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let raw = |value: &RawJson| RawValue::from_string(value.as_str().to_owned());
        let text = |text: &str| RawValue::from_string(Value::from(text).to_string());
        let (version, capabilities, client_info) =
            (text(self.version.as_str())?, raw(&self.capabilities)?, raw(&self.client_info)?);
        let progress = wishes.progress.map(|token| RawValue::from_string(token.to_string()));
        let progress = progress.transpose()?;
        let log_level = wishes.log_level.map(text).transpose()?;
        let mut fields: Fields<'_> = serde_json::from_slice(params.unwrap_or(b"{}"))?;
        let mut meta: Fields<'_> = match fields.get("_meta") {
            Some(meta) => serde_json::from_str(meta.get())?,
            None => Fields::new(),
        };
        meta.insert(VERSION.into(), &version);
        meta.entry(CAPABILITIES.into()).or_insert(&capabilities);
        meta.entry(CLIENT_INFO.into()).or_insert(&client_info);
        if let Some(level) = &log_level {
            meta.entry(LOG_LEVEL.into()).or_insert(level);
        }
        if let Some(token) = &progress {
            meta.insert("progressToken".into(), token);
        }
        let meta = serde_json::value::to_raw_value(&meta)?;
        fields.insert("_meta".into(), &meta);
        serde_json::to_vec(&fields)
    }
}
