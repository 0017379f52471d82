//! The gateway between clients and servers that others wrote, killed and restarted as programs are.
//!
//! Needs the gateway itself: `cargo build -p evergate` first, or test the whole workspace.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

mod support;

mod dashboard;
mod every_client;
mod every_face;
mod gateway_restarts;
mod inspector;
mod prometheus;
mod server_requests;
mod server_restarts;
mod traces;
mod under_load;
mod without_handshake;
