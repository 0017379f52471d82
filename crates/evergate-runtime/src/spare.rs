//! Memory that the connections of a thread use one after the other: most need it for a moment, and by then it is still in
//! the processor's caches, where that of each connection would not be.

use std::cell::Cell;

/// Hardly any needs more, and what is kept is kept for ever.
const LARGEST: usize = 64 * 1024;

thread_local! {
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty text.
pub fn text() -> Vec<u8> {
    // At the end of a thread there is none.
    TEXT.try_with(Cell::take).unwrap_or_default()
}

/// For whoever is next.
pub fn keep_text(mut text: Vec<u8>) {
    if (1..=LARGEST).contains(&text.capacity()) {
        text.clear();
        let _ = TEXT.try_with(|spare| spare.set(text));
    }
}
