//! What the outside tells the process.

use std::io;
use std::sync::Arc;

use tokio::sync::Notify;

/// Signals that end the process, and the one that makes it read its configuration again.
#[derive(Debug)]
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

/// Resolves each time somebody asks to read the configuration again.
#[derive(Debug)]
pub(super) struct Hangups {
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
    never: Arc<Notify>,
}

// === impl Signals ===

impl Signals {
    #[cfg(unix)]
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Resolves when the process is told to end, each time.
    #[cfg(unix)]
    pub(super) async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(super) async fn end(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

// === impl Hangups ===

impl Hangups {
    /// From now on a hangup no longer ends the process.
    pub(super) fn new() -> Self {
        Self {
            #[cfg(unix)]
            hangup: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
            never: Arc::default(),
        }
    }

    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(hangup) = &mut self.hangup
            && hangup.recv().await.is_some()
        {
            return;
        }
        self.never.notified().await;
    }
}
