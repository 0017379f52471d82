//! A client's connection that does not wait for ever to be read from.
//!
//! A result that goes out while it comes in holds a place at its server. A client that stops reading would hold it as
//! long as it likes, and all places if it did so often enough.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// Longer than any network needs to take another packet.
const TAKES_NOTHING_FOR: Duration = Duration::from_secs(60);

/// Fails if the other side takes nothing for too long.
pub(super) struct Impatient {
    stream: TokioIo<TcpStream>,
    /// Set while there is something it does not take.
    stalled: Option<Pin<Box<Sleep>>>,
}

// === impl Impatient ===

impl Impatient {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: TokioIo::new(stream), stalled: None }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream.into_inner()
    }

    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let new = || Box::pin(tokio::time::sleep(TAKES_NOTHING_FOR));
        let stalled = self.stalled.get_or_insert_with(new);
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watched(context, written)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (peer, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut stream = Impatient::new(accepted.unwrap().0);
        let bytes = vec![0; 1 << 20];
        // Once the system holds as much as it can, time passes quickly.
        let error = loop {
            let written = poll_fn(|context| {
                let written = Pin::new(&mut stream).poll_write(context, &bytes);
                Poll::Ready(written)
            });
            match written.await {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => break error,
                Poll::Pending => {
                    tokio::time::pause();
                    tokio::time::advance(TAKES_NOTHING_FOR / 2).await;
                    tokio::time::resume();
                }
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(peer);
    }
}
