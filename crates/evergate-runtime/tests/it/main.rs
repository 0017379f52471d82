//! The runtime against the test kit: virtual time and memory where time matters, real sockets where sockets do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]
#![allow(clippy::disallowed_methods, reason = "a task of a test ends with its runtime")]

mod raw_http;
mod support;

mod attribution;
mod basics;
mod catalog;
mod coming_and_going;
mod custom_headers;
mod era_matrix;
mod generations;
mod health;
mod held;
mod keep_alive;
mod listening;
mod lossless;
mod modern;
mod modern_subscriptions;
mod rate_limit;
mod raw_params;
mod raw_peers;
mod replay;
mod reported;
mod restored;
mod server_requests;
mod sessions;
mod shutdown;
mod streams;
mod tls;
mod waiting;
mod witnessed;
