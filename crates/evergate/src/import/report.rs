//! What an import says: what was understood, what was dropped, what is left to do. Never a value.

use serde_json::{Value, json};

use super::Server;
use super::outcome::Imported;
use crate::config::launched;

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// For people, line by line.
pub(crate) fn as_text(imported: &Imported, environment: Environment<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &imported.files {
        lines.push(format!("read {} ({}): {}", file.shown, file.client, count(file.servers)));
        lines.extend(file.mapped.iter().map(|note| format!("  mapped   {note}")));
        let dropped = file.dropped.iter();
        lines.extend(dropped.map(|dropped| format!("  dropped  {}: {}", dropped.key, dropped.why)));
    }
    for server in &imported.servers {
        let off = if server.entry.contains_key("disabled") { " (off)" } else { "" };
        lines.push(String::new());
        lines.push(format!("{:<16} {}{off}", server.name, target(server)));
        lines.push(format!("  from     {} at {}", server.file, server.path));
        lines.extend(server.mapped.iter().map(|note| format!("  mapped   {note}")));
        let dropped = server.dropped.iter();
        lines.extend(dropped.map(|dropped| format!("  dropped  {}: {}", dropped.key, dropped.why)));
    }
    if !imported.not_taken.is_empty() {
        lines.extend([String::new(), "not taken".to_owned()]);
        let left_out = imported.not_taken.iter();
        lines.extend(left_out.map(|one| format!("  {} of {}: {}", one.name, one.file, one.why)));
    }
    if !imported.variables.0.is_empty() {
        lines.extend([String::new(), "variables that must be set where Evergate runs".to_owned()]);
        for variable in &imported.variables.0 {
            let optional = if variable.optional { ", optional" } else { "" };
            lines.push(format!("  {} ({}{optional})", variable.name, variable.state(environment)));
            lines.extend(variable.places.iter().map(|place| format!("    {place}")));
        }
    }
    lines
}

/// For programs, the same.
pub(crate) fn as_json(imported: &Imported, environment: Environment<'_>) -> Value {
    let dropped = |all: &[super::Dropped]| -> Vec<Value> {
        all.iter().map(|one| json!({ "key": one.key, "why": one.why })).collect()
    };
    let files = imported.files.iter().map(|file| {
        json!({
            "file": file.shown, "client": file.client, "servers": file.servers, "mapped": file.mapped,
            "dropped": dropped(&file.dropped),
        })
    });
    let servers = imported.servers.iter().map(|server| {
        json!({
            "name": server.name, "target": target(server), "client": server.client.word(), "file": server.file,
            "path": server.path.to_string(), "mapped": server.mapped, "dropped": dropped(&server.dropped),
            "enabled": !server.entry.contains_key("disabled"),
        })
    });
    let not_taken = imported.not_taken.iter();
    let not_taken =
        not_taken.map(|one| json!({ "name": one.name, "file": one.file, "why": one.why }));
    let variables = imported.variables.0.iter().map(|variable| {
        json!({
            "name": variable.name, "state": variable.state(environment), "optional": variable.optional,
            "places": variable.places,
        })
    });
    json!({
        "files": files.collect::<Vec<_>>(),
        "servers": servers.collect::<Vec<_>>(),
        "not_taken": not_taken.collect::<Vec<_>>(),
        "variables": variables.collect::<Vec<_>>(),
    })
}

pub(crate) fn count(servers: usize) -> String {
    match servers {
        0 => "no servers".to_owned(),
        1 => "1 server".to_owned(),
        n => format!("{n} servers"),
    }
}

/// Where the server is. Of arguments only the one that names a package or a script: the others may be secrets.
fn target(server: &Server) -> String {
    let text = |key: &str| server.entry.get(key).and_then(Value::as_str);
    if let Some(url) = text("url") {
        return format!("http: {}", url.split(['?', '#']).next().unwrap_or_default());
    }
    let command = text("command").unwrap_or_default();
    let args = server.entry.get("args").and_then(Value::as_array).into_iter().flatten();
    let args: Vec<String> = args.filter_map(Value::as_str).map(str::to_owned).collect();
    match launched::name(command, &args) {
        Some(launched) => format!("stdio: {command} {launched}"),
        None => format!("stdio: {command}"),
    }
}
