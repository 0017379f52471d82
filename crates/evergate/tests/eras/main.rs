//! Clients and servers of every revision around the built gateway: none of them has to know of which the others are.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say so"
)]
#![allow(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) in place")]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "its other user needs all of it")]
#[path = "../gateway/kit.rs"]
mod kit;

mod caller;
mod parked_call;
mod stateless_client;
mod upstream;

mod bad_requests;
mod interruptions;
mod matrix;
mod request_states;
mod rounds;
