//! Every product in front of a server of every kind that it supports: a call comes back, and nothing stays behind.
//!
//! Needs the gateway itself and the test kit's program: `cargo build -p evergate -p evergate-testkit` first, or test the
//! whole workspace.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "what was left out is worth knowing")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

mod client;
mod support;

mod every_product;
mod ours;
