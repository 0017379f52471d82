//! A server in the same process, reached over an in-memory byte stream. For tests and for embedded servers.

use std::io;
use std::sync::Arc;

use tokio::io::DuplexStream;

/// Opens a stream to an in-process server; called once per connection. The server reads and writes one JSON-RPC
/// message per line on the other end.
///
/// ```
/// use evergate_runtime::{MemoryConnector, Settings};
///
/// let connector = MemoryConnector::new(|| {
///     let (ours, theirs) = tokio::io::duplex(64 * 1024);
///     // … hand `theirs` to the server …
///     # drop(theirs);
///     Ok(ours)
/// });
/// let settings = Settings::memory(connector);
/// ```
#[derive(Clone)]
pub struct MemoryConnector(Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync>);

// === impl MemoryConnector ===

impl MemoryConnector {
    /// Wraps the function that opens a stream.
    pub fn new<F>(connect: F) -> Self
    where
        F: Fn() -> io::Result<DuplexStream> + Send + Sync + 'static,
    {
        Self(Arc::new(connect))
    }

    pub(crate) fn connect(&self) -> io::Result<DuplexStream> {
        (self.0)()
    }
}

impl std::fmt::Debug for MemoryConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryConnector")
    }
}
