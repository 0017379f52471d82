//! What the server saw and did.

use std::collections::BTreeMap;

use serde_json::Value;

/// A snapshot of what a [`Server`](crate::Server) saw and did, over all transports and restarts.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// `initialize` requests answered with a result.
    pub handshakes: u64,
    /// `notifications/initialized` received.
    pub initialized: u64,
    /// Tool calls that were executed, whatever became of their answers.
    pub calls: u64,
    /// Answers to requests that were handed to a transport.
    pub answered: u64,
    /// Faults that acted.
    pub faults: u64,
    /// Requests and notifications received per method, rejected ones included.
    pub requests: BTreeMap<String, u64>,
    /// Executed tool calls per `call_id` argument.
    pub executions: BTreeMap<String, u64>,
    /// Sessions that are known now.
    pub sessions_open: u64,
    /// Sessions that a client ended with `DELETE`.
    pub sessions_deleted: u64,
    /// HTTP requests that were refused for want of the right token.
    pub unauthorized: u64,
    /// The `requestId` of every `notifications/cancelled`.
    pub cancelled: Vec<Value>,
    /// Requests of revision 2026-07-28 whose client hung up before the answer, which cancels them.
    pub abandoned: u64,
    /// Connections that are open now: TCP, in-memory and line streams.
    pub connections_open: u64,
    /// SSE streams that clients hold open with `GET` now.
    pub listening: u64,
    /// The resources that known sessions are subscribed to, once per session.
    pub subscriptions: Vec<String>,
    /// The newest `logging/setLevel`.
    pub log_level: Option<String>,
    /// Headers of the newest `POST`, names in lower case.
    pub last_headers: BTreeMap<String, String>,
}
