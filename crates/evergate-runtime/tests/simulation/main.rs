//! The runtime on a simulated network: links that break, stall and crawl, hosts that crash. Time is virtual, and a seed
//! decides every latency and crash. What `select!` picks among branches that are ready at once it does not decide, so
//! two runs of a seed are alike but for a few calls, and what is asserted must hold for all of them.
//!
//! The simulator's TCP never retransmits: what is sent into a partition is lost for good, and what follows on the same
//! connection is never delivered. That is the worst a real network can do, short of lying.

#![allow(clippy::unwrap_used, reason = "a failed simulation panics")]

mod support;

mod first_listing;
mod half_open;
mod isolation;
mod partition;
mod restart_storm;
mod slow_link;
