//! The runtime on a simulated network: links that break, stall and crawl, hosts that crash. Time is virtual and every
//! run has a seed, so a failure comes back when it is run again.
//!
//! The simulator's TCP never retransmits: what is sent into a partition is lost for good, and what follows on the same
//! connection is never delivered. That is the worst a real network can do, short of lying.

#![allow(clippy::unwrap_used, reason = "a failed simulation panics")]

mod support;

mod half_open;
mod isolation;
mod partition;
mod restart_storm;
mod slow_link;
