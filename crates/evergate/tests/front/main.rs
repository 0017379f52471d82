//! The HTTP face of the built gateway, byte by byte.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod fixture;
mod pipes;
mod raw_http;

mod auth;
mod bad_input;
mod basics;
mod calls;
mod dashboard;
mod health;
mod held_calls;
mod key_limits;
mod legacy_sse;
mod listening;
mod memory_limit;
mod origins;
mod resumption;
mod revisions;
mod sessions;
mod stdio;
mod what_is_kept;
mod wrap;
