//! VS Code: `mcp.json` with `servers` and `inputs`, and the `mcp` section of `settings.json` that came before it.

use serde_json::Value;

use super::draft::Unit;
use super::entry::{Entry, Path};
use super::plain::servers;
use super::{Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    // Settings have it below `mcp`; a file of its own has it at the top.
    let nested = if top.has("mcp") { top.section("mcp", &mut out.problems) } else { None };
    let settings = source.file.file_name().is_some_and(|name| name == "settings.json");
    let flat = if settings { None } else { Some(top) };
    for mut section in flat.into_iter().chain(nested) {
        let begun = out.servers.len();
        servers(source, &mut section, "servers", out, |draft, entry| {
            draft.usual(entry, Unit::Either);
        });
        describe_inputs(&mut section, begun, out);
    }
}

/// Where VS Code asks for something, it says in words what it wants, and may have an answer ready.
fn describe_inputs(section: &mut Entry<'_>, begun: usize, out: &mut Found) {
    let inputs = section.take("inputs").and_then(Value::as_array);
    for input in inputs.into_iter().flatten() {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let Some(id) = text("id") else { continue };
        let asks = format!("VS Code asks for it as {id:?}");
        // What our spelling has no room for is asked for after all.
        let ready = text("default").filter(|text| !text.is_empty() && !text.contains(['$', '}']));
        for server in out.servers.iter_mut().skip(begun) {
            for asked in &mut server.asked {
                if asked.what.as_deref() != Some(&asks) {
                    continue;
                }
                if let Some(about) = text("description") {
                    asked.what = Some(format!("VS Code asks for it as {about:?}"));
                }
                if let Some(ready) = ready {
                    asked.optional = true;
                    let (from, to) = (&asked.variable, format!("{}:-{ready}", asked.variable));
                    let (from, to) = (format!("${{{from}}}"), format!("${{{to}}}"));
                    server.entry.values_mut().for_each(|value| replace(value, &from, &to));
                }
            }
        }
    }
}

fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(all) => all.iter_mut().for_each(|value| replace(value, from, to)),
        Value::Object(all) => all.values_mut().for_each(|value| replace(value, from, to)),
        _ => {}
    }
}
