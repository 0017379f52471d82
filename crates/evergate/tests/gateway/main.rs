//! What the built gateway does between its clients and its servers: names, passing on, recovery, reload, its end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![allow(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) in place")]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod kit;

mod asking;
mod auth_out;
mod boundaries;
mod catalog;
mod handed_over;
mod holding;
mod isolation;
mod large_results;
mod limits;
mod metrics;
mod names;
mod pass_through;
mod rate_limits;
mod recovery;
mod reload;
mod restart;
mod shutdown;
mod subscriptions;
