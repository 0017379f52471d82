//! Codex: `[mcp_servers.NAME]` of `config.toml`. Its texts have no variables; tokens are named by keys of their own.

use serde_json::{Value, json};

use super::draft::{Draft, Unit};
use super::entry::{Entry, Path};
use super::plain::servers;
use super::references::is_name;
use super::secrets::looks_secret;
use super::{Asked, Found, Source};

pub(super) fn read(source: &Source, document: &Value, out: &mut Found) {
    let Some(mut top) = Entry::new(document, Path::default(), &mut out.problems) else { return };
    servers(source, &mut top, "mcp_servers", out, |draft, entry| {
        draft.process(entry);
        draft.text(entry, "url", "url");
        headers(draft, entry);
        // The older of the two counts only without the newer.
        let startup = if entry.has("startup_timeout_sec") {
            ("startup_timeout_sec", Unit::Seconds)
        } else {
            ("startup_timeout_ms", Unit::Milliseconds)
        };
        draft.duration(entry, startup.0, startup.1, "lifecycle.connect_timeout");
        draft.duration(entry, "tool_timeout_sec", Unit::Seconds, "timeout");
        draft.switch(entry);
        if entry.flag("required", &mut draft.problems) == Some(true) {
            draft.set("required", json!(true));
        }
        draft.tools(entry, "enabled_tools", "allow");
        draft.tools(entry, "disabled_tools", "deny");
        if let Some(names) = entry.take("env_vars") {
            passed_on(draft, names);
        }
    });
}

/// Variables that Codex passes on, by name or as tables with a name.
fn passed_on(draft: &mut Draft<'_>, names: &Value) {
    draft.mapped("env_vars: the server has all variables that Evergate has");
    for name in names.as_array().into_iter().flatten() {
        let name = name.as_str().or_else(|| name.get("name").and_then(Value::as_str));
        // As below, a token is no name.
        if let Some(name) = name.filter(|name| is_name(name) && !looks_secret(name)) {
            draft.asked(Asked { variable: name.to_owned(), what: None, optional: false });
        }
    }
}

fn headers(draft: &mut Draft<'_>, entry: &mut Entry<'_>) {
    draft.pairs(entry, "http_headers", "headers");
    draft.renamed("headers", "http_headers");
    for (header, variable) in
        entry.pairs("env_http_headers", &mut draft.problems).into_iter().flatten()
    {
        refer(draft, header, &variable, "");
        draft.mapped(format!("env_http_headers.{header} is a header with ${{{variable}}}"));
    }
    if let Some(variable) = entry.text("bearer_token_env_var", &mut draft.problems) {
        refer(draft, "Authorization", variable, "Bearer ");
        draft.mapped(format!(
            "bearer_token_env_var is the Authorization header with ${{{variable}}}"
        ));
    }
    // Codex refuses it, but people write it.
    if let Some(token) = entry.text("bearer_token", &mut draft.problems) {
        draft.pair("headers", "Authorization", format!("Bearer {token}"));
        draft.mapped("bearer_token is the Authorization header");
    }
}

fn refer(draft: &mut Draft<'_>, header: &str, variable: &str, before: &str) {
    // People put the token itself there, which must not become a name that is shown.
    if !is_name(variable) || looks_secret(variable) {
        draft.refuse(format!("what it has for {header} is not the name of a variable"));
        return;
    }
    draft.pair("headers", header, format!("{before}${{{variable}}}"));
    draft.asked(Asked { variable: variable.to_owned(), what: None, optional: false });
}
