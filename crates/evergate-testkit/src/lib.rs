#![doc = include_str!("../README.md")]

mod catalog;
mod conformance;
mod fast;
mod fault;
mod http;
mod jsonrpc;
mod lines;
mod memory;
mod one_stream;
mod server;
mod session;
mod stdio;
mod tasks;
mod tools;
pub mod wait;

pub use fast::{FastServer, FastServerSettings, fast_server_path, fast_text};
pub use fault::{Fault, FaultRule, SessionLoss};
pub use http::{AnswerStyle, HttpServer, serve_http_io};
pub use lines::serve_lines;
pub use memory::MemoryServer;
pub use server::{Counters, Eras, ListKind, ListenEnd, Server};
pub use stdio::stdio_server_path;
