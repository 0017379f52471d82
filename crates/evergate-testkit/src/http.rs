//! A server on a port: streamable HTTP at `/mcp`, the 2024-11-05 transport at `/sse` and
//! `/message`, plain JSON-RPC at `/rpc`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::Server;
use crate::server::lock;
use crate::tasks::Tasks;

mod body;
mod connection;
mod controlled_io;
mod header_text;
mod legacy_sse;
mod param_headers;
mod plain_rpc;
mod replies;
mod routes;
mod stateless;
mod streamable;
mod streamable_faults;

/// How many connections may wait to be accepted; the usual value.
const BACKLOG: u32 = 1024;

/// Coming back on a port is tried for two seconds; starting a process takes milliseconds.
const REVIVALS: u32 = 1000;
const BETWEEN_REVIVALS: Duration = Duration::from_millis(2);

/// A scripted MCP server on a local port.
///
/// It stops when it is dropped. Options such as [`HttpServer::answer_with`] belong to the
/// [`Server`] and so are shared by all HTTP faces of it.
#[derive(Debug)]
pub struct HttpServer {
    server: Server,
    addr: SocketAddr,
    /// Tells the sessions of this server from those of others that share the same mind.
    home: u64,
    life: Mutex<Life>,
}

#[derive(Debug)]
enum Life {
    Up(Tasks),
    /// Bound, not listening: connections are refused and nobody else gets the port.
    Down(Option<TcpSocket>),
}

/// How streamable HTTP answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerStyle {
    /// One JSON body, except for tools that speak before they answer.
    #[default]
    Json,
    /// Always an SSE stream.
    Sse,
}

#[derive(Debug)]
pub(crate) struct HttpOptions {
    pub(crate) style: AnswerStyle,
    pub(crate) listening: bool,
    pub(crate) rpc_sessions: bool,
    pub(crate) bearer_token: Option<String>,
    /// Whether requests that were meant for another machine are refused.
    pub(crate) local_only: bool,
    /// How long a client is to wait before it resumes a stream that ended too early.
    pub(crate) retry_ms: Option<u64>,
}

/// Serves one HTTP connection over any byte stream until it closes: for in-memory tests and
/// network simulators.
///
/// Sessions span connections, as on a port. To simulate the crash of a host, drop the futures and
/// call [`Server::forget_sessions`].
pub async fn serve_http_io<I>(server: &Server, io: I)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    connection::serve(server, 0, server.loose_tasks(), io, drop).await;
}

// === impl HttpOptions ===

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            style: AnswerStyle::Json,
            listening: true,
            rpc_sessions: false,
            bearer_token: None,
            local_only: false,
            retry_ms: None,
        }
    }
}

// === impl HttpServer ===

impl HttpServer {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If there is no port to be had.
    pub async fn start(server: Server) -> Self {
        Self::start_on(server, (Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts on this address.
    ///
    /// # Panics
    ///
    /// If the address cannot be bound.
    #[expect(clippy::unused_async, reason = "starting may need to wait one day; callers await it")]
    pub async fn start_on(server: Server, addr: SocketAddr) -> Self {
        let listener = reserve(addr).and_then(|socket| socket.listen(BACKLOG));
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen on {addr}: {error}"));
        let addr = listener.local_addr().unwrap_or(addr);
        let home = server.serial();
        let this = Self { server, addr, home, life: Mutex::new(Life::Down(None)) };
        this.accept_on(listener);
        this
    }

    /// The streamable HTTP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// The endpoint of the 2024-11-05 transport.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.addr)
    }

    /// The plain JSON-RPC endpoint.
    pub fn rpc_url(&self) -> String {
        format!("http://{}/rpc", self.addr)
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The server behind it.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// How requests are answered; see [`Server::set_answer_style`].
    pub fn answer_with(&self, style: AnswerStyle) {
        self.server.set_answer_style(style);
    }

    /// Whether there is a listening stream; see [`Server::set_listening_stream`].
    pub fn listening_stream(&self, enabled: bool) {
        self.server.set_listening_stream(enabled);
    }

    /// Dies: cuts every connection, ends every call, forgets every session, refuses new
    /// connections. The port stays reserved for [`HttpServer::revive`].
    pub async fn kill(&self) {
        let tasks = match &*lock(&self.life) {
            Life::Up(tasks) => tasks.clone(),
            Life::Down(_) => return,
        };
        tasks.stop();
        tasks.gone().await;
        *lock(&self.life) = Life::Down(reserve(self.addr).ok());
        self.server.forget(|session| session.home == self.home);
    }

    /// Comes back on the same port, without any session.
    ///
    /// # Panics
    ///
    /// If somebody else took the port.
    pub async fn revive(&self) {
        let mut reserved = match &mut *lock(&self.life) {
            Life::Up(_) => return,
            Life::Down(reserved) => reserved.take(),
        };
        let addr = self.addr;
        let mut attempts = 0;
        let listener = loop {
            let socket = reserved.take().map_or_else(|| reserve(addr), Ok);
            match socket.and_then(|socket| socket.listen(BACKLOG)) {
                Ok(listener) => break listener,
                // A process that is being started elsewhere in this program has a copy of the old listener until it
                // runs its own code.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < REVIVALS => {
                    attempts += 1;
                    tokio::time::sleep(BETWEEN_REVIVALS).await;
                }
                Err(error) => panic!("cannot come back on {addr}: {error}"),
            }
        };
        self.accept_on(listener);
    }

    fn accept_on(&self, listener: TcpListener) {
        let tasks = Tasks::default();
        let (server, home, connections) = (self.server.clone(), self.home, tasks.clone());
        tasks.spawn(async move {
            loop {
                // Out of file descriptors, say: the next attempt may fare better.
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                drop(stream.set_nodelay(true));
                let (server, tasks) = (server.clone(), connections.clone());
                connections.spawn_closing(async move {
                    connection::serve(&server, home, &tasks, stream, reset).await;
                });
            }
        });
        *lock(&self.life) = Life::Up(tasks);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Life::Up(tasks) = &*lock(&self.life) {
            tasks.stop();
        }
        self.server.forget(|session| session.home == self.home);
    }
}

/// Drops a connection so that the peer sees a reset, not an orderly end.
fn reset(stream: TcpStream) {
    drop(stream.set_zero_linger());
    drop(stream);
}

fn reserve(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of the previous life may linger on the port. Windows reads the option as a
    // permission to share the port, which is not what is meant.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}
