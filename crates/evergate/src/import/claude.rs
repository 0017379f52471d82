//! Claude Code: `.mcp.json` of a project, and `~/.claude.json` with the user's servers and those of single projects.
//!
//! Of those only the ones of the project at hand are taken: a server that somebody has for one project would be there in all
//! of them.

use std::path::PathBuf;

use serde_json::Value;

use super::draft::Unit;
use super::entry::{Entry, Path};
use super::plain::servers;
use super::{Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    // Its timeouts are in milliseconds, as `MCP_TOOL_TIMEOUT` is.
    servers(source, &mut top, "mcpServers", out, |draft, entry| {
        draft.usual(entry, Unit::Milliseconds);
    });
    let Some(projects) = top.section("projects", &mut out.problems) else { return };
    for (folder, value, path) in projects.members() {
        let Some(mut project) = Entry::new(value, path, &mut out.problems) else { continue };
        if !project.has("mcpServers") {
            continue;
        }
        if !source.here.contains(&PathBuf::from(folder)) {
            leave(source, folder, &mut project, out);
            continue;
        }
        let off = project.texts("disabledMcpServers", &mut out.problems).unwrap_or_default();
        let folder = Some(PathBuf::from(folder));
        let source = Source {
            client: source.client,
            file: source.file.clone(),
            shown: source.shown.clone(),
            folder: folder.filter(|folder| folder.is_absolute()),
            home: source.home.clone(),
            here: Vec::new(),
        };
        servers(&source, &mut project, "mcpServers", out, |draft, entry| {
            draft.usual(entry, Unit::Milliseconds);
            if off.iter().any(|name| draft.is_called(name)) {
                draft.set("disabled", Value::Bool(true));
                draft.mapped("is switched off, as it is in its project");
            }
        });
    }
}

/// Says of a project's servers how to get them.
fn leave(source: &Source, folder: &str, project: &mut Entry<'_>, out: &mut Found) {
    let Some(servers) = project.section("mcpServers", &mut out.problems) else { return };
    out.has_servers = true;
    for (name, ..) in servers.members() {
        let why = format!(
            "belongs to the project {folder}: evergate import claude --project {folder} takes it"
        );
        out.not_taken(source, name, why);
    }
}
