//! The headers of a request repeat what its body says, so that others can route it without reading it. Where the two differ,
//! somebody on the way was deceived, and the request is refused.

use std::collections::HashMap;

use evergate_runtime::{RawJson, wire};
use http::HeaderMap;
use serde_json::value::RawValue;

use crate::front::incoming::PROTOCOL_VERSION;

const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Whether what is there says the same as the body; what is missing is looked for later.
pub(super) fn agree(headers: &HeaderMap, version: &str, method: &str) -> Result<(), String> {
    for name in [PROTOCOL_VERSION.as_str(), METHOD, NAME] {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(format!("the header {name} came twice"));
        }
    }
    same(headers, PROTOCOL_VERSION.as_str(), version)?;
    same(headers, METHOD, method)
}

/// Whether everything is there.
pub(super) fn complete(
    headers: &HeaderMap,
    method: &str,
    params: Option<&RawJson>,
) -> Result<(), String> {
    present(headers, PROTOCOL_VERSION.as_str())?;
    present(headers, METHOD)?;
    let Some(named) = named_by(method, params) else { return Ok(()) };
    present(headers, NAME)?;
    // A request without a name is refused for that, not for its headers.
    named.map_or(Ok(()), |named| same(headers, NAME, &named))
}

fn present(headers: &HeaderMap, name: &str) -> Result<(), String> {
    if headers.contains_key(name) {
        return Ok(());
    }
    Err(format!("the header {name} is missing"))
}

/// What the name in the headers must be, if the body has one; outside `None` for methods that need none.
fn named_by(method: &str, params: Option<&RawJson>) -> Option<Option<String>> {
    let field = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    // Whatever else is in the params is read, and judged, elsewhere.
    let fields: Option<HashMap<String, &RawValue>> =
        params.and_then(|params| serde_json::from_slice(params.as_bytes()).ok());
    let named = fields.and_then(|fields| serde_json::from_str(fields.get(field)?.get()).ok());
    Some(named)
}

fn same(headers: &HeaderMap, name: &str, said: &str) -> Result<(), String> {
    let Some(value) = headers.get(name) else { return Ok(()) };
    match wire::header_value_text(value) {
        Some(text) if text == said => Ok(()),
        Some(_) => Err(format!("the header {name} does not say what the body does")),
        None => Err(format!("the header {name} cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
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
