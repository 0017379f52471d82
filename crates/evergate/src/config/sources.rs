//! Where a configuration comes from: any number of files, and standard input.
//!
//! Together they are one configuration: each may bring servers, one may bring the gateway section. What two of them say
//! differently is an error, because nobody could tell which one counts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Config, Document, read, relaxed_json};
use crate::json_text;

/// What was given to be read.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) files: Vec<PathBuf>,
    /// A document that came over standard input.
    pub(crate) stdin: Option<String>,
}

/// A source cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot read {path}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("{path} is not valid {format}: {message}")]
    Syntax { path: String, format: &'static str, message: String },
}

const STDIN: &str = "standard input";

// === impl Sources ===

impl Sources {
    /// Reads everything. Problems of content are findings of the configuration, not errors.
    pub(crate) fn load(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, LoadError> {
        let files = self.files.iter().map(|path| file(path));
        let stdin = self.stdin.iter().map(|text| {
            let value = of_unknown_format(text)?;
            Ok(Document { name: STDIN.to_owned(), folder: PathBuf::from("."), value })
        });
        let documents = files.chain(stdin).collect::<Result<Vec<_>, LoadError>>()?;
        Ok(read(&documents, environment))
    }

    /// What they are, for messages.
    pub(crate) fn names(&self) -> String {
        let files = self.files.iter().map(|path| path.display().to_string());
        let all = files.chain(self.stdin.iter().map(|_| STDIN.to_owned()));
        all.collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Debug for Sources {
    /// What came over standard input may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("names", &self.names()).finish()
    }
}

/// TOML if the name ends so, else JSON.
fn file(path: &Path) -> Result<Document, LoadError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| LoadError::Unreadable { path: name.clone(), source })?;
    let toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let value = if toml { of_toml(&name, &text)? } else { of_json(&name, &text)? };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok(Document { name, folder: folder.unwrap_or(Path::new(".")).to_owned(), value })
}

/// JSON, or TOML if it is not that. When it is neither, the first character tells which one was meant.
fn of_unknown_format(text: &str) -> Result<Value, LoadError> {
    of_json(STDIN, text).or_else(|json_error| {
        let meant_json = text.trim_start().starts_with(['{', '/']);
        of_toml(STDIN, text).map_err(|error| if meant_json { json_error } else { error })
    })
}

fn of_json(name: &str, text: &str) -> Result<Value, LoadError> {
    let wrong = |message| LoadError::Syntax { path: name.to_owned(), format: "JSON", message };
    let strict = relaxed_json::strict(text);
    let value: Value = serde_json::from_str(&strict).map_err(|error| wrong(error.to_string()))?;
    // What is there twice the parser has kept once. To find out which it is takes longer than all of the parsing.
    if members(&value) == relaxed_json::members(&strict) {
        return Ok(value);
    }
    match json_text::repeated(text, &["mcpServers", "gateway"]) {
        Some((key, at)) => {
            let (line, column) = line_and_column(&text[..at]);
            Err(wrong(format!("{key:?} is there twice, again at line {line} column {column}")))
        }
        None => Ok(value),
    }
}

/// How many members all of its objects have together.
fn members(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        _ => 0,
    }
}

fn of_toml(name: &str, text: &str) -> Result<Value, LoadError> {
    toml::from_str(text).map_err(|error| LoadError::Syntax {
        path: name.to_owned(),
        format: "TOML",
        message: toml_message(&error, text),
    })
}

/// Where and what, but not the line itself, which the error shows otherwise: it may hold a secret.
fn toml_message(error: &toml::de::Error, text: &str) -> String {
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return error.message().to_owned();
    };
    let (line, column) = line_and_column(before);
    format!("{} at line {line} column {column}", error.message())
}

fn line_and_column(before: &str) -> (usize, usize) {
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
}
