//! Everything over HTTP: the shared client, the event decoder, and the two families of links.

mod answer;
pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod custom_headers;
pub(crate) mod event_decoder;
pub(crate) mod headers;
pub(crate) mod legacy_sse;
pub(crate) mod listen;
pub(crate) mod streamable;
