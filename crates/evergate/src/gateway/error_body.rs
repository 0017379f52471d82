//! The one place where failures get their JSON-RPC code, their HTTP status and their words.
//!
//! Codes from -32768 to -32000 belong to JSON-RPC and MCP; what only a gateway can say has codes outside of that. An
//! error of a server's own passes unchanged.

#[cfg(test)]
mod page;

use std::time::Duration;

use evergate_runtime::{CallError, CallFailure, Outcome, RawJson, Status};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::stateless;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL: i64 = -32603;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
/// 2026-07-28: the headers of a request say something else than its body.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// 2026-07-28: the server needs something of the client that it cannot do.
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// 2026-07-28: the revision is not one of ours.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// The request did not reach its server; sending it again is safe.
pub(crate) const NOT_SENT: i64 = -31001;
/// The server refused the request unexecuted.
pub(crate) const REJECTED: i64 = -31002;
/// The request was sent and no answer came: it may have run.
pub(crate) const OUTCOME_UNKNOWN: i64 = -31003;
/// The answer came and is larger than allowed.
pub(crate) const RESULT_TOO_LARGE: i64 = -31004;

/// A refusal by the front, before any server is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotJson,
    NotJsonRpc,
    BatchNotAllowed,
    BatchTooLong,
    NotInitialized,
    UnknownSession,
    UnknownServer,
    UnknownPath,
    WrongMethod,
    NotAcceptable,
    NotJsonContent,
    TooLarge,
    TooManySessions,
    TooManyRequests,
    Forbidden,
    UnsupportedVersion,
    Unauthorized,
    ForbiddenOrigin,
    Draining,
    OutOfMemory,
    TooOften,
    BadEventId,
    Internal,
}

// === impl Refusal ===

impl Refusal {
    /// All of them, as they are numbered.
    pub(crate) const ALL: [Self; 23] = [
        Self::NotJson,
        Self::NotJsonRpc,
        Self::BatchNotAllowed,
        Self::BatchTooLong,
        Self::NotInitialized,
        Self::UnknownSession,
        Self::UnknownServer,
        Self::UnknownPath,
        Self::WrongMethod,
        Self::NotAcceptable,
        Self::NotJsonContent,
        Self::TooLarge,
        Self::TooManySessions,
        Self::TooManyRequests,
        Self::Forbidden,
        Self::UnsupportedVersion,
        Self::Unauthorized,
        Self::ForbiddenOrigin,
        Self::Draining,
        Self::OutOfMemory,
        Self::TooOften,
        Self::BadEventId,
        Self::Internal,
    ];

    /// The name used in metric labels.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::NotJsonRpc => "not_json_rpc",
            Self::BatchNotAllowed => "batch_not_allowed",
            Self::BatchTooLong => "batch_too_long",
            Self::NotInitialized => "not_initialized",
            Self::UnknownSession => "unknown_session",
            Self::UnknownServer => "unknown_server",
            Self::UnknownPath => "unknown_path",
            Self::WrongMethod => "wrong_method",
            Self::NotAcceptable => "not_acceptable",
            Self::NotJsonContent => "not_json_content",
            Self::TooLarge => "too_large",
            Self::TooManySessions => "too_many_sessions",
            Self::TooManyRequests => "too_many_requests",
            Self::Forbidden => "forbidden",
            Self::UnsupportedVersion => "unsupported_version",
            Self::Unauthorized => "unauthorized",
            Self::ForbiddenOrigin => "forbidden_origin",
            Self::Draining => "draining",
            Self::OutOfMemory => "out_of_memory",
            Self::TooOften => "too_often",
            Self::BadEventId => "bad_event_id",
            Self::Internal => "internal",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NotJson
            | Self::NotJsonRpc
            | Self::BatchNotAllowed
            | Self::BatchTooLong
            | Self::NotInitialized
            | Self::UnsupportedVersion
            | Self::BadEventId => StatusCode::BAD_REQUEST,
            Self::UnknownSession | Self::UnknownServer | Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::NotJsonContent => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManySessions | Self::TooManyRequests | Self::TooOften => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::ForbiddenOrigin => StatusCode::FORBIDDEN,
            Self::Draining | Self::OutOfMemory => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn code(self) -> i64 {
        match self {
            Self::NotJson => PARSE_ERROR,
            Self::Internal => INTERNAL,
            Self::TooManySessions
            | Self::TooManyRequests
            | Self::Draining
            | Self::OutOfMemory
            | Self::TooOften => NOT_SENT,
            _ => INVALID_REQUEST,
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NotJson => "the body is not valid JSON",
            Self::NotJsonRpc => "the body is not a JSON-RPC request, notification or response",
            Self::BatchNotAllowed => "batches exist only in revision 2025-03-26",
            Self::BatchTooLong => "a batch may have at most 1024 messages",
            Self::NotInitialized => {
                "no Mcp-Session-Id header: send an initialize request first, then the id it returns"
            }
            Self::UnknownSession => {
                "this session is not known here or has expired: send an initialize request without a session id"
            }
            Self::UnknownServer => "no server of this name is configured",
            Self::UnknownPath => {
                "nothing here: MCP is at /mcp (all servers), /mcp/{server} (one) and /sse (2024-11-05 clients)"
            }
            Self::WrongMethod => "this method is not offered here",
            Self::NotAcceptable => {
                "the Accept header must allow application/json and text/event-stream (for GET: text/event-stream)"
            }
            Self::NotJsonContent => "the Content-Type must be application/json",
            Self::TooLarge => "the body is larger than gateway.max_body_bytes",
            Self::TooManySessions => {
                "there are gateway.max_sessions sessions already: try again later"
            }
            Self::UnsupportedVersion => "this MCP-Protocol-Version is not supported",
            Self::Unauthorized => {
                "a key is needed: Authorization: Bearer KEY, Authorization: KEY, or X-API-Key: KEY"
            }
            Self::TooManyRequests => "too many requests of this client are not answered yet",
            Self::Forbidden => "this key may not do that",
            Self::ForbiddenOrigin => "requests with this Host or Origin are not allowed",
            Self::Draining => {
                "the gateway is shutting down: this was not sent, call again in a moment"
            }
            Self::TooOften => {
                "rate limit exceeded: more requests than this key's rate_limit allows"
            }
            Self::OutOfMemory => {
                "the gateway holds gateway.max_buffered_bytes for clients already: this was not sent, call again in a moment"
            }
            Self::Internal => "the gateway failed on this request",
            Self::BadEventId => "this Last-Event-ID was not given out here",
        }
    }

    pub(crate) fn body(self) -> String {
        without_id(&self.error())
    }

    /// The error object. What passes says that nothing was done.
    pub(crate) fn error(self) -> RawJson {
        let (code, message) = (self.code(), self.message());
        if code == NOT_SENT { not_sent(message) } else { plain(code, message) }
    }
}

const CAME_TOO_LATE: &str =
    "the gateway was closing this connection: this was not sent, call again on another";

/// What a request is told that reached the gateway when its connection was being closed: the whole message.
pub(crate) fn came_too_late() -> String {
    without_id(&not_sent(CAME_TOO_LATE))
}

fn without_id(error: &RawJson) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}}", error.as_str())
}

fn not_sent(message: &str) -> RawJson {
    let data = json!({ "outcome": "not_sent", "retryable": true });
    RawJson::from(json!({ "code": NOT_SENT, "message": message, "data": data }))
}

/// An error object without data.
pub(crate) fn plain(code: i64, message: impl AsRef<str>) -> RawJson {
    RawJson::from(json!({ "code": code, "message": message.as_ref() }))
}

/// The status of an error that answers a request without a session: 200 but for those the revision names.
pub(crate) fn status_of(error: &RawJson) -> StatusCode {
    match code_of(error) {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn code_of(error: &RawJson) -> i64 {
    #[derive(Deserialize, Default)]
    struct Fields {
        code: i64,
    }
    error.parse::<Fields>().unwrap_or_default().code
}

/// A request of a revision that is not spoken here.
pub(crate) fn unsupported_version(requested: &str) -> RawJson {
    RawJson::from(json!({
        "code": UNSUPPORTED_VERSION,
        "message": format!("protocol version {requested} is not supported here"),
        "data": { "supported": [stateless::VERSION], "requested": requested },
    }))
}

/// A client would have to be able to do more.
pub(crate) fn missing_capability(required: &Value) -> RawJson {
    RawJson::from(json!({
        "code": MISSING_CAPABILITY,
        "message": "the server needs a capability that the client did not declare with this request",
        "data": { "requiredCapabilities": required },
    }))
}

/// Whether an error says what only a gateway can: what became of a call that no server answered.
pub(super) fn is_our_own(error: &RawJson) -> bool {
    (RESULT_TOO_LARGE..=NOT_SENT).contains(&code_of(error))
}

/// A call that was begun and cannot go on, because its caller cannot be asked.
pub(super) fn gave_up(server: &str, why: &impl std::fmt::Display) -> RawJson {
    RawJson::from(json!({
        "code": OUTCOME_UNKNOWN,
        "message": format!("{server} has a question: {why}"),
        "data": {
            "server": server,
            "outcome": "unknown",
            "retryable": false,
            "generation": null,
            "state": null,
            "next_retry_ms": null,
            "hint": "it was begun and given up: find out what it did before calling again",
        },
    }))
}

/// A server that is not connected, and without which nothing can be sent.
pub(super) fn away(server: &str) -> RawJson {
    RawJson::from(json!({
        "code": NOT_SENT,
        "message": format!("{server} is not connected"),
        "data": {
            "server": server,
            "outcome": "not_sent",
            "retryable": true,
            "generation": null,
            "state": null,
            "next_retry_ms": null,
            "hint": "it did not run: call again later",
        },
    }))
}

/// A resource that nobody has.
pub(super) fn no_resource(uri: &str, why: &str) -> RawJson {
    RawJson::from(json!({
        "code": RESOURCE_NOT_FOUND,
        "message": format!("Resource not found: {uri}: {why}"),
        "data": { "uri": uri },
    }))
}

/// A note that leads to no call.
pub(super) fn bad_request_state(why: &impl std::fmt::Display) -> RawJson {
    RawJson::from(json!({
        "code": INVALID_PARAMS,
        "message": format!("Invalid or expired requestState: {why}"),
        "data": { "reason": "invalid_request_state" },
    }))
}

/// A call that ended without an answer, in the client's terms. `status` is the server's, as of now.
pub(crate) fn of_call(error: &CallError, status: Option<&Status>) -> RawJson {
    let code = match (&error.source, error.outcome) {
        (CallFailure::Rpc(rpc), _) => return rpc.raw.clone(),
        (CallFailure::InvalidParams, _) => {
            return plain(INVALID_PARAMS, "params must be a JSON object");
        }
        (CallFailure::TooLarge { limit }, _) => return too_large(&error.server, None, *limit),
        (_, Outcome::NotSent) => NOT_SENT,
        (_, Outcome::Rejected) => REJECTED,
        (_, Outcome::Unknown | Outcome::Answered) => OUTCOME_UNKNOWN,
    };
    let next_retry_ms = status.and_then(|status| {
        let at = status.next_retry_at?;
        Some(at.saturating_duration_since(tokio::time::Instant::now()).as_millis())
    });
    let mut body = json!({
        "code": code,
        "message": error.chain(),
        "data": {
            "server": error.server,
            "outcome": error.outcome.to_string(),
            "retryable": error.retryable,
            "generation": error.generation.map(evergate_runtime::Generation::get),
            "state": status.map(|status| status.state.to_string()),
            "next_retry_ms": next_retry_ms.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
            "hint": hint(error, status),
        },
    });
    if let CallFailure::RateLimited { retry_in } = error.source {
        body["data"]["retry_after"] = whole_seconds(retry_in).into();
    }
    RawJson::from(body)
}

/// As a Retry-After header has them: whoever comes back after so many is not early.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// A server that is not there for this client: nothing was sent, and waiting does not help.
pub(crate) fn unavailable(server: &str, why: &str) -> RawJson {
    RawJson::from(json!({
        "code": NOT_SENT,
        "message": format!("{server} is {why}"),
        "data": {
            "server": server,
            "outcome": "not_sent",
            "retryable": false,
            "generation": null,
            "state": "disabled",
            "next_retry_ms": null,
            "hint": "the operator must switch it on, or allow it",
        },
    }))
}

/// A client that asks more often than its key allows.
pub(crate) fn too_often(retry_in: Duration) -> RawJson {
    let seconds = whole_seconds(retry_in);
    RawJson::from(json!({
        "code": NOT_SENT,
        "message": Refusal::TooOften.message(),
        "data": {
            "outcome": "not_sent",
            "retryable": true,
            "retry_after": seconds,
            "hint": format!("it did not run: call again in {seconds} s"),
        },
    }))
}

/// A result that is larger than allowed, by how much if that is known. The call did run.
pub(crate) fn too_large(server: &str, bytes: Option<usize>, limit: usize) -> RawJson {
    let size = bytes.map_or("has".to_owned(), |bytes| format!("has {bytes} bytes,"));
    RawJson::from(json!({
        "code": RESULT_TOO_LARGE,
        "message": format!("{server}: the result {size} more than gateway.max_result_bytes ({limit})"),
        "data": {
            "server": server,
            "outcome": "answered",
            "retryable": false,
            "generation": null,
            "state": null,
            "next_retry_ms": null,
            "hint": "ask for less, or have the operator raise gateway.max_result_bytes or set gateway.payload_dir",
        },
    }))
}

/// For the end of a result of which the rest will not come.
pub(crate) fn broke_off(error: &CallError) -> String {
    let what = match error.source {
        CallFailure::TooLarge { limit } => {
            format!(
                "{}: the result is larger than gateway.max_result_bytes ({limit})",
                error.server
            )
        }
        _ => error.chain(),
    };
    format!(
        "[The result breaks off here. {what}. The tool was called; whether it finished its work is unknown: find out before calling again.]"
    )
}

/// What the client, or the person behind it, can do.
fn hint(error: &CallError, status: Option<&Status>) -> String {
    let revival = status.and_then(|status| status.reason.revival());
    match (&error.source, error.outcome) {
        (CallFailure::Disabled, _) => "the server is switched off: enable it".into(),
        (CallFailure::Cancelled, _) => "the call was cancelled by the client".into(),
        (CallFailure::PermanentlyFailed { .. }, _) => {
            revival.unwrap_or("the operator must look at it").to_owned()
        }
        (CallFailure::RateLimited { retry_in }, _) => {
            let seconds = whole_seconds(*retry_in);
            format!("the server limits the rate of calls: call again in {seconds} s")
        }
        (CallFailure::TooBusy { .. }, _) => "the server is busy: call again later".into(),
        (CallFailure::TooManyHeld { .. }, _) => {
            "too many calls wait for this server: call again later".into()
        }
        (_, Outcome::NotSent) => "it did not run: call again later".into(),
        (_, Outcome::Rejected) if error.retryable => "it did not run: call again".into(),
        (_, Outcome::Rejected) => "it did not run, and the same call would be refused again".into(),
        _ if error.retryable => {
            "it may have run; the tool is declared safe to repeat: call again".into()
        }
        _ => "it may have run: find out before calling again".into(),
    }
}
