//! Names with `*` and `?` in them.

use std::fmt;

use wildmatch::WildMatch;

/// Matches whole names; `*` stands for anything, `?` for one character. Upper and lower case differ, as they do in MCP.
#[derive(Clone)]
pub(crate) struct Pattern {
    text: String,
    matcher: WildMatch,
}

// === impl Pattern ===

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), matcher: WildMatch::new(text) }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.matcher.matches(name)
    }

    /// As it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}
