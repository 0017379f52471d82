//! The runtime against servers that others wrote, killed and restarted as servers are.
#![cfg(unix)]

mod support;

mod everything;
mod rmcp;
