//! What can go wrong, on demand.

use std::time::Duration;

mod answers;
mod rule;

pub(crate) use answers::pieces;
pub use rule::FaultRule;
pub(crate) use rule::{ArmedFault, Incoming, Rule};

/// One thing that goes wrong with one request.
///
/// "Executed" below means that the tool really runs and is counted in
/// [`Counters::calls`](crate::Counters::calls) and
/// [`Counters::executions`](crate::Counters::executions), so that a test can tell a call that was
/// lost from a call that ran twice.
///
/// Each fault says what it does on streamable HTTP. On line transports (memory, stdio) and on the
/// 2024-11-05 SSE transport, whose answers share one stream, "the connection" is that stream.
/// What has no meaning there is marked *HTTP only* and answered normally.
///
/// On the verb `GET` ([`FaultRule::on`]) the same words apply to the listening stream: it is
/// refused, cut after its first bytes, closed with `retry:`, or stays open and says nothing
/// ([`Fault::HangMidStream`]). A batch of requests is hit only by faults that execute nothing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The server does not know the session of this one request. Not executed.
    /// Elsewhere: a JSON-RPC error with the code and text of that shape.
    SessionLoss(SessionLoss),
    /// Answers with this HTTP status and body. Not executed.
    /// Elsewhere: a JSON-RPC error -32000 with the body as its message.
    Status(u16, String),
    /// Answers 429, with this many seconds in `Retry-After`. Not executed.
    /// Elsewhere: a JSON-RPC error -32000 "rate limit exceeded", with the time in words.
    RateLimited {
        /// When the client may come back.
        retry_after: Option<u64>,
    },
    /// Reads the request and never answers. Not executed.
    HangBeforeHeaders,
    /// Begins an SSE answer with a comment, then stays silent with the connection open. Executed.
    /// On lines: a log notification, then silence.
    HangMidStream,
    /// Begins an SSE answer, executes, and cuts the connection before the answer.
    CutMidStream {
        /// Whether the stream began with an event id. If so, `GET` with `Last-Event-ID` brings
        /// the answer, unless the rule says [`FaultRule::no_resume`].
        event_id: bool,
    },
    /// Reads the request, ends the server's direction of the connection (FIN), keeps the other
    /// open. Not executed.
    HalfClose,
    /// Executes, then closes the connection after this many bytes of the response, head included.
    /// If the response is shorter, the next one on that connection uses up the rest.
    CloseAfterBytes(usize),
    /// Executes, then cuts the connection without a single response byte.
    ExecuteThenCut,
    /// Reads the request and cuts the connection. Not executed.
    CutBeforeExecute,
    /// Executes at once, answers after this time.
    DelayAnswer(Duration),
    /// Answers twice (on HTTP as two events of an SSE answer). Executed once.
    DuplicateAnswer,
    /// Answers with an id that nobody asked with. Executed.
    WrongId,
    /// HTTP 400 with a JSON-RPC error that has no id. Not executed.
    /// Elsewhere: that error as a message.
    IdLess400,
    /// Executes, waits for `notifications/cancelled` of this request, and after this time answers
    /// all the same. Without a cancellation it never answers.
    LateAnswer(Duration),
    /// Something that is not JSON where the answer should be (a JSON body), or before it (SSE,
    /// lines). Executed.
    Garbage,
    /// The result is replaced by a text of this many bytes. Executed.
    Oversized(usize),
    /// The answer comes in a JSON array together with a notification. Executed.
    Batch,
    /// *HTTP only.* `DELETE` of a session never answers. Matches `DELETE` by itself.
    HangInDelete,
    /// *HTTP only.* Begins an SSE answer with an event id and `retry:` of this many milliseconds,
    /// then closes it cleanly. Executed; `GET` with `Last-Event-ID` brings the answer.
    SseRetry(u64),
}

/// How a server says that it does not know a session. Each shape was seen in the wild.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SessionLoss {
    /// 404 with JSON-RPC -32001 "Session not found" and `"id": null` (TypeScript SDK transport).
    NotFound404,
    /// 404 without a body.
    NotFound404Empty,
    /// 400 with -32000 "Bad Request: No valid session ID provided" and no id (server-everything).
    BadRequest400NoValidSession,
    /// 400 with -32000 "Bad Request: Server not initialized" (TypeScript SDK after a restart).
    BadRequest400NotInitialized,
    /// 400 with the text "Bad Request", which says nothing about sessions.
    BadRequest400Opaque,
    /// 200 with a JSON-RPC error of this code and text, bound to the request.
    Ok200(i64, String),
    /// 401 with the text "Unauthorized: Session not found" (old rmcp servers).
    Unauthorized401,
    /// 422 with the text "Unexpected message, expect initialize request" (rmcp).
    Unprocessable422,
    /// 503 with the text "session not found".
    Unavailable503,
}

// === impl SessionLoss ===

impl SessionLoss {
    /// The JSON-RPC error nearest to this shape, for transports without HTTP statuses.
    pub(crate) fn as_error(&self) -> (i64, &str) {
        match self {
            Self::NotFound404 | Self::NotFound404Empty => (-32001, "Session not found"),
            Self::BadRequest400NoValidSession => {
                (-32000, "Bad Request: No valid session ID provided")
            }
            Self::BadRequest400NotInitialized => (-32000, "Bad Request: Server not initialized"),
            Self::BadRequest400Opaque => (-32000, "Bad Request"),
            Self::Ok200(code, message) => (*code, message),
            Self::Unauthorized401 => (-32000, "Unauthorized: Session not found"),
            Self::Unprocessable422 => (-32000, "Unexpected message, expect initialize request"),
            Self::Unavailable503 => (-32000, "session not found"),
        }
    }
}
