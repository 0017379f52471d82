//! The testkit, seen by clients that know nothing but bytes.

mod conformance;
mod http;
mod http_faults;
mod legacy_sse;
mod lines;
mod modern;
mod modern_lines;
mod plain_rpc;
mod raw_http;
mod raw_lines;
mod stdio;
