//! Zed: `context_servers` of `settings.json`, in its present shape and in the older one where `command` is an object.

use serde_json::Value;

use super::draft::Unit;
use super::entry::{Entry, Path};
use super::plain::servers;
use super::{Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    servers(source, &mut top, "context_servers", out, |draft, entry| {
        let extension = entry.take("source").and_then(Value::as_str) == Some("extension");
        draft.switch(entry);
        if extension || (!entry.has("command") && !entry.has("url")) {
            // The command is in the extension, which only Zed can start.
            draft.refuse("is an extension of Zed, which alone knows how to start it");
            return;
        }
        if entry.take("command").is_some_and(Value::is_object) {
            if let Some(mut command) = entry.section("command", &mut draft.problems) {
                draft.text(&mut command, "path", "command");
                draft.texts(&mut command, "args", "args");
                draft.pairs(&mut command, "env", "env");
                draft.duration(&mut command, "timeout", Unit::Seconds, "timeout");
                draft.renamed("command", "command.path");
                draft.renamed("args", "command.args");
                draft.renamed("env", "command.env");
                draft.drop_rest(&command);
            }
        } else {
            draft.process(entry);
        }
        draft.text(entry, "url", "url");
        draft.pairs(entry, "headers", "headers");
        draft.duration(entry, "timeout", Unit::Seconds, "timeout");
    });
}
