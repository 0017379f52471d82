//! The runtime against servers that others wrote, killed and restarted as servers are.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

mod support;

mod everything;
mod rmcp;
