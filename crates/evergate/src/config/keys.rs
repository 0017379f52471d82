//! Everything that can be written in a configuration, as one table.
//!
//! The JSON Schema, the reference page and the help of `evergate check` are made from it; a test compares it with what
//! the reader asks for, so that none of them can name a key that is not obeyed, or leave one out that is.

mod help;
#[cfg(test)]
mod page;
mod schema;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use help::help;
pub(crate) use schema::schema;

/// One key.
#[derive(Debug, Clone, Copy)]
struct KeyDoc {
    /// Where it is: `*` stands for a name that is free, `[]` for the items of a list.
    path: &'static str,
    kind: Kind,
    /// As it would be written; nothing if there is none.
    default: &'static str,
    /// One sentence, without its full stop.
    about: &'static str,
}

/// What may be written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Path,
    Flag,
    Integer,
    /// One or more.
    Count,
    Number,
    Duration,
    /// Other clients write a bare number.
    DurationOrNumber,
    DurationOrNever,
    Size,
    /// A count and a time.
    Rate,
    Texts,
    Patterns,
    /// Names and texts.
    Pairs,
    Choice(&'static [&'static str]),
    /// A list of some of these words.
    Choices(&'static [&'static str]),
    /// An object whose keys are all known.
    Section,
    /// An object in which other clients write keys of their own.
    Foreign,
    /// An object of the things that `*` describes.
    Map,
    /// A list of the things that `[]` describes.
    List,
    /// A list of patterns, or an object.
    PatternsOrSection,
    /// A text, an object with a file, or a list of those.
    Secrets,
    /// Another client's key that changes nothing.
    Ignored,
}

// === impl KeyDoc ===

impl KeyDoc {
    /// The object it is a key of.
    fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }

    fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// Stands for something nameless: an entry of a map or an item of a list.
    fn is_nameless(&self) -> bool {
        self.path.ends_with('*') || self.path.ends_with("[]")
    }
}
