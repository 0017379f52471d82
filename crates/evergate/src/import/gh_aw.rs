//! The gateway of GitHub Agentic Workflows: JSON with `mcpServers` and `gateway`, or TOML with `servers` and `gateway`.
//!
//! Its servers are containers: "Automatically wraps as `docker run --rm -i <container>`", with `args` before the image
//! and `entrypointArgs` after it.

use serde_json::{Value, json};

use super::draft::{Draft, Unit};
use super::entry::{Entry, Path};
use super::plain::servers;
use super::{Asked, Dropped, Found, Source};

/// How long its servers may take, for those that do not say it themselves.
#[derive(Default)]
struct Times {
    startup: Option<f64>,
    tool: Option<f64>,
}

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    let times = gateway(source, &mut top, out);
    let section = if top.has("mcpServers") { "mcpServers" } else { "servers" };
    servers(source, &mut top, section, out, |draft, entry| {
        draft.tools(entry, "tools", "allow");
        draft.duration(entry, "connectTimeout", Unit::Seconds, "lifecycle.connect_timeout");
        draft.duration(entry, "toolTimeout", Unit::Seconds, "timeout");
        draft.duration(entry, "connect_timeout", Unit::Seconds, "lifecycle.connect_timeout");
        draft.duration(entry, "tool_timeout", Unit::Seconds, "timeout");
        draft.text(entry, "working_directory", "cwd");
        if entry.has("container") {
            draft.kind(entry, "type");
            container(draft, entry);
            draft.treatment(entry, Unit::Seconds);
        } else {
            draft.usual(entry, Unit::Seconds);
        }
        for key in ["guard", "guard-policies", "guard_policies"] {
            if entry.take(key).is_some() {
                draft.dropped(
                    key,
                    "Evergate enforces no guard policies: what they forbid is possible here",
                );
            }
        }
        if let Some(seconds) = times.startup
            && draft.get("lifecycle").is_none()
        {
            draft.set("lifecycle", json!({ "connect_timeout": format!("{seconds}s") }));
        }
        if let Some(seconds) = times.tool
            && draft.get("timeout").is_none()
        {
            draft.set("timeout", json!(format!("{seconds}s")));
        }
    });
    if top.has("customSchemas") {
        let why = "Evergate has no types of servers beside its own".to_owned();
        out.dropped.push(Dropped { key: "customSchemas".to_owned(), why });
    }
}

/// `docker run`, as the gateway would start it.
fn container(draft: &mut Draft<'_>, entry: &mut Entry<'_>) {
    let problems = &mut draft.problems;
    let image = entry.text("container", problems).unwrap_or_default();
    let entrypoint = entry.text("entrypoint", problems);
    let own = entry.texts("args", problems).unwrap_or_default();
    let mounts = entry.texts("mounts", problems).unwrap_or_default();
    let after = entry.texts("entrypointArgs", problems).unwrap_or_default();
    let variables = entry.pairs("env", problems).unwrap_or_default();
    let mut args: Vec<String> = ["run", "--rm", "-i"].map(str::to_owned).to_vec();
    for (name, value) in variables {
        // Without a value docker passes its own on, which keeps it out of the list of processes.
        args.extend(["-e".to_owned(), name.to_owned()]);
        if value.is_empty() {
            draft.asked(Asked { variable: name.to_owned(), what: None, optional: true });
        } else if let Some(value) = draft.fill(&value) {
            draft.pair("env", name, value);
        }
    }
    let given = mounts.iter().flat_map(|mount| ["-v", mount]);
    let given = given.chain(entrypoint.iter().flat_map(|entrypoint| ["--entrypoint", entrypoint]));
    let given = given.chain(own).chain([image]).chain(after);
    args.extend(given.filter_map(|text| draft.fill(text)));
    draft.set("command", json!("docker"));
    draft.set("args", json!(args));
    draft.renamed("args", "container");
    draft.mapped("container is a command: docker run --rm -i");
}

fn gateway(source: &Source, top: &mut Entry<'_>, out: &mut Found) -> Times {
    let Some(mut section) = top.section("gateway", &mut out.problems) else {
        return Times::default();
    };
    let mut problems = Vec::new();
    if let Some(port) = section.number("port", &mut problems) {
        out.gateway.insert("listen", json!(format!("127.0.0.1:{port}")));
        out.mapped.push(format!("gateway.port is gateway.listen, 127.0.0.1:{port}"));
    }
    let mut draft = Draft::new(source, "gateway", section.path.clone());
    let mut keys = Vec::new();
    for key in ["apiKey", "agentId", "api_key", "agent_id"] {
        if let Some(text) = section.text(key, &mut problems)
            && let Some(text) = draft.fill(text)
        {
            keys.push(json!({ "name": format!("gh-aw-{key}"), "key": text }));
            out.mapped.push(format!("gateway.{key} is a key of gateway.auth"));
        }
    }
    if !keys.is_empty() {
        out.gateway.insert("auth", json!({ "keys": keys }));
    }
    for key in ["payloadDir", "payload_dir"] {
        if let Some(folder) = section.text(key, &mut problems)
            && let Some(folder) = draft.fill(folder)
        {
            out.gateway.insert("payload_dir", json!(folder));
            out.mapped.push(format!("gateway.{key} is gateway.payload_dir"));
        }
    }
    for key in ["payloadSizeThreshold", "payload_size_threshold"] {
        if let Some(size) = section.number(key, &mut problems) {
            out.gateway.insert("payload_threshold", json!(size.max(1.0).floor().to_string()));
            out.mapped.push(format!("gateway.{key} is gateway.payload_threshold"));
        }
    }
    out.gateway.insert("separator", json!("___"));
    out.mapped.push("gateway.separator is \"___\", so that tools keep their names".to_owned());
    let mut time = |keys: [&'static str; 2]| -> Option<f64> {
        let found = keys.into_iter().find_map(|key| section.number(key, &mut problems));
        found.filter(|seconds| *seconds > 0.0)
    };
    let startup = time(["startupTimeout", "startup_timeout"]);
    let tool = time(["toolTimeout", "tool_timeout"]);
    if startup.is_some() || tool.is_some() {
        let note = "gateway.startupTimeout and toolTimeout are lifecycle.connect_timeout and timeout of each server";
        out.mapped.push(note.to_owned());
    }
    for key in section.rest() {
        let why = match key {
            "domain" => "Evergate listens on this machine; see gateway.listen and allowed_hosts",
            _ => "has no counterpart here",
        };
        out.dropped.push(Dropped { key: format!("gateway.{key}"), why: why.to_owned() });
    }
    out.problems.append(&mut problems);
    out.asked.append(&mut draft.take_asked());
    Times { startup, tool }
}
