//! The table as a page, `docs/reference/api.md`, and as `docs/reference/openapi.json`. Only a test writes them, and compares
//! them afterwards.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::{ENDPOINTS, openapi};

const INTRODUCTION: &str = "\
# Admin API

<!-- generated from crates/evergate/src/admin; a test says how to write it again -->

Everything the dashboard and the command line know and do. `GET /api/v1/openapi.json` describes it for machines; a copy is
[openapi.json](openapi.json).

- Where keys are configured it needs one with the scope `admin`, as `Authorization: Bearer KEY` or `X-API-Key: KEY`. Where
  none are, whoever reaches the address may use it, and the address is this machine's own.
- With `gateway.admin_listen` it is at that address, and not at the one for clients.
- What changes something takes a JSON body (`{}` if there is nothing to say), and never a request from a page of another
  origin.
- Times are milliseconds of Unix time, lengths of time are milliseconds. What is not known is `null`. New fields may appear
  at any time.
- Errors are `{\"error\": {\"code\", \"message\", \"nearest\"}}`. A server or tool that does not exist is a 404 that names the
  nearest that does; an action that makes no sense in a server's state is a 409 that says why.

```sh
curl http://127.0.0.1:8080/api/v1/servers/docs
curl -X POST -H 'content-type: application/json' -d '{}' http://127.0.0.1:8080/api/v1/servers/docs/restart
curl -N http://127.0.0.1:8080/api/v1/events
```
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Paths\n\n| | | |\n|---|---|---|\n");
    for endpoint in ENDPOINTS {
        let query = endpoint.query.iter().map(|(name, about)| format!("`?{name}=` {about}"));
        let query: Vec<String> = query.collect();
        let more =
            if query.is_empty() { String::new() } else { format!(" ({})", query.join("; ")) };
        // Writing to a string cannot fail, also below.
        let _ = writeln!(
            page,
            "| {} | `{}` | {}{more} |",
            endpoint.method.to_uppercase(),
            endpoint.path,
            endpoint.about
        );
    }
    page.push_str("\n## Answers\n");
    let description = openapi();
    let Some(schemas) = description["components"]["schemas"].as_object() else { return page };
    for (name, schema) in schemas {
        let about = schema["description"].as_str().unwrap_or_default();
        let _ = write!(page, "\n### {name}\n\n{about}\n\n");
        fields(&mut page, schema);
        for choice in schema["oneOf"].as_array().into_iter().flatten() {
            let about = choice["description"].as_str().unwrap_or_default();
            let kind = choice["const"].as_str().or(choice["properties"]["kind"]["const"].as_str());
            let _ = writeln!(page, "- `{}` {about}", kind.unwrap_or_default());
        }
        for word in schema["enum"].as_array().into_iter().flatten() {
            let _ = writeln!(page, "- `{}`", word.as_str().unwrap_or_default());
        }
    }
    page
}

fn fields(page: &mut String, schema: &Value) {
    let Some(fields) = schema["properties"].as_object() else { return };
    page.push_str("| field | type | |\n|---|---|---|\n");
    for (name, field) in fields {
        let about = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        let _ = writeln!(page, "| `{name}` | {} | {about} |", kind(field));
    }
}

/// In words.
fn kind(schema: &Value) -> String {
    let link = |reference: &str| {
        let name = reference.rsplit('/').next().unwrap_or_default();
        format!("[{name}](#{})", name.to_lowercase())
    };
    if let Some(reference) = schema["$ref"].as_str() {
        return link(reference);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let name = |kind: &Value| match kind.as_str() {
        Some("array") => format!("list of {}", kind_of_items(schema)),
        Some("integer" | "number") => "number".to_owned(),
        Some("string") => "text".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    };
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        one => name(one),
    }
}

fn kind_of_items(schema: &Value) -> String {
    kind(&schema["items"])
}

#[test]
fn the_reference_of_the_api_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let described = format!("{:#}\n", openapi());
    for (file, text) in [("api.md", page()), ("openapi.json", described)] {
        let path = folder.join(file);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == text,
            "docs/reference/{file} is stale: UPDATE_REFERENCE=1 cargo test -p evergate up_to_date"
        );
    }
}
