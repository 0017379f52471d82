//! Writing JSON-RPC messages: the payload is copied once, as it is.

use std::io::Write as _;

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::{RawJson, RpcError};

const OPENING: &[u8] = b"{\"jsonrpc\":\"2.0\",";
const PARAMS: &[u8] = b",\"params\":";

/// `{"jsonrpc":"2.0","id":…,"method":…,"params":…}`
pub fn request(id: u64, method: &str, params: Option<&[u8]>) -> Bytes {
    let mut digits = itoa::Buffer::new();
    let named = ["\"id\":", digits.format(id), ",\"method\":"];
    with_method(&named, method, params)
}

/// `{"jsonrpc":"2.0","method":…,"params":…}`
pub fn notification(method: &str, params: Option<&[u8]>) -> Bytes {
    with_method(&["\"method\":"], method, params)
}

/// An answer to a server's request.
pub fn result_response(id: &RawJson, result: &RawJson) -> Bytes {
    respond(id, "\"result\":", result)
}

/// A refusal of a server's request.
pub fn error_response(id: &RawJson, error: &RpcError) -> Bytes {
    respond(id, "\"error\":", &error.raw)
}

/// A `tools/call`, written in one go so that the arguments are copied once.
pub(crate) fn tool_call(id: u64, name: &str, arguments: &RawJson, wants_progress: bool) -> Bytes {
    let mut text = open(64 + name.len(), arguments.as_bytes().len());
    // Writing into a Vec cannot fail.
    let _ = write!(text, "\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":");
    write_string(&mut text, name);
    text.extend_from_slice(b",\"arguments\":");
    text.extend_from_slice(arguments.as_bytes());
    if wants_progress {
        let _ = write!(text, ",\"_meta\":{{\"progressToken\":{id}}}");
    }
    text.extend_from_slice(b"}}");
    text.into()
}

/// The params of a `tools/call`.
pub(crate) fn tool_params(name: &str, arguments: &RawJson) -> Vec<u8> {
    let mut text = Vec::with_capacity(32 + name.len() + arguments.as_bytes().len());
    text.extend_from_slice(b"{\"name\":");
    write_string(&mut text, name);
    text.extend_from_slice(b",\"arguments\":");
    text.extend_from_slice(arguments.as_bytes());
    text.push(b'}');
    text
}

/// `params` with `_meta.progressToken` set to ours and everything else as it was.
pub(crate) fn with_progress_token(
    params: Option<&[u8]>,
    token: u64,
) -> Result<Vec<u8>, serde_json::Error> {
    type Fields<'a> = IndexMap<String, &'a RawValue>;
    let token = serde_json::value::to_raw_value(&token)?;
    let mut fields: Fields<'_> = serde_json::from_slice(params.unwrap_or(b"{}"))?;
    let mut meta: Fields<'_> = match fields.get("_meta") {
        Some(meta) => serde_json::from_str(meta.get())?,
        None => Fields::new(),
    };
    meta.insert("progressToken".into(), &token);
    let meta = serde_json::value::to_raw_value(&meta)?;
    fields.insert("_meta".into(), &meta);
    serde_json::to_vec(&fields)
}

fn open(method: usize, params: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(72 + method + params);
    text.extend_from_slice(OPENING);
    text
}

/// In exactly as much room as it takes, unless the method has to be escaped: the rest would have to be remembered.
fn with_method(before: &[&str], method: &str, params: Option<&[u8]>) -> Bytes {
    let around = OPENING.len() + before.iter().map(|part| part.len()).sum::<usize>();
    let params_length = params.map_or(0, |params| PARAMS.len() + params.len());
    let mut text = Vec::with_capacity(around + method.len() + 2 + params_length + 1);
    text.extend_from_slice(OPENING);
    for part in before {
        text.extend_from_slice(part.as_bytes());
    }
    write_string(&mut text, method);
    if let Some(params) = params {
        text.extend_from_slice(PARAMS);
        text.extend_from_slice(params);
    }
    text.push(b'}');
    text.into()
}

fn respond(id: &RawJson, field: &str, payload: &RawJson) -> Bytes {
    let mut text = open(id.as_bytes().len(), payload.as_bytes().len());
    text.extend_from_slice(b"\"id\":");
    text.extend_from_slice(id.as_bytes());
    text.push(b',');
    text.extend_from_slice(field.as_bytes());
    text.extend_from_slice(payload.as_bytes());
    text.push(b'}');
    text.into()
}

fn write_string(text: &mut Vec<u8>, value: &str) {
    // A string always serializes, and writing into a Vec cannot fail.
    let _ = serde_json::to_writer(text, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_carries_its_params_byte_for_byte() {
        let bytes = request(3, "tools/call", Some(br#"{"a": 9223372036854775808}"#));
        assert_eq!(
            bytes,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"a": 9223372036854775808}}"#
        );
        assert_eq!(notification("x\"y", None), r#"{"jsonrpc":"2.0","method":"x\"y"}"#);
    }

    #[test]
    fn a_progress_token_replaces_only_itself() {
        let params =
            br#"{"name":"t","_meta":{"progressToken":"theirs","x":1.0},"arguments":{"n":1e3}}"#;
        assert_eq!(
            String::from_utf8(with_progress_token(Some(params), 9).unwrap()).unwrap(),
            r#"{"name":"t","_meta":{"progressToken":9,"x":1.0},"arguments":{"n":1e3}}"#
        );
        assert_eq!(with_progress_token(None, 9).unwrap(), br#"{"_meta":{"progressToken":9}}"#);
        assert!(with_progress_token(Some(b"[1]"), 9).is_err());
    }

    #[test]
    fn a_tool_call_escapes_the_name_and_keeps_the_arguments() {
        let arguments = RawJson::from_text(r#"{"k": 1.0}"#).unwrap();
        assert_eq!(
            tool_call(4, "a\"b", &arguments, true),
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a\"b","arguments":{"k": 1.0},"_meta":{"progressToken":4}}}"#
        );
        assert!(!tool_call(4, "x", &arguments, false).ends_with(b"}}}}"));
        assert_eq!(tool_params("a\"b", &arguments), br#"{"name":"a\"b","arguments":{"k": 1.0}}"#);
    }
}
