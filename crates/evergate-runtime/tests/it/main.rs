//! The runtime against the test kit: virtual time and memory where time matters, real sockets where sockets do.

mod support;

mod basics;
mod catalog;
mod generations;
mod health;
mod listening;
mod lossless;
mod replay;
mod server_requests;
mod sessions;
mod shutdown;
mod streams;
mod tls;
mod waiting;
