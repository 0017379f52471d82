//! What a client hears of a call that takes its time: the server's own reports, and, where a stream has no comments to keep
//! it alive, a sign of life while the call waits for its server.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evergate_runtime::{Progress, RawJson, ServerHandle, StateKind, wire};
use serde_json::json;

use super::outlet::Outlet;
use super::params;

/// Smaller than any step a server reports, so that its own reports go on from there.
const STEP: f64 = 1e-6;

/// One call of a client that wants to hear of progress. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    /// `None` while nobody wants to hear of it.
    token: Arc<Mutex<Option<RawJson>>>,
    stream: Outlet,
    /// What the client was told last: it must only ever hear of more.
    told: Arc<Mutex<f64>>,
}

// === impl Patience ===

impl Patience {
    pub(super) fn new(token: RawJson, stream: Outlet) -> Self {
        let token = Arc::new(Mutex::new(Some(token)));
        Self { token, stream, told: Arc::new(Mutex::new(f64::NEG_INFINITY)) }
    }

    /// From now on under another token, or not at all.
    pub(super) fn renew(&self, token: Option<RawJson>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    fn token(&self) -> Option<RawJson> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Passes on what the server reports.
    pub(super) fn report(&self, progress: &Progress) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.progress <= *told {
            return;
        }
        *told = progress.progress;
        let message = self.token().and_then(|token| params::progress(&progress.raw, &token));
        if let Some(message) = message {
            self.stream.offer(message);
        }
    }

    /// Says, every now and then, that the call waits for its server, for as long as it does. Never ends.
    pub(super) async fn keep(&self, server: &ServerHandle, every: Duration) -> Infallible {
        loop {
            tokio::time::sleep(every).await;
            let state = server.status().state;
            if state != StateKind::Connected {
                self.wait_for(server.name(), state);
            }
        }
    }

    fn wait_for(&self, server: &str, state: StateKind) {
        let Some(token) = self.token() else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = told.max(0.0) + STEP;
        // Serialized, never parsed again: the token is the client's own text.
        let params =
            json!({ "progress": *told, "message": format!("waiting for {server} ({state})") });
        let text = params.to_string();
        let text = format!("{{\"progressToken\":{},{}", token.as_str(), &text[1..]);
        self.stream.offer(wire::notification("notifications/progress", Some(text.as_bytes())));
    }
}
