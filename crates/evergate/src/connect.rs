//! The other direction of an import: the entry that makes a client use Evergate, and how it gets into the client's file.
//!
//! [`entry`] knows what each client wants to read; [`json_insert`] and [`toml_insert`] put it into the text of a file and
//! leave everything else as it is, comments and layout included. What comes out is parsed again and compared with what
//! was meant, so that a file is changed in exactly one way or not at all.

mod entry;
mod json_insert;
mod toml_insert;

use serde_json::Value;

use crate::import::{Client, Syntax};

pub(crate) use entry::{Target, Way};

/// What a change of a text came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The entry is there, as it should be.
    Nothing,
    /// There was no such entry.
    Added(String),
    /// There was one that led elsewhere.
    Replaced(String),
}

/// A text that cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CannotChange {
    #[error("is not valid {format}: {message}")]
    Malformed { format: &'static str, position: Option<(usize, usize)>, message: String },
    #[error("expected an object at {0}")]
    NotAnObject(String),
    #[error("has another server called {0:?}: remove it, or choose another name with --name")]
    Taken(String),
    #[error("is written in a way that nothing can be added to: add the entry by hand")]
    Unclear,
}

// === impl CannotChange ===

impl CannotChange {
    /// Line and column of what is wrong, if that is known.
    pub(crate) fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Malformed { position, .. } => *position,
            _ => None,
        }
    }
}

/// Puts an entry into the text of a client's file.
pub(crate) fn changed(
    client: Client,
    text: &str,
    name: &str,
    entry: &Value,
) -> Result<Change, CannotChange> {
    match client {
        Client::Codex => toml_insert::changed(text, entry::section(client), name, entry),
        client => json_insert::changed(text, entry::section(client), name, entry),
    }
}

/// How many other servers the client has in its file.
pub(crate) fn others(client: Client, text: &str, name: &str) -> usize {
    let syntax = if client == Client::Codex { Syntax::Toml } else { Syntax::Json };
    let document = syntax.parse(text).unwrap_or_default();
    let servers = document.get(entry::section(client)).and_then(Value::as_object);
    servers.into_iter().flatten().filter(|(other, _)| *other != name).count()
}
