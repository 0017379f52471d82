//! From files to one configuration that the loader takes.

use std::path::PathBuf;

use http::HeaderName;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::document::{Malformed, Syntax};
use super::secrets::{self, Variables};
use super::{Client, Dropped, Found, Machine, NotTaken, Server, Source, locate, merge, read};
use crate::config::{Severity, Sources};
use crate::json_text;

/// A file with its text.
pub(crate) struct Input {
    /// Whose it is; `Other` has it found out.
    pub(crate) client: Client,
    pub(crate) file: PathBuf,
    /// Where its relative paths start, if it belongs to a project.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) text: String,
}

/// What came of all files.
#[derive(Default)]
pub(crate) struct Imported {
    pub(crate) files: Vec<ReadFile>,
    pub(crate) servers: Vec<Server>,
    pub(crate) not_taken: Vec<NotTaken>,
    pub(crate) variables: Variables,
    /// The configuration.
    pub(crate) document: String,
}

/// A file that was read.
#[derive(Debug, Default)]
pub(crate) struct ReadFile {
    pub(crate) client: &'static str,
    pub(crate) shown: String,
    pub(crate) servers: usize,
    pub(crate) mapped: Vec<String>,
    pub(crate) dropped: Vec<Dropped>,
}

/// Where clients have their servers.
const SECTIONS: &[&str] = &["mcpServers", "servers", "context_servers", "gateway"];

/// The order in which people write the keys of a server; others come behind.
pub(super) const ORDER: &[&str] = &["type", "command", "args", "env", "cwd", "url", "headers"];

/// Understands all files, or says everything that keeps them from being understood.
pub(crate) fn import(inputs: &[Input], machine: &Machine) -> Result<Imported, Vec<Malformed>> {
    let mut imported = Imported::default();
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    let mut gateway: IndexMap<&'static str, Value> = IndexMap::new();
    for input in inputs {
        let shown = machine.shown(&input.file);
        let syntax = Syntax::of(&input.file, &input.text);
        let document = match syntax.parse(&input.text) {
            Ok(document) => document,
            Err((position, message)) => {
                let message = format!("is not valid {}: {message}", syntax.name());
                wrong.push(Malformed { file: shown, position, message });
                continue;
            }
        };
        if let Some(twice) = said_twice(&shown, &input.text, syntax) {
            wrong.push(twice);
            continue;
        }
        let source = Source {
            client: if input.client == Client::Other {
                recognized(&document)
            } else {
                input.client
            },
            file: input.file.clone(),
            shown: shown.clone(),
            folder: input.folder.clone(),
            home: machine.home.clone(),
            here: machine.projects(),
        };
        let found = read(&source, &document);
        let content = |problem| Malformed::content(&shown, &input.text, syntax, problem);
        wrong.extend(found.problems.iter().map(content));
        take(found, &source, &mut imported, &mut all, &mut gateway);
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    imported.servers = merge::merge(all);
    imported.servers.iter_mut().for_each(leave_protocol_headers);
    if !machine.has_docker {
        imported.servers.iter_mut().for_each(miss_docker);
    }
    secrets::extract(&mut imported.servers, &mut imported.variables);
    hide_keys(&mut gateway, &mut imported);
    imported.servers.sort_by(|a, b| a.name.cmp(&b.name));
    check(&mut imported, gateway);
    Ok(imported)
}

fn take(
    found: Found,
    source: &Source,
    imported: &mut Imported,
    all: &mut Vec<Server>,
    gateway: &mut IndexMap<&'static str, Value>,
) {
    if !found.has_servers && found.problems.is_empty() {
        return;
    }
    imported.files.push(ReadFile {
        client: source.client.title(),
        shown: source.shown.clone(),
        servers: found.servers.len(),
        mapped: found.mapped,
        dropped: found.dropped,
    });
    for asked in &found.asked {
        imported.variables.wanted(asked, "the gateway wants it");
    }
    all.extend(found.servers);
    imported.not_taken.extend(found.not_taken);
    for (key, value) in found.gateway {
        gateway.entry(key).or_insert(value);
    }
}

/// Of two servers with one name parsers take the last: better to ask than to lose one.
fn said_twice(file: &str, text: &str, syntax: Syntax) -> Option<Malformed> {
    if syntax != Syntax::Json {
        // The others refuse it themselves.
        return None;
    }
    let (key, at) = json_text::repeated(text, SECTIONS)?;
    let position = Some(locate::line_and_column(text, at));
    let message = format!("{key:?} is there twice: remove one of them, or rename it");
    Some(Malformed { file: file.to_owned(), position, message })
}

/// Whose file this is, from what is in it.
fn recognized(document: &Value) -> Client {
    let has = |key: &str| document.get(key).is_some_and(Value::is_object);
    let servers = ["mcpServers", "servers"].into_iter().filter_map(|key| document.get(key));
    let any_has = |key: &str| {
        let mut entries = servers.clone().filter_map(Value::as_object).flat_map(|all| all.values());
        entries.any(|entry| entry.get(key).is_some())
    };
    let gateway = document.get("gateway");
    let gateway_has = |key: &str| gateway.is_some_and(|gateway| gateway.get(key).is_some());
    if has("mcp_servers") {
        Client::Codex
    } else if has("context_servers") {
        Client::Zed
    } else if has("agents") {
        Client::DockerAgent
    } else if any_has("container")
        || ["port", "apiKey", "agentId", "api_key"].into_iter().any(gateway_has)
    {
        Client::GhAw
    } else if has("servers") || document.get("mcp").is_some_and(|mcp| mcp.get("servers").is_some())
    {
        Client::VsCode
    } else if has("projects") {
        Client::Claude
    } else if any_has("httpUrl") {
        Client::Gemini
    } else {
        Client::Other
    }
}

/// People write `Accept` and `Content-Type`, which are ours to say.
fn leave_protocol_headers(server: &mut Server) {
    let Some(Value::Object(headers)) = server.entry.get_mut("headers") else { return };
    let refused = |name: &str| {
        let settings = evergate_runtime::Settings::http("http://localhost/").header(name, "x");
        HeaderName::try_from(name).is_err() || !settings.problems("a").is_empty()
    };
    let names: Vec<String> = headers.keys().filter(|name| refused(name)).cloned().collect();
    for name in names {
        headers.remove(&name);
        let why = "belongs to the protocol, or is no header".to_owned();
        server.dropped.push(Dropped { key: format!("headers.{name}"), why });
    }
}

/// Said now rather than found out when it is started.
fn miss_docker(server: &mut Server) {
    if server.entry.get("command").and_then(Value::as_str) == Some("docker") {
        server.mapped.push("needs docker, which is not on the PATH here".to_owned());
    }
}

/// A literal key of a gateway becomes a variable too.
fn hide_keys(gateway: &mut IndexMap<&'static str, Value>, imported: &mut Imported) {
    let Some(auth) = gateway.get_mut("auth") else { return };
    let file = imported.files.iter().find(|file| file.client == Client::GhAw.title());
    let file = file.map(|file| file.shown.clone()).unwrap_or_default();
    for key in auth["keys"].as_array_mut().into_iter().flatten() {
        let text = key["key"].as_str().unwrap_or_default().to_owned();
        if !text.contains("${") {
            let name = key["name"].as_str().unwrap_or_default().trim_start_matches("gh-aw-");
            let place = format!("its value is in {file} at gateway.{name}");
            let variable =
                imported.variables.holding("MCP_GATEWAY_API_KEY", "gateway", &text, place);
            key["key"] = json!(format!("${{{variable}}}"));
        }
    }
}

/// Writes the document, and leaves out what the loader would refuse.
fn check(imported: &mut Imported, mut gateway: IndexMap<&'static str, Value>) {
    loop {
        imported.document = written(&imported.servers, &gateway);
        let sources = Sources { files: Vec::new(), stdin: Some(imported.document.clone()) };
        // Keys of the gateway must have some value; a server with an unset variable is only off.
        let keys = gateway.get("auth").map(Value::to_string).unwrap_or_default();
        let environment = |name: &str| {
            keys.contains(&format!("${{{name}}}")).then(|| "sixteen-characters".to_owned())
        };
        let Ok(config) = sources.load(&environment) else { return };
        let errors = config.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let mut refused = Vec::new();
        for error in errors {
            let owner = imported.servers.iter().enumerate().filter(|(_, server)| {
                let path = format!("mcpServers.{}", server.name);
                error
                    .path
                    .strip_prefix(&path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            let longest = owner.max_by_key(|(_, server)| server.name.len());
            refused.push((longest.map(|(n, _)| n), format!("{}: {}", error.path, error.message)));
        }
        if refused.is_empty() {
            return;
        }
        let mut gone = Vec::new();
        for (server, message) in refused {
            match server {
                Some(n) if gone.contains(&n) => {}
                Some(n) => {
                    gone.push(n);
                    let server = &imported.servers[n];
                    let (name, file) = (server.name.clone(), server.file.clone());
                    imported.not_taken.push(NotTaken { name, file, why: message });
                }
                None if gateway.is_empty() => return,
                None => {
                    gateway.clear();
                    if let Some(file) = imported.files.first_mut() {
                        let key = "gateway".to_owned();
                        file.dropped
                            .push(Dropped { key, why: format!("cannot be used: {message}") });
                    }
                }
            }
        }
        let mut n = 0;
        imported.servers.retain(|_| {
            n += 1;
            !gone.contains(&(n - 1))
        });
    }
}

/// As text, in the order in which people write it.
fn written(servers: &[Server], gateway: &IndexMap<&'static str, Value>) -> String {
    #[derive(serde::Serialize)]
    struct Document<'a> {
        #[serde(rename = "mcpServers")]
        servers: IndexMap<&'a str, IndexMap<&'a &'static str, &'a Value>>,
        #[serde(skip_serializing_if = "IndexMap::is_empty")]
        gateway: &'a IndexMap<&'static str, Value>,
    }
    let servers = servers.iter().map(|server| {
        let mut entry: Vec<_> = server.entry.iter().collect();
        entry.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == *key).unwrap_or(99));
        (server.name.as_str(), entry.into_iter().collect())
    });
    let servers = servers.collect();
    // Texts by name cannot fail to be written.
    let text = serde_json::to_string_pretty(&Document { servers, gateway }).unwrap_or_default();
    text + "\n"
}
