//! Many servers and many sessions at once, on the built gateway: it works, and what it costs is printed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![cfg(target_os = "linux")]

#[path = "../support/mod.rs"]
mod support;

mod load;

use load::Load;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sessions_use_twenty_servers() {
    load::run(Load { servers: 20, tools: 50, sessions: 100 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute; ./scripts/test runs it"]
async fn two_thousand_sessions_use_two_hundred_servers() {
    load::run(Load { servers: 200, tools: 50, sessions: 2000 }).await;
}
