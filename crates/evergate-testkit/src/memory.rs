//! A server in memory: no sockets, no processes, so that tests can run on paused time.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::DuplexStream;

use crate::Server;
use crate::lines::serve_lines_slowly;
use crate::server::lock;
use crate::tasks::Tasks;

/// The capacity of each direction of a connection; large enough that no test blocks on it by
/// accident, small enough that a client that never reads does.
const PIPE_BYTES: usize = 256 * 1024;

/// A server that is reached with [`MemoryServer::connect`] and speaks one JSON-RPC message per
/// line.
#[derive(Debug, Clone)]
pub struct MemoryServer {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    killed: bool,
    refuse: usize,
    connect_delay: Duration,
    /// The connections of this life; a kill ends them, a revival begins with new ones.
    tasks: Tasks,
}

// === impl MemoryServer ===

impl MemoryServer {
    /// A server that is up.
    pub fn new(server: Server) -> Self {
        Self { server, state: Arc::default() }
    }

    /// Opens a connection. Must be called within a Tokio runtime.
    ///
    /// Fails with [`io::ErrorKind::ConnectionRefused`] while the server is dead or refuses.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        let mut state = lock(&self.state);
        if state.refuse > 0 {
            state.refuse -= 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if state.killed {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (client, ours) = tokio::io::duplex(PIPE_BYTES);
        let (server, delay) = (self.server.clone(), state.connect_delay);
        state.tasks.spawn(async move {
            let (reader, writer) = tokio::io::split(ours);
            serve_lines_slowly(&server, reader, writer, delay).await;
        });
        Ok(client)
    }

    /// Drops every live connection and refuses new ones until [`MemoryServer::revive`].
    pub fn kill(&self) {
        let mut state = lock(&self.state);
        state.killed = true;
        std::mem::take(&mut state.tasks).stop();
    }

    /// Accepts connections again.
    pub fn revive(&self) {
        lock(&self.state).killed = false;
    }

    /// From now on new connections answer `initialize` only after this time.
    pub fn set_connect_delay(&self, delay: Duration) {
        lock(&self.state).connect_delay = delay;
    }

    /// Refuses the next `n` connections.
    pub fn refuse_next(&self, n: usize) {
        lock(&self.state).refuse = n;
    }

    /// The server behind it.
    pub fn server(&self) -> &Server {
        &self.server
    }
}
