//! The handshake of the revisions up to 2025-11-25. The only place that knows how a connection begins: a revision
//! without a handshake replaces this, and nothing else.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::call_watch::CallWatch;
use super::inbox::Inbox;
use crate::handlers::Handlers;
use crate::lifecycle::Loss;
use crate::protocol::{self, ProtocolVersion, RawJson, method};
use crate::transport::{Link, OpenError, Received, Sign, TransportError};

/// What the server said about itself.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) version: ProtocolVersion,
    pub(crate) capabilities: RawJson,
    pub(crate) server_info: RawJson,
    pub(crate) instructions: Option<String>,
    pub(crate) offers: Offers,
}

/// The capabilities the runtime acts on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent capabilities, not a state")]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
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

/// Initialize, check, confirm.
pub(crate) async fn shake(
    link: &Link,
    inbox: &Arc<Inbox>,
    handlers: &Handlers,
) -> Result<Peer, OpenError> {
    let watch = Arc::new(CallWatch::new(1, None));
    let params = serde_json::json!({
        "protocolVersion": ProtocolVersion::NEWEST.as_str(),
        "capabilities": handlers.capabilities(),
        "clientInfo": handlers.declared_client_info(),
    });
    let message =
        protocol::request(watch.id(), method::INITIALIZE, Some(params.to_string().as_bytes()));
    let answer = link.exchange(inbox, message, &watch, &|_| false).await.and_then(Received::whole);
    let answer = answer.map_err(|failure| match failure.sign {
        Sign::Lost(Loss::Auth) => OpenError::AuthRequired { status: 401 },
        _ => OpenError::Transport(failure.error),
    })?;
    let result = answer.map_err(|error| {
        // What OAuth calls an unusable token; a bare "unauthorized" may mean anything.
        let text = error.message.to_lowercase();
        if text.contains("invalid_token") || text.contains("invalid token") {
            OpenError::AuthRequired { status: 200 }
        } else {
            OpenError::Refused(error)
        }
    })?;
    let peer = Peer::read(&result)?;
    if let Link::Http(link) = link {
        link.establish(peer.version);
    }
    let confirmed = link.post(protocol::notification(method::INITIALIZED, None), None).await;
    confirmed.map_err(|error| match error {
        TransportError::Status { status: 401, .. } => OpenError::AuthRequired { status: 401 },
        error => OpenError::Transport(error),
    })?;
    Ok(peer)
}

// === impl Peer ===

impl Peer {
    fn read(result: &RawJson) -> Result<Self, OpenError> {
        let unusable = |error: serde_json::Error| {
            OpenError::BadHandshake(format!("unexpected fields at column {}", error.column()))
        };
        let fields: InitializeResult = result.parse().map_err(unusable)?;
        let version = ProtocolVersion::from_wire(&fields.protocol_version).ok_or_else(|| {
            OpenError::UnsupportedProtocol(fields.protocol_version.chars().take(40).collect())
        })?;
        let raw = |value: Option<Box<RawValue>>| {
            value.map_or_else(
                || Ok(RawJson::empty_object()),
                |value| RawJson::from_text(String::from(Box::<str>::from(value))),
            )
        };
        let capabilities = raw(fields.capabilities).map_err(unusable)?;
        let offered: CapabilityFields<'_> =
            serde_json::from_slice(capabilities.as_bytes()).unwrap_or_default();
        Ok(Self {
            version,
            offers: Offers {
                tools: offered.tools.is_some(),
                prompts: offered.prompts.is_some(),
                resources: offered.resources.is_some(),
                logging: offered.logging.is_some(),
            },
            server_info: raw(fields.server_info).map_err(unusable)?,
            capabilities,
            instructions: fields.instructions,
        })
    }
}
