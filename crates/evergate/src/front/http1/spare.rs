//! Memory that the connections of a thread use one after the other: most need it for a moment, and by then it is still in
//! the processor's caches, where that of each connection would not be.

use std::cell::Cell;

thread_local! {
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
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
