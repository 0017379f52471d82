//! Cursor: `.cursor/mcp.json`, `${env:NAME}` for variables.

use serde_json::Value;

use super::draft::Unit;
use super::entry::{Entry, Path};
use super::plain::servers;
use super::{Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    servers(source, &mut top, "mcpServers", out, |draft, entry| {
        draft.usual(entry, Unit::Either);
    });
}
