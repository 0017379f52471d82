//! Everything over HTTP: the shared client, the event decoder, and the two families of links.

mod answer;
mod begun_result;
pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod custom_headers;
pub(crate) mod event_decoder;
pub(crate) mod framing;
pub(crate) mod headers;
pub(crate) mod legacy_sse;
pub(crate) mod listen;
mod pool;
pub(crate) mod repeated_head;
mod request_head;
mod response_head;
pub(crate) mod streamable;

pub(crate) use begun_result::BegunResult;
