//! A file with `mcpServers` and nothing special about it: Claude Desktop's, and what other clients took over from it.

use serde_json::Value;

use super::draft::{Draft, Unit};
use super::entry::{Entry, Path};
use super::{Client, Dropped, Found, Source};

/// Keys of our own: a file that was written for Evergate loses nothing.
const OURS: &[&str] = &[
    "bearer_token_file",
    "headers_from_client",
    "required",
    "isolation",
    "max_timeout",
    "hold",
    "replay",
    "protocol",
    "tools",
    "lifecycle",
];

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let unit =
        if source.client == Client::ClaudeDesktop { Unit::Milliseconds } else { Unit::Either };
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    servers(source, &mut top, "mcpServers", out, |draft, entry| {
        draft.usual(entry, unit);
        if source.client == Client::Other {
            for key in OURS {
                if let Some(value) = entry.take(key) {
                    draft.set(key, value.clone());
                }
            }
        }
    });
    if source.client == Client::Other && top.has("gateway") {
        let why = "a gateway section is not imported: copy it to the new file yourself";
        out.dropped.push(Dropped { key: "gateway".to_owned(), why: why.to_owned() });
    }
}

/// Reads all servers of a section; `more` takes the keys of one.
pub(super) fn servers<'a>(
    source: &Source,
    parent: &mut Entry<'a>,
    section: &'a str,
    out: &mut Found,
    mut more: impl FnMut(&mut Draft<'_>, &mut Entry<'a>),
) {
    let Some(servers) = parent.section(section, &mut out.problems) else { return };
    out.has_servers = true;
    for (name, value, path) in servers.members() {
        let Some(mut entry) = Entry::new(value, path.clone(), &mut out.problems) else { continue };
        let mut draft = Draft::new(source, name, path);
        more(&mut draft, &mut entry);
        draft.drop_rest(&entry);
        draft.finish(out);
    }
}
