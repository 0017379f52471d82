//! How a connection begins. The only place that knows: up to 2025-11-25 by a handshake, later by asking the server what it
//! is, which it may be asked at any time.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::call_watch::CallWatch;
use super::dialect::{Asking, Dialect};
use super::inbox::Inbox;
use crate::handlers::Handlers;
use crate::lifecycle::Loss;
use crate::protocol::{self, Envelope, Era, ProtocolVersion, RawJson, code, method};
use crate::transport::{Link, OpenError, Received, SendFailure, Sign, TransportError};

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Option<Box<RawValue>>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Option<DiscoverMeta>,
}

#[derive(Deserialize)]
struct DiscoverMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<Box<RawValue>>,
}

/// Which revisions to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Protocol {
    /// Whatever the server speaks: it is asked without a handshake first, and the answer is remembered.
    #[default]
    Auto,
    /// Only those with a handshake: up to 2025-11-25.
    Legacy,
    /// Only those without: from 2026-07-28 on.
    Modern,
}

/// Each its own: an answer to the one may come while the other is waited for.
const DISCOVERY_ID: u64 = 1;
const HANDSHAKE_ID: u64 = 2;
/// The first id that no beginning uses.
pub(super) const FIRST_ID: u64 = 3;

/// A server that says nothing to a question from before the handshake wants the handshake.
const PROBE: Duration = Duration::from_secs(5);

/// Begins in the way the server understands. `known` is what it understood last time.
pub(crate) async fn begin(
    link: &Link,
    inbox: &Arc<Inbox>,
    handlers: &Handlers,
    protocol: Protocol,
    known: Option<Era>,
) -> Result<Peer, OpenError> {
    let may_be_modern = match link {
        Link::Http(link) => link.may_listen(),
        Link::Lines(_) => true,
        Link::Sse(_) => false,
    };
    if protocol == Protocol::Legacy || !may_be_modern {
        return shake(link, inbox, handlers).await;
    }
    if protocol == Protocol::Auto && known == Some(Era::Legacy) {
        return match shake(link, inbox, handlers).await {
            // It may have come back as another.
            Err(error @ (OpenError::Refused(_) | OpenError::BadHandshake(_))) => {
                discover(link, inbox, handlers).await?.ok_or(error)
            }
            result => result,
        };
    }
    let asked = timeout(PROBE, discover(link, inbox, handlers)).await;
    match asked.unwrap_or(Ok(None))? {
        Some(peer) => Ok(peer),
        None if protocol == Protocol::Modern => {
            Err(OpenError::UnsupportedProtocol("none without a handshake".into()))
        }
        None => shake(link, inbox, handlers).await,
    }
}

/// Asks the server what it is. `None` if it does not understand the question.
async fn discover(
    link: &Link,
    inbox: &Arc<Inbox>,
    handlers: &Handlers,
) -> Result<Option<Peer>, OpenError> {
    let version = ProtocolVersion::NEWEST;
    let envelope = Envelope::new(version, handlers.capabilities(), handlers.declared_client_info());
    let dialect = Dialect::Modern(envelope);
    let watch = Arc::new(CallWatch::new(DISCOVERY_ID, None));
    let message = dialect.write(&watch, Asking::plain(method::DISCOVER, None));
    let message = message.map_err(|error| OpenError::BadHandshake(error.to_string()))?;
    let answer = link.exchange(inbox, message, &watch, &|_| false).await.and_then(Received::whole);
    let result = match answer {
        Ok(Ok(result)) => result,
        Ok(Err(error)) if error.code == code::UNSUPPORTED_VERSION => {
            return Err(OpenError::UnsupportedProtocol(error.message.chars().take(80).collect()));
        }
        // Whatever else it says, it does not say that it knows.
        Ok(Err(_)) => return Ok(None),
        Err(failure) => return not_asked(failure),
    };
    let Ok(fields) = result.parse::<DiscoverResult>() else { return Ok(None) };
    if !fields.supported_versions.iter().any(|date| date == version.as_str()) {
        return Err(OpenError::UnsupportedProtocol(fields.supported_versions.join(", ")));
    }
    if let Link::Http(link) = link {
        link.establish(version);
    }
    let server_info = fields.meta.and_then(|meta| meta.server_info);
    Peer::new(version, fields.capabilities, server_info, fields.instructions, dialect).map(Some)
}

/// A question without a usable answer: one about revisions only if the server took it and found fault with it.
fn not_asked(failure: SendFailure) -> Result<Option<Peer>, OpenError> {
    if failure.sign == Sign::Lost(Loss::Auth) {
        return Err(OpenError::AuthRequired { status: 401 });
    }
    match failure.error {
        TransportError::Status { status: 400..=499, .. }
        | TransportError::ContentType(_)
        | TransportError::NoAnswer { .. }
        | TransportError::Malformed(_) => Ok(None),
        error => Err(OpenError::Transport(error)),
    }
}

/// Initialize, check, confirm.
async fn shake(link: &Link, inbox: &Arc<Inbox>, handlers: &Handlers) -> Result<Peer, OpenError> {
    let watch = Arc::new(CallWatch::new(HANDSHAKE_ID, None));
    let params = serde_json::json!({
        "protocolVersion": ProtocolVersion::NEWEST_WITH_HANDSHAKE.as_str(),
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

    fn new(
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
        Ok(Self {
            version,
            offers: Offers {
                tools: offered.tools.is_some(),
                prompts: offered.prompts.is_some(),
                resources: offered.resources.is_some(),
                logging: offered.logging.is_some(),
            },
            server_info: raw(server_info)?,
            capabilities,
            instructions,
            dialect,
        })
    }

    /// What to expect of the server next time.
    pub(crate) fn era(&self) -> Era {
        if self.version.is_modern() { Era::Modern } else { Era::Legacy }
    }
}
