//! The JSON-RPC envelope and the few MCP facts the runtime must know. Payloads stay raw.

mod envelope;
mod header_value;
mod message;
mod object_fields;
mod param_headers;
mod raw_json;
mod request;
mod subscription_id;
mod value_scanner;
mod version;

pub(crate) use envelope::{Envelope, Wishes, without_envelope};
pub use header_value::decode as header_value_text;
pub(crate) use header_value::encode as header_text;
pub use message::RpcError;
pub(crate) use message::answered_id;
pub use message::{Malformed, Message, Messages, parse, parse_noting};
pub use object_fields::object_fields;
pub(crate) use param_headers::{
    BadParamHeader, ParamHeader, param_headers, write_param_headers, wrong_param_header,
};
pub use raw_json::RawJson;
pub use request::{error_response, notification, request, result_response};
pub(crate) use request::{tool_call, tool_params, with_progress_token};
pub(crate) use subscription_id::{subscription_id, without_subscription_id};
pub(crate) use value_scanner::ValueScanner;
pub(crate) use version::Era;
pub use version::ProtocolVersion;

/// Whether a level is one that a server may be told to log from.
pub(crate) fn is_log_level(level: &str) -> bool {
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    levels.contains(&level)
}

/// Method names, so that none is spelt twice.
pub(crate) mod method {
    pub(crate) const INITIALIZE: &str = "initialize";
    pub(crate) const DISCOVER: &str = "server/discover";
    pub(crate) const INITIALIZED: &str = "notifications/initialized";
    pub(crate) const CANCELLED: &str = "notifications/cancelled";
    pub(crate) const PROGRESS: &str = "notifications/progress";
    pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    pub(crate) const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
    pub(crate) const PING: &str = "ping";
    pub(crate) const TOOLS_CALL: &str = "tools/call";
    pub(crate) const SET_LEVEL: &str = "logging/setLevel";
    pub(crate) const SUBSCRIBE: &str = "resources/subscribe";
    pub(crate) const LISTEN: &str = "subscriptions/listen";
    pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    pub(crate) const UNSUBSCRIBE: &str = "resources/unsubscribe";
    pub(crate) const SAMPLING: &str = "sampling/createMessage";
    pub(crate) const ELICITATION: &str = "elicitation/create";
    pub(crate) const ROOTS_LIST: &str = "roots/list";
}

/// JSON-RPC error codes that mean something to us.
pub(crate) mod code {
    /// A header says something else than the request, or is missing.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// The server speaks revisions without a handshake, but not this one.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
    /// What revisions with a handshake say of a resource that there is none of.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL_ERROR: i64 = -32603;
    /// The request makes no sense any more: of the codes JSON-RPC defines this comes nearest.
    pub(crate) const CALL_ENDED: i64 = -32600;
}
