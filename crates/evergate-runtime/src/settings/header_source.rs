//! Headers that are not known in advance.

use std::sync::Arc;

/// Says what to send with the next request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HeaderSource(Arc<AskFn>);

type AskFn = dyn Fn() -> Vec<(String, String)> + Send + Sync;

// === impl HeaderSource ===

impl HeaderSource {
    pub(crate) fn new(ask: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    pub(crate) fn ask(&self) -> Vec<(String, String)> {
        (self.0)()
    }
}
