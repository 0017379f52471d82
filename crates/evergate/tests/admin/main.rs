//! The admin API of the built gateway, as its users meet it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod actions;
mod api;
mod description;
mod events;
mod listener;
mod scopes;
mod secrets;
