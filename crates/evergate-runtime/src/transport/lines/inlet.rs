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
pub(crate) enum Inlet {
    Child(ChildStdout),
    /// The same, moved.
    #[cfg(unix)]
    Pipe(pipe::Receiver),
    Memory(ReadHalf<DuplexStream>),
}

// === impl Inlet ===

impl Inlet {
    /// The same, but that the system wakes another runtime up when something comes.
    #[cfg(unix)]
    pub(super) fn moved_to(self, home: &Handle) -> io::Result<Self> {
        let descriptor = match self {
            Self::Child(stdout) => stdout.into_owned_fd()?,
            Self::Pipe(pipe) => pipe.into_nonblocking_fd()?,
            Self::Memory(_) => return Ok(self),
        };
        let _there = home.enter();
        pipe::Receiver::from_owned_fd(descriptor).map(Self::Pipe)
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
        match self.get_mut() {
            Self::Child(stdout) => Pin::new(stdout).poll_read(context, buffer),
            #[cfg(unix)]
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(context, buffer),
            Self::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}
