//! Gemini CLI: `mcpServers` of `settings.json`, `$NAME` for variables, `httpUrl` for the newer transport.

use serde_json::Value;

use super::draft::{Draft, Unit};
use super::entry::{Entry, Path};
use super::{Dropped, Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    let (allowed, excluded) = chosen(&mut top, out);
    let Some(servers) = top.section("mcpServers", &mut out.problems) else { return };
    out.has_servers = true;
    for (name, value, path) in servers.members() {
        let Some(mut entry) = Entry::new(value, path.clone(), &mut out.problems) else { continue };
        let mut draft = Draft::new(source, name, path).with_bare_variables();
        // "httpUrl" wins over "url", and that over "command".
        if entry.has("httpUrl") {
            draft.text(&mut entry, "httpUrl", "url");
            draft.renamed("url", "httpUrl");
            draft.set("type", Value::from("streamable-http"));
            draft.mapped("httpUrl is url with the type streamable-http");
            for other in ["url", "command", "args", "type"] {
                if entry.take(other).is_some() {
                    draft.dropped(other, "httpUrl counts");
                }
            }
        }
        draft.usual(&mut entry, Unit::Milliseconds);
        if excluded.contains(&name) || allowed.as_ref().is_some_and(|all| !all.contains(&name)) {
            draft.set("disabled", Value::Bool(true));
            draft.mapped("is switched off, as it is by mcp.allowed or mcp.excluded");
        }
        draft.drop_rest(&entry);
        draft.finish(out);
    }
}

/// Which servers Gemini CLI uses at all.
fn chosen<'a>(top: &mut Entry<'a>, out: &mut Found) -> (Option<Vec<&'a str>>, Vec<&'a str>) {
    let Some(mut section) = top.section("mcp", &mut out.problems) else {
        return (None, Vec::new());
    };
    let allowed = section.texts("allowed", &mut out.problems).filter(|all| !all.is_empty());
    let excluded = section.texts("excluded", &mut out.problems).unwrap_or_default();
    if section.has("serverCommand") {
        let why = "is not a server by name: write it into mcpServers".to_owned();
        out.dropped.push(Dropped { key: "mcp.serverCommand".to_owned(), why });
    }
    (allowed, excluded)
}
