//! docker-agent (`cagent`): YAML whose agents have toolsets, some of which are MCP servers.
//!
//! Toolsets need no name, so one is found in what they run. The same server may serve several agents; merging takes care
//! of that. `ref: docker:NAME` is started as docker-agent starts it, through the MCP gateway of Docker.

use serde_json::{Map, Value, json};

use super::draft::{Draft, valid_name};
use super::entry::{Entry, Path};
use super::{Dropped, Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    let named = top.take("mcps").and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(agents) = top.section("agents", &mut out.problems) else { return };
    out.has_servers = true;
    let mut used = Vec::new();
    for (agent, value, path) in agents.members() {
        let Some(mut agent_entry) = Entry::new(value, path.clone(), &mut out.problems) else {
            continue;
        };
        let Some(toolsets) = agent_entry.take("toolsets").and_then(Value::as_array) else {
            continue;
        };
        let mut others: Vec<&str> = Vec::new();
        for (n, toolset) in toolsets.iter().enumerate() {
            match toolset.get("type").and_then(Value::as_str) {
                Some("mcp") => {
                    let path = path.key("toolsets").item(n);
                    one(source, toolset, path, &named, &mut used, out);
                }
                Some(other) => others.push(other),
                None => {}
            }
        }
        if !others.is_empty() {
            let why = format!("is built into docker-agent: {}", others.join(", "));
            out.dropped.push(Dropped { key: format!("agents.{agent}.toolsets"), why });
        }
    }
    for name in named.keys().filter(|name| !used.contains(*name)) {
        out.not_taken(source, name, "no agent uses it");
    }
}

fn one(
    source: &Source,
    toolset: &Value,
    path: Path,
    named: &Map<String, Value>,
    used: &mut Vec<String>,
    out: &mut Found,
) {
    let reference = toolset.get("ref").and_then(Value::as_str);
    let definition = reference.and_then(|name| named.get(name)).and_then(Value::as_object);
    // What the toolset says itself wins over the definition that it refers to.
    let mut whole = definition.cloned().unwrap_or_default();
    whole.extend(toolset.as_object().cloned().unwrap_or_default());
    let whole = Value::Object(whole);
    let Some(mut entry) = Entry::new(&whole, path.clone(), &mut out.problems) else { return };
    let name = name_of(&whole, definition.and(reference));
    let mut draft = Draft::new(source, &valid_name(&name), path);
    for key in ["type", "name", "ref"] {
        entry.take(key);
    }
    match (reference, definition) {
        (Some(name), Some(_)) => used.push(name.to_owned()),
        (Some(name), None) => match name.strip_prefix("docker:") {
            Some(server) => catalog(&mut draft, server),
            None => draft.refuse(format!("refers to {name:?}, which mcps does not have")),
        },
        (None, _) => {}
    }
    draft.process(&mut entry);
    draft.text(&mut entry, "working_dir", "cwd");
    if let Some(mut remote) = entry.section("remote", &mut draft.problems) {
        remote_server(&mut draft, &mut remote);
    }
    draft.tools(&mut entry, "tools", "allow");
    if let Some(lifecycle) = entry.take("lifecycle") {
        // The names are the same; what is not known is found when the result is checked.
        let profile = lifecycle.get("profile").and_then(Value::as_str);
        match profile.filter(|word| ["resilient", "strict", "best-effort"].contains(word)) {
            Some(profile) => draft.set("lifecycle", json!({ "profile": profile })),
            None => draft.dropped("lifecycle", "is not a profile that Evergate has"),
        }
        let more = lifecycle.as_object().into_iter().flatten().filter(|(key, _)| *key != "profile");
        for (key, _) in more {
            draft.dropped(&format!("lifecycle.{key}"), "is for docker-agent's own supervision");
        }
    }
    draft.drop_rest(&entry);
    draft.finish(out);
}

/// A server of Docker's catalog.
fn catalog(draft: &mut Draft<'_>, server: &str) {
    draft.set("command", json!("docker"));
    draft.set("args", json!(["mcp", "gateway", "run", format!("--servers={server}")]));
    draft.renamed("args", "ref");
    draft.mapped(format!("ref is a command: docker mcp gateway run --servers={server}"));
}

fn remote_server(draft: &mut Draft<'_>, remote: &mut Entry<'_>) {
    draft.text(remote, "url", "url");
    draft.renamed("url", "remote.url");
    draft.renamed("headers", "remote.headers");
    draft.kind(remote, "transport_type");
    if draft.get("url").and_then(Value::as_str).is_some_and(|url| url.starts_with("unix:")) {
        draft.refuse("is at a Unix socket, which Evergate does not dial");
    }
    let mut forwarded = Vec::new();
    for (name, text) in remote.pairs("headers", &mut draft.problems).into_iter().flatten() {
        let same = text.strip_prefix("${headers.").and_then(|rest| rest.strip_suffix('}'));
        if same.is_some_and(|from| from.eq_ignore_ascii_case(name)) {
            forwarded.push(name);
            draft
                .mapped(format!("headers.{name} is taken from the client, by headers_from_client"));
        } else if let Some(text) = draft.fill(&text) {
            draft.pair("headers", name, text);
        }
    }
    if !forwarded.is_empty() {
        draft.set("headers_from_client", json!(forwarded));
    }
    for key in remote.rest() {
        let why = "Evergate does not log in by itself: give it a token in headers";
        draft.dropped(
            &format!("remote.{key}"),
            if key == "oauth" { why } else { "has no counterpart here" },
        );
    }
}

/// What to call a server that has no name.
fn name_of(toolset: &Value, definition: Option<&str>) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let own = toolset.get("name").and_then(text).or(definition.map(str::to_owned));
    let catalog = || Some(toolset.get("ref")?.as_str()?.strip_prefix("docker:")?.to_owned());
    let host = || {
        let url = toolset.get("remote")?.get("url")?.as_str()?;
        let host = url::Url::parse(url).ok()?.host_str()?.to_owned();
        let labels: Vec<&str> =
            host.split('.').filter(|label| *label != "mcp" && *label != "api").collect();
        Some(labels.iter().rev().nth(1).or(labels.first())?.to_string())
    };
    let command = || {
        let command = toolset.get("command")?.as_str()?;
        let stem = std::path::Path::new(command).file_stem()?.to_string_lossy().into_owned();
        let args = toolset.get("args").and_then(Value::as_array);
        let package = args.into_iter().flatten().filter_map(Value::as_str);
        let package = package.filter(|arg| !arg.starts_with('-')).find(|arg| *arg != "run");
        let launcher = ["npx", "uvx", "bunx", "docker", "python", "python3", "node", "uv", "pnpm"];
        match package.filter(|_| launcher.contains(&stem.as_str())) {
            Some(package) => {
                let last = package.rsplit('/').next().unwrap_or(package);
                let plain = last.split(['@', ':']).next().unwrap_or(last);
                Some(
                    plain
                        .strip_prefix("mcp-server-")
                        .or(plain.strip_prefix("server-"))
                        .unwrap_or(plain)
                        .to_owned(),
                )
            }
            None => Some(stem),
        }
    };
    own.or_else(catalog).or_else(host).or_else(command).unwrap_or_else(|| "server".to_owned())
}
