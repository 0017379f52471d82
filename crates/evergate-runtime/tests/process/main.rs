//! Real child processes on real time. Waits are for conditions; limits only guard against hanging for ever.
//!
//! Linux only: what became of a process is read from `/proc`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

mod proc;
mod support;

mod death;
mod elsewhere;
mod groups;
mod host;
mod leaks;
mod stopping;
mod wire;
