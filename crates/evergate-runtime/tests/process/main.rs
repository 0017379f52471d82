//! Real child processes on real time. Waits are for conditions; limits only guard against hanging for ever.
//!
//! Linux only: what became of a process is read from `/proc`.
#![cfg(target_os = "linux")]

mod proc;
mod support;

mod death;
mod groups;
mod host;
mod leaks;
mod stopping;
mod wire;
