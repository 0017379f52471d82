//! Where the lines of a server come in.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, DuplexStream, ReadBuf, ReadHalf};
#[cfg(unix)]
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::runtime::Handle;

#[derive(Debug)]
pub(crate) struct Inlet {
    source: Source,
    may_move: bool,
}

#[derive(Debug)]
enum Source {
    Child(ChildStdout),
    /// The same, moved.
    #[cfg(unix)]
    Pipe(pipe::Receiver),
    Memory(ReadHalf<DuplexStream>),
}

// === impl Inlet ===

impl Inlet {
    pub(crate) fn of_child(stdout: ChildStdout, may_move: bool) -> Self {
        Self { source: Source::Child(stdout), may_move }
    }

    pub(crate) fn in_memory(stream: ReadHalf<DuplexStream>) -> Self {
        Self { source: Source::Memory(stream), may_move: false }
    }

    /// Whether it may be read on other runtimes than the one it was made on.
    pub(super) fn may_move(&self) -> bool {
        self.may_move
    }

    /// The same, but that the system wakes another runtime up when something comes.
    #[cfg(unix)]
    pub(super) fn moved_to(self, home: &Handle) -> io::Result<Self> {
        let descriptor = match self.source {
            Source::Child(stdout) if self.may_move => stdout.into_owned_fd()?,
            Source::Pipe(pipe) => pipe.into_nonblocking_fd()?,
            source => return Ok(Self { source, ..self }),
        };
        let _there = home.enter();
        let source = Source::Pipe(pipe::Receiver::from_owned_fd(descriptor)?);
        Ok(Self { source, ..self })
    }

    /// Who waits for it is woken up by way of the old one.
    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(super) fn moved_to(self, _: &Handle) -> io::Result<Self> {
        Ok(self)
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().source {
            Source::Child(stdout) => Pin::new(stdout).poll_read(context, buffer),
            #[cfg(unix)]
            Source::Pipe(pipe) => Pin::new(pipe).poll_read(context, buffer),
            Source::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}
