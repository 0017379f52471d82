//! MCP connections that heal themselves: supervised servers behind stable handles.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use evergate_runtime::{Hub, Settings};
//! use serde_json::json;
//!
//! let hub = Hub::builder()
//!     .server("files", Settings::stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]))
//!     .server("docs", Settings::http("https://docs.example/mcp"))
//!     .start()?;
//! let docs = hub.server("docs")?; // valid through every reconnect
//! let result = docs.call_tool("search", json!({ "query": "mcp" })).deadline(Duration::from_secs(60)).await?;
//! println!("{}", result.as_str());
//! hub.shutdown(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # A request's way
//!
//! 1. `hub`: the table of servers; `server`: the handle a caller keeps.
//! 2. `call`: one call, from builder to outcome; `call/admission`: waits for a connection.
//! 3. `slot`: what is shared about one server; `lifecycle`: its life as a pure value; `driver`: the task that lives it.
//! 4. `connection`: one handshaken peer of one generation; `connection/inbox`: what it says unasked.
//! 5. `transport`: bytes out, messages in: `lines` (child processes, memory), `http/streamable`, `http/legacy_sse`.
//! 6. `retry`: if no answer came: was the session lost, may it be sent again, how long to wait.
//! 7. `catalog`: what the servers offer, last good; `observe`: what the outside can watch.

mod alarm;
mod call;
mod catalog;
mod connection;
mod driver;
mod ending;
mod entrusted;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod hub;
mod lifecycle;
pub mod moment;
mod observe;
mod own;
mod protocol;
mod retry;
mod server;
mod settings;
mod sharded;
mod slot;
pub mod spare;
mod tally;
mod tasks;
mod transport;

#[doc(hidden)]
pub use alarm::Alarm;
pub use call::{CallBuilder, Reply, Report, ResultStream};
pub use catalog::{CacheHint, CacheHints, Catalog, InvalidCatalog, Item, ServerCatalog};
pub use connection::{Progress, Protocol};
pub use ending::Ending;
pub use error::{CallError, CallFailure, SharedError, UnknownServer};
pub use handlers::{Attribution, Handlers, ServerRequest};
pub use hub::{Held, Hub, HubBuilder, NotReady, ShutdownReport};
pub use lifecycle::{Generation, OnExhausted, Reason, Restart, StateKind};
pub use observe::{
    AttemptEnd, Dialed, Happening, HubEvent, Notification, RateLimited, Status, Transition,
};
#[doc(hidden)]
pub use own::{Own, PerThread};
pub use protocol::{ProtocolVersion, RawJson, RpcError};
pub use retry::{Backoff, InvalidBackoff, Outcome, ReconnectLimiter, Replay};
pub use server::{ServerHandle, StatusWatch, SubscribeError};
pub use settings::{HttpKind, InvalidSettings, Problem, Profile, Settings};
#[doc(hidden)]
pub use sharded::{Apart, Sharded};
pub use transport::{DialedStream, Dialer, MemoryConnector};

/// Messages and the decoders of what is sent, for fuzzing and for those who need only them.
pub mod wire {
    pub use crate::protocol::{
        Malformed, Message, Messages, error_response, header_value_text, notification,
        object_fields, parse, parse_noting, request, result_response,
    };
    pub use crate::transport::{
        BadFraming, Chunk, Ends, EventDecoder, EventTooLarge, Framing, Line, LineSplitter,
        RepeatedHead, ServerEvent, Step, decimal,
    };
}

/// The examples of the embedding guide, so that they cannot grow stale.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
#[derive(Debug)]
pub struct EmbeddingGuide;
