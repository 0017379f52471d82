//! What the built gateway writes down about calls: traces, the audit log, its own log; and what it never does.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![allow(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) in place")]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "its other user needs all of it")]
#[path = "../gateway/kit.rs"]
mod kit;

#[cfg(feature = "otel")]
mod receiver;

mod audit;
mod context;
mod logs;
#[cfg(feature = "otel")]
mod secrets;
#[cfg(feature = "otel")]
mod traces;
