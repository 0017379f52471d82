//! A byte stream that can be told to stop after some bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many more bytes may be written. `usize::MAX` means any number.
#[derive(Debug, Clone)]
pub(crate) struct WriteAllowance(Arc<AtomicUsize>);

/// Passes everything through until the allowance is used up; then writing fails.
#[derive(Debug)]
pub(crate) struct ControlledIo<I> {
    pub(crate) inner: I,
    allowance: WriteAllowance,
}

// === impl WriteAllowance ===

impl WriteAllowance {
    pub(crate) fn unlimited() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    pub(crate) fn limit(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn spend(&self, bytes: usize) {
        if self.left() != usize::MAX {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

// === impl ControlledIo ===

impl<I> ControlledIo<I> {
    pub(crate) fn new(inner: I, allowance: WriteAllowance) -> Self {
        Self { inner, allowance }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for ControlledIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for ControlledIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let allowed = self.allowance.left().min(buf.len());
        if allowed == 0 && !buf.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, &buf[..allowed]);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.allowance.spend(*bytes);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
