//! The `mcpServers` file that MCP clients already have, read so that every mistake is found at once.
//!
//! [`sources`] fetches the text and parses it; [`reader`] walks the result and notes what is wrong with its path;
//! [`server`] turns one entry into settings, with [`lifecycle`] and [`tools`] for its sections; [`gateway`] reads what
//! concerns all of them; [`variables`] fills in `${…}`; [`keys`] is the table of everything that can be written.
//!
//! A mistake in one of Evergate's own sections is an error. A key nobody knows in a server entry is a warning, because
//! the file may have been written for another client. An unset variable switches off only the server that needs it.

mod digest;
mod duration;
mod finding;
mod gateway;
mod keys;
pub(crate) mod launched;
mod lifecycle;
mod pattern;
mod rate;
mod reader;
mod relaxed_json;
mod secret;
mod server;
mod size;
mod sources;
mod spelling;
#[cfg(test)]
mod tests;
mod tools;
mod variables;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

pub(crate) use duration::{LONGEST as LONGEST_DURATION, read_text as parse_duration};
pub(crate) use finding::{Finding, Severity};
#[cfg(feature = "otel")]
pub(crate) use gateway::Otlp;
pub(crate) use gateway::parse_listen;
pub(crate) use gateway::{Audit, Gateway, Key, Naming, Scopes};
pub(crate) use keys::{help, schema};
pub(crate) use pattern::Pattern;
pub(crate) use rate::Rate;
pub(crate) use relaxed_json::strict as strict_json;
pub(crate) use secret::Secret;
pub(crate) use server::{Isolation, Server};
pub(crate) use sources::Sources;
pub(crate) use spelling::{distance, nearest};
pub(crate) use tools::ToolRules;

use reader::{Notes, Reader, Surroundings};

/// Everything that was read, as one.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// By name.
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) gateway: Gateway,
    /// What there is to say about it, the gateway first.
    pub(crate) findings: Vec<Finding>,
}

/// One source, parsed.
struct Document {
    name: String,
    /// Relative paths in it start here.
    folder: PathBuf,
    value: Value,
}

const SERVERS: &str = "mcpServers";
const GATEWAY: &str = "gateway";

// === impl Config ===

impl Config {
    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// Reads all documents as one configuration.
fn read(documents: &[Document], environment: &dyn Fn(&str) -> Option<String>) -> Config {
    let mut notes = Notes::default();
    let (gateway, servers) = read_noting(documents, environment, &mut notes);
    Config { servers, gateway, findings: notes.findings }
}

fn read_noting(
    documents: &[Document],
    environment: &dyn Fn(&str) -> Option<String>,
    notes: &mut Notes,
) -> (Gateway, BTreeMap<String, Server>) {
    let several = documents.len() > 1;
    // The gateway first, wherever it is: servers begin with what it says for all of them.
    let mut gateway: Option<(Gateway, &str)> = None;
    for document in documents {
        let mut top = document.reader(notes, environment, several);
        if let Some(read) = top.own_section(GATEWAY, gateway::read) {
            match &gateway {
                Some((_, other)) => top.error(GATEWAY, &format!("is in {other} too")),
                None => gateway = Some((read, &document.name)),
            }
        }
    }
    let gateway = gateway.map(|(gateway, _)| gateway).unwrap_or_default();
    let mut servers = BTreeMap::new();
    let mut origins: BTreeMap<String, &str> = BTreeMap::new();
    let mut any = false;
    for document in documents {
        let mut top = document.reader(notes, environment, several);
        any |= top.has(SERVERS);
        if top.object().is_none() {
            top.error("", "must be an object");
        }
        for (name, entry) in top.section(SERVERS).into_iter().flatten() {
            let path = format!("{SERVERS}.{name}");
            if let Some(other) = origins.get(name) {
                top.error(&path, &format!("is in {other} too"));
                continue;
            }
            origins.insert(name.clone(), &document.name);
            let read = top.foreign(&path, "mcpServers.*", entry, |reader| {
                server::read(name, reader, &gateway)
            });
            servers.extend(read.map(|server| (name.clone(), server)));
        }
        // Editors find the schema by it.
        for key in ["$schema", GATEWAY] {
            top.take(key);
        }
        top.complete(Severity::Warning);
    }
    if !any && let Some(document) = documents.first() {
        let mut top = document.reader(notes, environment, false);
        top.error(SERVERS, "is missing: an object of servers by name is expected");
    }
    (gateway, servers)
}

// === impl Document ===

impl Document {
    fn reader<'a>(
        &'a self,
        notes: &'a mut Notes,
        environment: &'a dyn Fn(&str) -> Option<String>,
        several: bool,
    ) -> Reader<'a> {
        let file = several.then_some(self.name.as_str());
        Reader::top(&self.value, notes, Surroundings { environment, folder: &self.folder, file })
    }
}
