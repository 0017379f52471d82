//! Requests that bring everything along (2026-07-28): there is no handshake and no session, and what a client can do it says
//! with each request.
//!
//! A request becomes a [`StatelessCall`], which is taken step by step: to its answer, or to questions for its caller. A
//! server of an earlier revision asks in the middle of a call; its questions are collected ([`rounds`]), handed out as the
//! result of the request, and the call is [`parked`] until its caller comes back with the answers.

mod call;
mod discover;
pub(crate) mod envelope;
pub(crate) mod listening;
mod parked;
mod principals;
mod results;
pub(super) mod rounds;
pub(super) mod tasks;

use std::sync::atomic::{AtomicU64, Ordering};

use evergate_runtime::RawJson;
use serde_json::Value;

pub(crate) use call::StatelessCall;
pub(super) use parked::Parked;
pub(super) use principals::{Owner, Principals};
pub(super) use results::{CacheHint, complete};

/// The revision.
pub(crate) const VERSION: &str = "2026-07-28";

/// The key in `_meta` under which everybody says who they are.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Methods of earlier revisions that are no more. No server is to be asked, whatever it speaks.
const REMOVED: [&str; 7] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
];

/// A request's id among those of its caller, who may make many at once under one id: they have nothing to do with each other.
pub(crate) fn own_id() -> RawJson {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    // No client would call a request so.
    Value::from(format!("\0{}", NUMBER.fetch_add(1, Ordering::Relaxed))).into()
}

/// Whether a revision is one of those without a handshake, known here or not.
pub(crate) fn is_without_handshake(version: &str) -> bool {
    version >= VERSION
}
