//! Arguments of a tool that its schema wants repeated in headers, so that others can route calls by them (2026-07-28).

use std::collections::HashSet;
use std::io::Write as _;

use http::HeaderMap;
use serde_json::Value;

use super::header_value::{decode, encode};

const ANNOTATION: &str = "x-mcp-header";

/// One argument that goes into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    /// The names that lead to it.
    path: Vec<String>,
    /// What comes after `Mcp-Param-`.
    name: String,
}

/// The schema asks for headers in a way that nobody can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its schema has a header that cannot be: {0}")]
pub(crate) struct BadParamHeader(&'static str);

/// What a tool's schema wants in headers. All of it or nothing: a tool with one that cannot be is not to be used.
pub(crate) fn param_headers(schema: &Value) -> Result<Vec<ParamHeader>, BadParamHeader> {
    let mut found = Vec::new();
    if schema.get(ANNOTATION).is_some() {
        return Err(BadParamHeader("it stands on the whole"));
    }
    collect(schema, &mut Vec::new(), &mut found)?;
    let mut names = HashSet::new();
    if found.iter().any(|header| !names.insert(header.name.to_ascii_lowercase())) {
        return Err(BadParamHeader("two have the same name"));
    }
    Ok(found)
}

fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), BadParamHeader> {
    let Some(fields) = schema.as_object() else { return Ok(()) };
    for (field, value) in fields {
        match field.as_str() {
            "properties" => {}
            ANNOTATION | "default" | "examples" | "const" | "enum" => continue,
            // Wherever else it stands, no single argument is meant.
            _ if mentions(value) => return Err(BadParamHeader("it does not stand on a property")),
            _ => continue,
        }
        for (name, property) in value.as_object().into_iter().flatten() {
            path.push(name.clone());
            if let Some(wanted) = property.get(ANNOTATION) {
                found
                    .push(ParamHeader { path: path.clone(), name: header_name(wanted, property)? });
            }
            collect(property, path, found)?;
            path.pop();
        }
    }
    Ok(())
}

fn header_name(wanted: &Value, property: &Value) -> Result<String, BadParamHeader> {
    let name = wanted.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token));
    let name = name.ok_or(BadParamHeader("its name is none for a header"))?;
    let of_use = matches!(property["type"].as_str(), Some("string" | "integer" | "boolean"));
    if of_use { Ok(name.to_owned()) } else { Err(BadParamHeader("no such type fits into one")) }
}

/// Whether it stands anywhere in a schema; in data it means nothing.
fn mentions(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            name == ANNOTATION
                || (!matches!(name.as_str(), "default" | "examples" | "const" | "enum")
                    && mentions(value))
        }),
        Value::Array(items) => items.iter().any(mentions),
        _ => false,
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The headers of a call with these arguments, each with its line end.
pub(crate) fn write_param_headers(headers: &[ParamHeader], arguments: &Value, into: &mut Vec<u8>) {
    for header in headers {
        let Some(text) = header.value_in(arguments).and_then(text_of) else { continue };
        // Writing into a Vec cannot fail.
        let _ = write!(into, "mcp-param-{}: ", header.name);
        into.extend_from_slice(encode(&text).as_bytes());
        into.extend_from_slice(b"\r\n");
    }
}

/// The name of the first header of a call that does not say what these arguments do.
pub(crate) fn wrong_param_header<'a>(
    headers: &'a [ParamHeader],
    arguments: &Value,
    given: &HeaderMap,
) -> Option<&'a str> {
    let wrong = headers.iter().find(|header| {
        // What is not in the arguments is for others to read.
        let Some(argument) = header.value_in(arguments) else { return false };
        let Some(text) = text_of(argument) else { return false };
        let mut values = given.get_all(format!("mcp-param-{}", header.name)).iter();
        let (value, another) = (values.next(), values.next());
        // Programs whose numbers end there leave such headers out.
        if value.is_none() && is_beyond_exact(argument) {
            return false;
        }
        let read = value.filter(|_| another.is_none()).and_then(|value| value.to_str().ok());
        let read = read.and_then(decode);
        !read.is_some_and(|read| read == text || (argument.is_number() && same(&read, &text)))
    });
    wrong.map(|header| header.name.as_str())
}

/// Whether it is an integer that not every program can tell from its neighbours: above 2^53 - 1.
fn is_beyond_exact(argument: &Value) -> bool {
    const EXACT: u64 = (1 << 53) - 1;
    let size = argument.as_i64().map(i64::unsigned_abs).or_else(|| argument.as_u64());
    size.map_or(argument.is_number(), |size| size > EXACT)
}

/// Whether two texts are the same number: 42 may be written 42.0. By their digits, because a number that a computer makes
/// of them may be that of others too, and only without an exponent or leading zeros, because whoever routes by the header
/// compares texts.
fn same(header: &str, argument: &str) -> bool {
    decimal(header).is_some_and(|header| decimal(argument) == Some(header))
}

/// The sign, the digits before the point and those after it, as far as they count.
fn decimal(text: &str) -> Option<(bool, &str, &str)> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = are_digits(whole) && are_digits(fraction);
    if !plain || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let is_zero = whole == "0" && fraction.is_empty();
    Some((text.starts_with('-') && !is_zero, whole, fraction))
}

/// What stands in a header for an argument, if anything does.
fn text_of(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

// === impl ParamHeader ===

impl ParamHeader {
    /// The argument that it repeats.
    fn value_in<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(arguments, |value, name| value.get(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(schema: &Value, arguments: &Value) -> String {
        let mut lines = Vec::new();
        write_param_headers(&param_headers(schema).unwrap(), arguments, &mut lines);
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn arguments_are_repeated_where_the_schema_says_so() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": {
                "n": { "type": "integer", "x-mcp-header": "N" },
                "yes": { "type": "boolean", "x-mcp-header": "Yes" },
            } },
            "other": { "type": "string", "default": { "x-mcp-header": "data" } },
        } });
        let arguments = json!({ "region": "é", "deep": { "n": 42, "yes": true }, "other": "x" });
        assert_eq!(
            written(&schema, &arguments),
            "mcp-param-N: 42\r\nmcp-param-Yes: true\r\nmcp-param-Region: =?base64?w6k=?=\r\n"
        );
        assert_eq!(written(&schema, &json!({ "region": null, "deep": { "n": [1] } })), "");
    }

    #[test]
    fn headers_must_say_what_the_arguments_do() {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "n": { "type": "integer", "x-mcp-header": "N" },
        } });
        let wanted = param_headers(&schema).unwrap();
        let wrong = |arguments: Value, given: &[(&'static str, &'static str)]| {
            let given = given.iter().map(|(name, value)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            });
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(name, value);
            }
            wrong_param_header(&wanted, &arguments, &headers).map(str::to_owned)
        };
        let both = json!({ "region": "Hello", "n": 42 });
        let (region, n) = (("mcp-param-region", "=?base64?SGVsbG8=?="), ("mcp-param-n", "42.0"));
        assert_eq!(wrong(both.clone(), &[region, n]), None);
        assert_eq!(wrong(json!({ "region": null }), &[region]), None);
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(wrong(json!({ "n": 9_007_199_254_740_992_u64 }), &[]), None);
        assert_eq!(wrong(json!({ "n": 9_007_199_254_740_991_u64 }), &[]), name("N"));
        assert_eq!(wrong(both.clone(), &[region]), name("N"));
        assert_eq!(wrong(both.clone(), &[region, n, n]), name("N"));
        for bad in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "hello", "SGVsbG8="] {
            assert_eq!(
                wrong(both.clone(), &[("mcp-param-region", bad), n]),
                name("Region"),
                "{bad}"
            );
        }
        // Text is that text, however much it looks like a number.
        for (text, said) in [("007", "7"), ("1e2", "100"), ("42", "42.0"), ("1.0", "1.00")] {
            let given = [("mcp-param-region", said)];
            assert_eq!(wrong(json!({ "region": text }), &given), name("Region"), "{text} {said}");
        }
        let max = 9_007_199_254_740_993_i64;
        for (number, right, said) in [
            (json!(42), true, "42"),
            (json!(42), true, "42.00"),
            (json!(42.0), true, "42"),
            (json!(-42), true, "-42.0"),
            (json!(0), true, "-0"),
            (json!(0.5), true, "0.50"),
            (json!(max), true, "9007199254740993.0"),
            // The same number to a computer that has only 53 bits for it.
            (json!(max), false, "9007199254740992"),
            (json!(u64::MAX), false, "18446744073709551616"),
            (json!(42), false, "042"),
            (json!(42), false, "+42"),
            (json!(42), false, "42."),
            (json!(42), false, "4.2e1"),
            (json!(42), false, "-42"),
            (json!(100), false, "1e2"),
        ] {
            let expected = if right { None } else { name("N") };
            let given = [("mcp-param-n", said)];
            assert_eq!(wrong(json!({ "n": number }), &given), expected, "{number} {said}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let one = |property: Value| json!({ "properties": { "a": property } });
        for bad in [
            one(json!({ "type": "string", "x-mcp-header": "" })),
            one(json!({ "type": "string", "x-mcp-header": "a b" })),
            one(json!({ "type": "string", "x-mcp-header": 1 })),
            one(json!({ "type": "number", "x-mcp-header": "A" })),
            one(json!({ "type": ["string", "null"], "x-mcp-header": "A" })),
            one(json!({ "x-mcp-header": "A" })),
            one(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "A" } })),
            json!({ "x-mcp-header": "A" }),
            json!({ "anyOf": [one(json!({ "type": "string", "x-mcp-header": "A" }))] }),
            json!({ "properties": {
                "a": { "type": "string", "x-mcp-header": "A" },
                "b": { "type": "string", "x-mcp-header": "a" },
            } }),
        ] {
            assert!(param_headers(&bad).is_err(), "{bad}");
        }
    }
}
