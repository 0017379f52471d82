//! Servers that are configured elsewhere, as a configuration of ours.
//!
//! [`client`] says which clients there are and where they keep their files; [`document`] reads one of those; a file per
//! format (`claude.rs`, `codex.rs`, …) turns what is in it into [`Server`]s, with [`draft`] for what all of them share;
//! [`references`] makes one spelling of everybody's variables; [`merge`] makes one list of all sources; [`secrets`] takes
//! literal secrets out of it; [`outcome`] has the result checked by the real loader; [`report`] tells people.
//!
//! Nothing here prints a value of a source: reports name files, keys and variables. A source that cannot be understood
//! ends the import, with the position of everything that is wrong.

mod claude;
mod client;
mod codex;
mod cursor;
mod docker_agent;
mod document;
mod draft;
mod entry;
mod gemini;
mod gh_aw;
mod locate;
mod merge;
mod outcome;
mod plain;
mod references;
mod report;
mod secrets;
mod toml_text;
mod vscode;
mod yaml;
mod zed;

use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::Value;

pub(crate) use client::{Client, Machine};
pub(crate) use document::{BadSource, LARGEST, Malformed, Syntax, text_of, utf8};
pub(crate) use outcome::{Input, import};
pub(crate) use report::{as_json, as_text, count};
pub(crate) use toml_text::as_toml;

use entry::{Path, Problem};

/// What one file is, for those who read it.
pub(crate) struct Source {
    /// Whose format it has.
    pub(crate) client: Client,
    pub(crate) file: PathBuf,
    /// The file as people are shown it.
    pub(crate) shown: String,
    /// What relative paths in it start at, if that is known.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    /// The project that is imported for, in every spelling.
    pub(crate) here: Vec<PathBuf>,
}

/// One server as it was understood. Has no `Debug`: its entry may still hold secrets.
pub(crate) struct Server {
    pub(crate) name: String,
    /// Whose, and where: the file and the key in it.
    pub(crate) client: Client,
    pub(crate) file: String,
    pub(crate) path: Path,
    /// As it is written for us.
    pub(crate) entry: IndexMap<&'static str, Value>,
    /// Where keys of the entry come from if the source has other names for them.
    pub(crate) renamed: Vec<(&'static str, &'static str)>,
    /// What became of keys that are not simply the same.
    pub(crate) mapped: Vec<String>,
    pub(crate) dropped: Vec<Dropped>,
    /// Variables that the source refers to.
    pub(crate) asked: Vec<Asked>,
}

/// A key that has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) key: String,
    pub(crate) why: String,
}

/// A variable that a source refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) variable: String,
    /// What it is, if the source calls it something else.
    pub(crate) what: Option<String>,
    /// The server works without it.
    pub(crate) optional: bool,
}

/// A server that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotTaken {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) why: String,
}

/// What a file brought.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) servers: Vec<Server>,
    pub(crate) not_taken: Vec<NotTaken>,
    /// Things that make the file unusable.
    pub(crate) problems: Vec<Problem>,
    /// A `gateway` section of ours.
    pub(crate) gateway: IndexMap<&'static str, Value>,
    /// What is to be said about the file as a whole.
    pub(crate) mapped: Vec<String>,
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) asked: Vec<Asked>,
    /// The file has a place for servers, even if there is none in it.
    pub(crate) has_servers: bool,
}

// === impl Found ===

impl Found {
    fn not_taken(&mut self, source: &Source, name: &str, why: impl Into<String>) {
        let (name, file) = (name.to_owned(), source.shown.clone());
        self.not_taken.push(NotTaken { name, file, why: why.into() });
    }
}

/// Reads a document by its format.
fn read(source: &Source, document: &Value) -> Found {
    let mut found = Found::default();
    let out = &mut found;
    match source.client {
        Client::Claude => claude::read(source, document, out),
        Client::Cursor => cursor::read(source, document, out),
        Client::VsCode => vscode::read(source, document, out),
        Client::Codex => codex::read(source, document, out),
        Client::Zed => zed::read(source, document, out),
        Client::Gemini => gemini::read(source, document, out),
        Client::GhAw => gh_aw::read(source, document, out),
        Client::DockerAgent => docker_agent::read(source, document, out),
        Client::ClaudeDesktop | Client::Other => plain::read(source, document, out),
    }
    found
}
