//! One file of a client: from bytes to a document, or to the place where it stops being one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path as FilePath;

use serde_json::Value;

use super::entry::Problem;
use super::{locate, yaml};
use crate::config::strict_json;

/// No configuration that people write comes near this.
pub(crate) const LARGEST: u64 = 16 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// With comments and trailing commas, if somebody likes them.
    Json,
    Toml,
    Yaml,
}

/// A file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadSource {
    #[error("cannot read {file}")]
    Unreadable { file: String, source: io::Error },
    #[error("{file} is not a file")]
    NotAFile { file: String },
    #[error("{file} is larger than 16 MiB")]
    TooLarge { file: String },
    #[error("{0}")]
    Malformed(Malformed),
}

/// Where a document is wrong, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) file: String,
    /// Line and column, both from 1 on.
    pub(crate) position: Option<(usize, usize)>,
    pub(crate) message: String,
}

// === impl Syntax ===

impl Syntax {
    /// By the file's name; without one to tell, by how the text begins.
    pub(crate) fn of(file: &FilePath, text: &str) -> Self {
        let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match extension.as_str() {
            "toml" => Self::Toml,
            "yaml" | "yml" => Self::Yaml,
            "json" | "jsonc" | "json5" => Self::Json,
            _ if text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '/']) => {
                Self::Json
            }
            _ if toml::from_str::<toml::Table>(text).is_ok_and(|table| !table.is_empty()) => {
                Self::Toml
            }
            _ => Self::Yaml,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// The document, or where it is wrong and what was expected. Says nothing of what is written there: it may be a
    /// secret.
    pub(crate) fn parse(self, text: &str) -> Result<Value, (Option<(usize, usize)>, String)> {
        match self {
            Self::Json => serde_json::from_str(&strict_json(text)).map_err(|error| {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                (Some((error.line().max(1), error.column().max(1))), message)
            }),
            Self::Toml => toml::from_str(text).map_err(|error| {
                let position = error.span().map(|span| locate::line_and_column(text, span.start));
                (position, error.message().replace('\n', ", "))
            }),
            Self::Yaml => yaml::parse(text),
        }
    }
}

// === impl Malformed ===

impl Malformed {
    /// A problem of content, with its place in the text.
    pub(crate) fn content(file: &str, text: &str, syntax: Syntax, problem: &Problem) -> Self {
        let position = locate::position(text, syntax, &problem.path);
        let path = problem.path.to_string();
        let path = if path.is_empty() { "the whole file".to_owned() } else { path };
        Self { file: file.to_owned(), position, message: format!("{path}: {}", problem.expected) }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// Reads a file as text. Nothing that could go on for ever is opened.
pub(crate) fn text_of(path: &FilePath, shown: &str) -> Result<String, BadSource> {
    let file = || shown.to_owned();
    let unreadable = |source| BadSource::Unreadable { file: file(), source };
    // Asked before it is opened: opening a pipe waits for its other end.
    let about = std::fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(BadSource::NotAFile { file: file() });
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|opened| opened.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(BadSource::TooLarge { file: file() });
    }
    utf8(bytes, shown)
}

/// Bytes as text; says where they stop being that.
pub(crate) fn utf8(bytes: Vec<u8>, shown: &str) -> Result<String, BadSource> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        BadSource::Malformed(Malformed {
            file: shown.to_owned(),
            position: Some(locate::line_and_column(&before, before.len())),
            message: "expected UTF-8 text".to_owned(),
        })
    })
}
