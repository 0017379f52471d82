//! What the outside tells the process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Signals that end the process.
#[derive(Debug)]
pub(super) struct Signals {
    /// When the process was first told to end.
    told: Option<Instant>,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

/// Signals that come so soon after the first are the same word twice: `timeout` signals its child and then its group, a
/// terminal all processes in the foreground, and some of those pass it on. Only who saw that it takes long means that it is to
/// end at once.
const SAME_WORD: Duration = Duration::from_secs(1);

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
            told: None,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { told: None })
    }

    /// Resolves when the process is told to end, and each time it is told so again.
    pub(super) async fn end(&mut self) {
        loop {
            self.next().await;
            if self.told.is_none_or(|told| told.elapsed() >= SAME_WORD) {
                self.told();
                return;
            }
        }
    }

    /// It was told to end in another way.
    pub(super) fn told(&mut self) {
        self.told.get_or_insert_with(Instant::now);
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
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
