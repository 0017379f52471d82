//! Headers that are the embedder's own: fixed ones, those asked for before every request, and those of one call.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::body;
use crate::connection::CallWatch;
use crate::entrusted::Entrusted;
use crate::settings::{HeaderSource, is_reserved};

/// What is put on every request of a link. Cheap to clone, but for the fixed ones.
#[derive(Clone)]
pub(crate) struct CustomHeaders {
    fixed: HeaderMap,
    source: Option<HeaderSource>,
    /// Told what the source says: a server may repeat that.
    entrusted: Entrusted,
}

// === impl CustomHeaders ===

impl CustomHeaders {
    pub(crate) fn new(
        fixed: HeaderMap,
        source: Option<HeaderSource>,
        entrusted: Entrusted,
    ) -> Self {
        Self { fixed, source, entrusted }
    }

    pub(crate) fn fixed(&self) -> &HeaderMap {
        &self.fixed
    }

    /// Adds what changes to headers that hold the fixed ones already. The later wins: the source over what is fixed,
    /// the call whose own request it is over both.
    pub(crate) fn complete(&self, headers: &mut HeaderMap, call: Option<&CallWatch>) {
        if let Some(source) = &self.source {
            let changing = read(source);
            self.entrusted.learn(changing.values());
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

    /// What a server said, for people to read, without what it was trusted with: by the settings, by the source, with this
    /// call, and `others`.
    pub(crate) fn detail<'a>(
        &self,
        body: &[u8],
        call: Option<&'a CallWatch>,
        others: impl Iterator<Item = &'a str>,
    ) -> String {
        let own = call.and_then(CallWatch::headers).into_iter().flat_map(HeaderMap::values);
        let own = own.filter_map(|value| value.to_str().ok());
        body::detail(body, |text| self.entrusted.hide_also(text, own.chain(others)))
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
