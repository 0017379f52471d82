//! The headers of a request repeat what its body says, so that others can route it without reading it. Where the two differ,
//! somebody on the way was deceived, and the request is refused.

use std::collections::HashMap;

use evergate_runtime::{RawJson, wire};
use serde_json::value::RawValue;

use crate::front::incoming::PROTOCOL_VERSION;
use crate::front::request::{Headers, visible};

const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Whether what is there says the same as the body; what is missing is looked for later.
pub(super) fn agree(headers: &Headers, version: &str, method: &str) -> Result<(), String> {
    for name in [PROTOCOL_VERSION, METHOD, NAME] {
        if headers.get_all(name).nth(1).is_some() {
            return Err(format!("the header {name} came twice"));
        }
    }
    same(headers, PROTOCOL_VERSION, version)?;
    same(headers, METHOD, method)
}

/// Whether everything is there.
pub(super) fn complete(
    headers: &Headers,
    method: &str,
    params: Option<&RawJson>,
) -> Result<(), String> {
    present(headers, PROTOCOL_VERSION)?;
    present(headers, METHOD)?;
    let Some(field) = naming_field(method) else { return Ok(()) };
    present(headers, NAME)?;
    // A request without a name is refused for that, not for its headers.
    name_in(params, field).map_or(Ok(()), |name| same(headers, NAME, &name))
}

fn present(headers: &Headers, name: &str) -> Result<(), String> {
    if headers.get(name).is_some() {
        return Ok(());
    }
    Err(format!("the header {name} is missing"))
}

/// Where the body has what the headers repeat; `None` for methods that have no such thing.
fn naming_field(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

fn name_in(params: Option<&RawJson>, field: &str) -> Option<String> {
    // Whatever else is in the params is read, and judged, elsewhere.
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(params?.as_bytes()).ok()?;
    serde_json::from_str(fields.get(field)?.get()).ok()
}

fn same(headers: &Headers, name: &str, said: &str) -> Result<(), String> {
    let Some(value) = headers.get(name) else { return Ok(()) };
    match visible(value).and_then(wire::header_value_text) {
        Some(text) if text == said => Ok(()),
        Some(_) => Err(format!("the header {name} does not say what the body does")),
        None => Err(format!("the header {name} cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> Headers {
        all.iter().copied().collect()
    }

    const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

    #[test]
    fn what_is_there_must_agree() {
        let agrees = |all: &[_]| agree(&headers(all), "2026-07-28", "tools/list").is_ok();
        assert!(agrees(&[]));
        assert!(agrees(&[VERSION, ("mcp-method", " tools/list\t")]));
        assert!(!agrees(&[VERSION, ("mcp-method", "TOOLS/LIST")]));
        assert!(!agrees(&[("mcp-protocol-version", "2025-11-25")]));
        assert!(!agrees(&[VERSION, VERSION]));
    }

    #[test]
    fn everything_must_be_there() {
        let params = RawJson::from(json!({ "name": "Grüße" }));
        let wrong = |method: &str, all: &[_]| complete(&headers(all), method, Some(&params)).err();
        let call = ("mcp-method", "tools/call");
        let name = ("mcp-name", "=?base64?R3LDvMOfZQ==?=");
        assert_eq!(wrong("tools/call", &[VERSION, call, name]), None);
        assert_eq!(wrong("tools/list", &[VERSION, ("mcp-method", "tools/list")]), None);
        for missing in [&[call, name][..], &[VERSION, name], &[VERSION, call]] {
            assert!(wrong("tools/call", missing).unwrap().ends_with("is missing"));
        }
        assert!(wrong("tools/call", &[VERSION, call, ("mcp-name", "other")]).is_some());
        let odd = RawJson::from(json!({ "name": "a", "uri": 5, "taskId": [] }));
        let other = headers(&[VERSION, call, ("mcp-name", "b")]);
        assert!(complete(&other, "tools/call", Some(&odd)).is_err());
        assert!(wrong("tools/call", &[VERSION, call, ("mcp-name", "=?base64?%?=")]).is_some());
    }
}
