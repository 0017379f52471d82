//! The `mcpServers` file that MCP clients already have, read so that every mistake is found at once.
//!
//! [`reader`] walks the file and notes what is wrong with its path; [`server`] turns one entry into settings;
//! [`variables`] fills in `${…}`. A mistake in one of Evergate's own sections is an error. A key nobody knows in a server
//! entry is a warning, because the file may have been written for another client. An unset variable switches off only
//! the server that needs it.

mod duration;
mod reader;
mod server;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;
use std::path::Path;

use evergate_runtime::Settings;
use serde_json::Value;

pub(crate) use reader::{Finding, Severity};

use reader::Reader;

/// A file that was read.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// By name.
    pub(crate) servers: BTreeMap<String, Server>,
    /// What there is to say about it, in the order of the file.
    pub(crate) findings: Vec<Finding>,
}

/// One entry of `mcpServers`.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    /// Where it is, fit to be shown.
    pub(crate) summary: String,
    /// Off by the file's own word.
    pub(crate) disabled: bool,
    /// Why it cannot be used although the file wants it: a variable that is not set.
    pub(crate) unusable: Option<String>,
}

/// The file as a whole cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot read {path}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("{path} is not valid {format}: {message}")]
    Syntax { path: String, format: &'static str, message: String },
}

/// Reads one file; TOML if its name ends so, else JSON. Problems of content are findings, not errors.
pub(crate) fn load(
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, LoadError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| LoadError::Unreadable { path: shown.clone(), source })?;
    let toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let syntax = |format, message| LoadError::Syntax { path: shown, format, message };
    let value = if toml {
        toml::from_str::<Value>(&text)
            .map_err(|error| syntax("TOML", error.to_string().trim().to_owned()))?
    } else {
        serde_json::from_str::<Value>(&text).map_err(|error| syntax("JSON", error.to_string()))?
    };
    Ok(read(&value, environment))
}

/// Reads a whole document.
fn read(document: &Value, environment: &dyn Fn(&str) -> Option<String>) -> Config {
    let mut findings = Vec::new();
    let mut servers = BTreeMap::new();
    let mut top = Reader::new(document, "", &mut findings, environment);
    match top.section("mcpServers") {
        Some(entries) => {
            for (name, entry) in entries {
                let path = format!("mcpServers.{name}");
                let mut reader = Reader::new(entry, &path, top.findings(), environment);
                if let Some(server) = server::read(name, &mut reader) {
                    servers.insert(name.clone(), server);
                }
            }
        }
        None => top.error("mcpServers", "is missing: an object of servers by name is expected"),
    }
    top.complete(Severity::Warning);
    Config { servers, findings }
}

// === impl Config ===

impl Config {
    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}
