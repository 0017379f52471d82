//! The headers MCP gives a meaning to.

use std::borrow::Cow;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// What a body is said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Events,
    /// In the server's words, cut short: they are for error messages.
    Other(Cow<'static, str>),
}

/// For a POST that may be answered by JSON or by a stream.
pub(crate) fn for_post(custom: &HeaderMap) -> HeaderMap {
    with(custom, Some(JSON), JSON_OR_EVENTS)
}

/// For a POST to a server that knows no streams.
pub(crate) fn for_plain_post(custom: &HeaderMap) -> HeaderMap {
    with(custom, Some(JSON), JSON)
}

/// For a GET that opens a stream.
pub(crate) fn for_get(custom: &HeaderMap) -> HeaderMap {
    with(custom, None, EVENTS)
}

fn with(custom: &HeaderMap, content_type: Option<HeaderValue>, accept: HeaderValue) -> HeaderMap {
    let mut headers = custom.clone();
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type);
    }
    headers.insert(ACCEPT, accept);
    headers
}

// === impl ContentType ===

impl ContentType {
    pub(super) fn read(value: &[u8]) -> Self {
        let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if essence.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else {
            let words: String = String::from_utf8_lossy(value).chars().take(80).collect();
            Self::Other(words.into())
        }
    }
}

impl Default for ContentType {
    fn default() -> Self {
        Self::Other("no type".into())
    }
}
