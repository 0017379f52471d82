//! Arguments that a tool's schema wants repeated in headers (2026-07-28).

use http::HeaderMap;
use serde_json::Value;

use crate::http::header_text;

/// The header that does not say what the arguments say, if there is one.
pub(crate) fn wrong(headers: &HeaderMap, schema: &Value, arguments: &Value) -> Option<String> {
    let properties = schema["properties"].as_object()?;
    properties.iter().find_map(|(name, property)| {
        let argument = &arguments[name.as_str()];
        let Some(wanted) = property["x-mcp-header"].as_str() else {
            return wrong(headers, property, argument);
        };
        let header = format!("mcp-param-{}", wanted.to_ascii_lowercase());
        let right = match argument {
            Value::Null => !headers.contains_key(&header),
            Value::String(text) => says(headers, &header, |said| said == text),
            Value::Number(number) => says(headers, &header, |said| {
                said == number.to_string() || said.parse().ok() == number.as_f64()
            }),
            Value::Bool(yes) => says(headers, &header, |said| said == yes.to_string()),
            Value::Array(_) | Value::Object(_) => true,
        };
        (!right).then_some(header)
    })
}

fn says(headers: &HeaderMap, name: &str, right: impl Fn(&str) -> bool) -> bool {
    header_text::text(headers, name).is_some_and(|said| right(&said))
}
