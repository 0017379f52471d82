//! One HTTP connection, which a fault can break from within.

use std::convert::Infallible;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::Server;
use crate::http::controlled_io::{ControlledIo, WriteAllowance};
use crate::http::routes;
use crate::tasks::Tasks;

/// What a request can do to the connection that carries it.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    commands: mpsc::Sender<Command>,
    allowance: WriteAllowance,
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Cut,
    HalfClose,
}

/// What a request needs to know about where it came in.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) server: Server,
    pub(crate) home: u64,
    /// Calls run here and not in the connection: losing the connection is not a cancellation.
    pub(crate) tasks: Tasks,
    pub(crate) control: Control,
}

/// Counts an open connection.
struct Open<'a>(&'a Server);

// === impl Control ===

impl Control {
    /// Drops the connection once what was written before has left.
    pub(crate) fn cut(&self) {
        let _ = self.commands.try_send(Command::Cut);
    }

    pub(crate) fn half_close(&self) {
        let _ = self.commands.try_send(Command::HalfClose);
    }

    pub(crate) fn close_after(&self, bytes: usize) {
        self.allowance.limit(bytes);
    }
}

/// Serves a connection until it ends, a fault breaks it or `tasks` stop. A broken connection is
/// handed to `discard`.
pub(crate) async fn serve<I>(
    server: &Server,
    home: u64,
    tasks: &Tasks,
    io: I,
    discard: impl FnOnce(I),
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _open = Open::new(server);
    // A connection obeys one command; more would find it gone.
    let (commands, mut to_obey) = mpsc::channel(1);
    let allowance = WriteAllowance::unlimited();
    let control = Control { commands, allowance: allowance.clone() };
    let context = Context { server: server.clone(), home, tasks: tasks.clone(), control };
    let service = service_fn(move |request| {
        let context = context.clone();
        async move { Ok::<_, Infallible>(routes::route(context, request).await) }
    });
    let io = TokioIo::new(ControlledIo::new(io, allowance));
    let mut connection =
        http1::Builder::new().header_read_timeout(None).serve_connection(io, service);
    let stopped = tasks.stopped();
    let command = tokio::select! {
        // In this order, so that the connection has written all it could before it is broken.
        biased;
        _ = &mut connection => return,
        Some(command) = to_obey.recv() => command,
        () = stopped.cancelled() => Command::Cut,
    };
    let mut io = connection.into_parts().io.into_inner().inner;
    match command {
        Command::Cut => discard(io),
        Command::HalfClose => {
            drop(io.shutdown().await);
            let mut ignored = [0; 1024];
            let reading = async { while io.read(&mut ignored).await.is_ok_and(|n| n > 0) {} };
            stopped.run_until_cancelled(reading).await;
        }
    }
}

// === impl Open ===

impl<'a> Open<'a> {
    fn new(server: &'a Server) -> Self {
        server.count(|tally| tally.connections_open += 1);
        Self(server)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.count(|tally| tally.connections_open -= 1);
    }
}
