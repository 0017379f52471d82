//! The HTTP face of the built gateway, byte by byte.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod basics;
