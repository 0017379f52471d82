//! Headers that are the embedder's own: fixed ones, those asked for before every request, and those of one call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::connection::CallWatch;
use crate::settings::{HeaderSource, is_reserved};

/// What is put on every request of a link. Cheap to clone, but for the fixed ones.
#[derive(Clone)]
pub(crate) struct CustomHeaders {
    fixed: HeaderMap,
    source: Option<HeaderSource>,
    /// Values the source gave lately: a server may repeat one in a refusal, and it must not get into an error.
    recent: Arc<Mutex<VecDeque<HeaderValue>>>,
}

/// Enough for a few tokens and their successors; a refusal comes soon after the request it refuses.
const REMEMBERED: usize = 16;

// === impl CustomHeaders ===

impl CustomHeaders {
    pub(crate) fn new(fixed: HeaderMap, source: Option<HeaderSource>) -> Self {
        Self { fixed, source, recent: Arc::default() }
    }

    pub(crate) fn fixed(&self) -> &HeaderMap {
        &self.fixed
    }

    /// Adds what changes to headers that hold the fixed ones already. The later wins: the source over what is fixed,
    /// the call whose own request it is over both.
    pub(crate) fn complete(&self, headers: &mut HeaderMap, call: Option<&CallWatch>) {
        if let Some(source) = &self.source {
            let changing = read(source);
            self.remember(&changing);
            headers.extend(changing);
        }
        if let Some(own) = call.and_then(CallWatch::headers) {
            headers.extend(own.clone());
        }
    }

    /// Whether there is more to add than what is fixed.
    pub(crate) fn changes(&self, call: Option<&CallWatch>) -> bool {
        self.source.is_some() || call.is_some_and(CallWatch::has_own_headers)
    }

    /// Every value that must not be shown.
    pub(crate) fn secrets(&self, call: Option<&CallWatch>) -> Vec<HeaderValue> {
        let own = call.and_then(CallWatch::headers).into_iter().flat_map(HeaderMap::values);
        self.fixed.values().chain(own).chain(self.recent().iter()).cloned().collect()
    }

    fn remember(&self, headers: &HeaderMap) {
        let mut recent = self.recent();
        for value in headers.values() {
            if !recent.contains(value) {
                recent.push_back(value.clone());
            }
        }
        let surplus = recent.len().saturating_sub(REMEMBERED);
        recent.drain(..surplus);
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<HeaderValue>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the source says, as far as it can be sent.
fn read(source: &HeaderSource) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in source.ask() {
        let header = (HeaderName::try_from(name), HeaderValue::try_from(value));
        let (Ok(name), Ok(mut value)) = header else { continue };
        if !is_reserved(&name) {
            value.set_sensitive(true);
            headers.append(name, value);
        }
    }
    headers
}
