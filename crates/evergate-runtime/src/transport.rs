//! Bytes out, messages in. A transport knows how to carry JSON-RPC; it knows no MCP methods and decides no retries.
//!
//! There are three kinds of [`Link`], because there are three ways an answer finds its request: by id on one stream
//! (child processes, memory), by id on another stream than the request went out on (HTTP+SSE), or as the response to
//! the request's own POST (streamable HTTP, plain JSON-RPC).

mod failure;
pub(crate) mod http;
mod last_words;
mod line_splitter;
mod lines;
mod memory;
mod open;
#[cfg(unix)]
mod process_group;
mod stdio;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use failure::{OpenError, SendFailure, Sign, TransportError};
pub(crate) use http::BegunResult;
pub(crate) use http::client::HttpClient;
pub use http::connect::{DialedStream, Dialer};
pub use http::event_decoder::{EventDecoder, EventTooLarge, ServerEvent};
pub use http::framing::{BadFraming, Chunk, Framing, Step};
pub use http::repeated_head::{RepeatedHead, decimal};
pub(crate) use last_words::StderrTail;
pub use line_splitter::{Ends, Line, LineSplitter};
pub use memory::MemoryConnector;
pub(crate) use open::{Opening, open};

use crate::connection::{CallWatch, Inbox};
use crate::protocol::{RawJson, RpcError};
use crate::retry::Outcome;

/// What a server said to a request.
pub(crate) type Answer = Result<RawJson, RpcError>;

/// Asked at a large result, and only then: whether its caller has use for so much before it is complete.
pub(crate) type TakesPieces<'a> = &'a (dyn Fn(usize) -> bool + Send + Sync);

/// What came back for a request.
#[derive(Debug)]
pub(crate) enum Received {
    Answer(Answer),
    /// A large result, still arriving.
    Begun(Box<BegunResult>),
}

/// One open way to a server. Cheap to clone; closed by [`Link::close`].
#[derive(Debug, Clone)]
pub(crate) enum Link {
    Lines(Arc<lines::LineLink>),
    Sse(Arc<http::legacy_sse::SseLink>),
    Http(Arc<http::streamable::HttpLink>),
}

// === impl Received ===

impl Received {
    /// For whoever did not ask for pieces, and so gets none.
    pub(crate) fn whole(self) -> Result<Answer, SendFailure> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Begun(_) => {
                Err(SendFailure::new(Outcome::Unknown, TransportError::Closed, Sign::None))
            }
        }
    }
}

// === impl Link ===

impl Link {
    /// Sends a request and waits for its answer. Has no deadline of its own; dropping it gives up waiting.
    pub(crate) async fn exchange(
        &self,
        inbox: &Arc<Inbox>,
        message: Bytes,
        watch: &Arc<CallWatch>,
        takes_pieces: TakesPieces<'_>,
    ) -> Result<Received, SendFailure> {
        match self {
            Self::Lines(link) => link.exchange(inbox, message, watch).await.map(Received::Answer),
            Self::Sse(link) => {
                Box::pin(link.exchange(inbox, message, watch)).await.map(Received::Answer)
            }
            Self::Http(link) => link.exchange(inbox, message, watch, takes_pieces).await,
        }
    }

    /// Sends a notification or a response: something nobody answers. `call` is the one on whose own stream the server
    /// asked for it, if it did; only streamable HTTP has such streams.
    pub(crate) async fn post(
        &self,
        message: Bytes,
        call: Option<&CallWatch>,
    ) -> Result<(), TransportError> {
        match self {
            Self::Lines(link) => link.post(message).await,
            Self::Sse(link) => link.post(message).await,
            Self::Http(link) => link.post(message, call).await,
        }
    }

    /// Ends it. What is still under way fails; the server is told where the transport has a way to.
    pub(crate) async fn close(&self, within: Duration) -> Result<(), TransportError> {
        match self {
            Self::Lines(link) => link.close(within).await,
            Self::Sse(link) => {
                link.close();
                Ok(())
            }
            Self::Http(link) => link.close(within).await,
        }
    }

    /// The name used in status.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Lines(link) => link.name(),
            Self::Sse(_) => "sse",
            Self::Http(link) => link.name(),
        }
    }

    /// The child's process id.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Lines(link) => link.pid(),
            Self::Sse(_) | Self::Http(_) => None,
        }
    }
}
