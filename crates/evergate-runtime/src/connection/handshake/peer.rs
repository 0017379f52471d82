//! What a server says of itself when a connection begins.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connection::dialect::Dialect;
use crate::protocol::{ProtocolVersion, RawJson};
use crate::transport::OpenError;

/// What the server said about itself.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) version: ProtocolVersion,
    pub(crate) capabilities: RawJson,
    pub(crate) server_info: RawJson,
    pub(crate) instructions: Option<String>,
    pub(crate) offers: Offers,
    pub(crate) dialect: Dialect,
}

/// The capabilities the runtime acts on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five independent capabilities, not a state")]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// Changes of single resources are told.
    pub(crate) subscribe: bool,
    pub(crate) logging: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default)]
    capabilities: Option<Box<RawValue>>,
    #[serde(default)]
    server_info: Option<Box<RawValue>>,
    #[serde(default)]
    instructions: Option<String>,
}

#[derive(Deserialize, Default)]
struct CapabilityFields<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    prompts: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    logging: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourcesFields {
    subscribe: Option<bool>,
}

// === impl Peer ===

impl Peer {
    pub(super) fn read(result: &RawJson) -> Result<Self, OpenError> {
        let unusable = |error: serde_json::Error| {
            OpenError::BadHandshake(format!("unexpected fields at column {}", error.column()))
        };
        let fields: InitializeResult = result.parse().map_err(unusable)?;
        let version =
            ProtocolVersion::from_handshake(&fields.protocol_version).ok_or_else(|| {
                OpenError::UnsupportedProtocol(fields.protocol_version.chars().take(40).collect())
            })?;
        Self::new(
            version,
            fields.capabilities,
            fields.server_info,
            fields.instructions,
            Dialect::Legacy,
        )
    }

    pub(super) fn new(
        version: ProtocolVersion,
        capabilities: Option<Box<RawValue>>,
        server_info: Option<Box<RawValue>>,
        instructions: Option<String>,
        dialect: Dialect,
    ) -> Result<Self, OpenError> {
        let raw = |value: Option<Box<RawValue>>| {
            let text =
                value.map_or_else(|| "{}".to_owned(), |value| Box::<str>::from(value).into());
            RawJson::from_text(text)
                .map_err(|_| OpenError::BadHandshake("unusable capabilities".into()))
        };
        let capabilities = raw(capabilities)?;
        let offered: CapabilityFields<'_> =
            serde_json::from_slice(capabilities.as_bytes()).unwrap_or_default();
        let resources = offered.resources.map(|fields| serde_json::from_str(fields.get()));
        let resources: ResourcesFields = resources.and_then(Result::ok).unwrap_or_default();
        Ok(Self {
            version,
            offers: Offers {
                tools: offered.tools.is_some(),
                prompts: offered.prompts.is_some(),
                resources: offered.resources.is_some(),
                subscribe: resources.subscribe == Some(true),
                logging: offered.logging.is_some(),
            },
            server_info: raw(server_info)?,
            capabilities,
            instructions,
            dialect,
        })
    }
}
