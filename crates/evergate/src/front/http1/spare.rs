//! Memory that the connections of a thread use one after the other: most need it for a moment, and by then it is still in
//! the processor's caches, where that of each connection would not be.

use std::cell::Cell;

use http::HeaderMap;

thread_local! {
    static HEADERS: Cell<HeaderMap> = Cell::default();
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty map.
pub(crate) fn headers() -> HeaderMap {
    HEADERS.take()
}

/// For whoever is next.
pub(crate) fn keep_headers(mut headers: HeaderMap) {
    // Somebody may have taken all of it.
    if headers.capacity() > 0 {
        headers.clear();
        HEADERS.set(headers);
    }
}

/// An empty text.
pub(super) fn text() -> Vec<u8> {
    TEXT.take()
}

/// For whoever is next.
pub(super) fn keep_text(mut text: Vec<u8>) {
    if text.capacity() > 0 {
        text.clear();
        TEXT.set(text);
    }
}
