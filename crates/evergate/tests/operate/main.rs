//! Looking at a running gateway and steering it, with the built program, as an operator does.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod shell;

mod actions;
mod events;
mod finding;
mod keys;
mod looking;
mod terminal;
