//! What a request says of the one who makes it.

use evergate_runtime::RawJson;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::gateway::log_level::Level;

/// As it came, checked for its form; whether the revision is served here is for others to say.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) version: String,
    pub(crate) capabilities: Value,
    /// Who the client says it is.
    pub(crate) client_info: Option<RawJson>,
    /// From which level on the client wants to hear what servers log about this request.
    pub(crate) level: Option<Level>,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadEnvelope {
    #[error(
        "params._meta must be an object with io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities"
    )]
    NoMeta,
    #[error("params._meta needs io.modelcontextprotocol/protocolVersion, a string")]
    Version,
    #[error("params._meta needs io.modelcontextprotocol/clientCapabilities, an object")]
    Capabilities,
    #[error("io.modelcontextprotocol/clientInfo must be an object with a name and a version")]
    ClientInfo,
    #[error(
        "io.modelcontextprotocol/logLevel must be debug, info, notice, warning, error, critical, alert or emergency"
    )]
    Level,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: &'a RawValue,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientInfo")]
    client_info: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    level: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only that they are there")]
struct Implementation {
    name: String,
    version: String,
}

/// Whether a message claims to bring everything along: one that does is never taken for one of an earlier revision, however
/// much is wrong with it.
pub(crate) fn is_claimed(params: Option<&RawJson>) -> bool {
    let Some(params) = params else { return false };
    // Most of those that do not can be told without reading them.
    memmem::find(params.as_bytes(), b"protocolVersion").is_some()
        && meta(params).is_some_and(|meta| meta.version.is_some())
}

/// Reads what came with a request.
pub(crate) fn read(params: Option<&RawJson>) -> Result<Envelope, BadEnvelope> {
    let meta = params.and_then(meta).ok_or(BadEnvelope::NoMeta)?;
    let version = meta.version.and_then(parsed).ok_or(BadEnvelope::Version)?;
    let capabilities = meta.capabilities.and_then(parsed).filter(Value::is_object);
    let capabilities = capabilities.ok_or(BadEnvelope::Capabilities)?;
    let client_info = match meta.client_info {
        Some(info) => {
            parsed::<Implementation>(info).ok_or(BadEnvelope::ClientInfo)?;
            RawJson::from_text(info.get().to_owned()).ok()
        }
        None => None,
    };
    let level = match meta.level {
        Some(level) => {
            let name: Option<String> = parsed(level);
            Some(name.as_deref().and_then(Level::parse).ok_or(BadEnvelope::Level)?)
        }
        None => None,
    };
    Ok(Envelope { version, capabilities, client_info, level })
}

fn meta(params: &RawJson) -> Option<Meta<'_>> {
    let params: Params<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    // An array would do for the deserializer.
    params.meta.get().starts_with('{').then_some(())?;
    serde_json::from_str(params.meta.get()).ok()
}

fn parsed<T: serde::de::DeserializeOwned>(value: &RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(meta: &Value) -> RawJson {
        json!({ "name": "x", "_meta": meta }).into()
    }

    #[test]
    fn what_must_be_there_is_asked_for_by_name() {
        let (version, capabilities) = (
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
        );
        let info = "io.modelcontextprotocol/clientInfo";
        let level = "io.modelcontextprotocol/logLevel";
        let wrong = |meta: Value| read(Some(&params(&meta))).unwrap_err();
        assert_eq!(read(None).unwrap_err(), BadEnvelope::NoMeta);
        assert_eq!(wrong(json!([])), BadEnvelope::NoMeta);
        assert_eq!(wrong(json!({ capabilities: {} })), BadEnvelope::Version);
        assert_eq!(wrong(json!({ version: 1, capabilities: {} })), BadEnvelope::Version);
        assert_eq!(wrong(json!({ version: "v" })), BadEnvelope::Capabilities);
        assert_eq!(wrong(json!({ version: "v", capabilities: [] })), BadEnvelope::Capabilities);
        let mut good = json!({ version: "v", capabilities: {}, level: "info" });
        let envelope = read(Some(&params(&good))).unwrap();
        assert_eq!((envelope.version.as_str(), envelope.level), ("v", Some(Level::Info)));
        good[info] = json!({ "name": "x" });
        assert_eq!(wrong(good.clone()), BadEnvelope::ClientInfo);
        good[info] = json!({ "name": "x", "version": "1", "title": "X" });
        assert!(read(Some(&params(&good))).is_ok());
        good[level] = json!("loud");
        assert_eq!(wrong(good), BadEnvelope::Level);
    }

    #[test]
    fn a_claim_is_seen_whatever_else_is_wrong() {
        let claimed = |text: &str| is_claimed(Some(&RawJson::from_text(text.to_owned()).unwrap()));
        assert!(claimed(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#));
        assert!(!claimed(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#));
        assert!(!claimed(r#"{"arguments":{"io.modelcontextprotocol/protocolVersion":7}}"#));
        assert!(!is_claimed(None));
    }
}
