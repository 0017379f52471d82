//! Reading a JSON-RPC message: the envelope is parsed, the payload only located.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::method::TOOLS_CALL;
use super::object_fields::Scanner;
use super::{RawJson, code};

/// One message from a peer.
#[derive(Debug, Clone)]
pub enum Message {
    /// Wants an answer.
    Request {
        /// The asker's id for it.
        id: RawJson,
        /// What is asked for.
        method: Cow<'static, str>,
        /// As sent.
        params: Option<RawJson>,
    },
    /// Wants none.
    Notification {
        /// What it is about.
        method: String,
        /// As sent.
        params: Option<RawJson>,
    },
    /// Answers a request of ours.
    Response {
        /// `None` where the peer left it out or sent null: an error it could not attribute.
        id: Option<RawJson>,
        /// The result, or the error.
        answer: Result<RawJson, RpcError>,
    },
}

/// What a body holds: nearly always one message, which needs no memory of its own.
pub type Messages = SmallVec<[Message; 1]>;

/// A JSON-RPC error as the server sent it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// The error's `code`.
    pub code: i64,
    /// The error's `message`.
    pub message: String,
    /// The whole error object, unchanged.
    pub raw: RawJson,
}

/// What a peer sent is not JSON-RPC. The text itself is not kept: it may be large, or secret.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not a JSON-RPC message: {0}")]
pub struct Malformed(String);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorFields {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Unsupported {
    data: Supported,
}

#[derive(Deserialize)]
struct Supported {
    supported: Vec<String>,
}

/// Reads a body that holds one message, or an array of them as revision 2025-03-26 allows.
pub fn parse(body: &Bytes) -> Result<Messages, Malformed> {
    if let Some(message) = ordinary(body, |_, _| {}) {
        return Ok(Messages::from_buf([message]));
    }
    parse_whatever(body)
}

/// The same. `each` is called with the name of every field in the params of a request and its place in them. The second is
/// `false` if there may be fields that it was not called with: then it must not be relied on.
pub fn parse_noting(
    body: &Bytes,
    each: impl FnMut(&[u8], Range<usize>),
) -> Result<(Messages, bool), Malformed> {
    match ordinary(body, each) {
        Some(message) => Ok((Messages::from_buf([message]), true)),
        None => parse_whatever(body).map(|messages| (messages, false)),
    }
}

fn parse_whatever(body: &Bytes) -> Result<Messages, Malformed> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'[') {
        return Ok(Messages::from_buf([parse_one(body, body)?]));
    }
    let batch: Vec<&RawValue> =
        serde_json::from_slice(body).map_err(|error| Malformed::json(&error))?;
    batch.into_iter().map(|item| parse_one(body, item.get().as_bytes())).collect()
}

fn parse_one(whole: &Bytes, text: &[u8]) -> Result<Message, Malformed> {
    let envelope: Envelope<'_> =
        serde_json::from_slice(text).map_err(|error| Malformed::json(&error))?;
    let part = |value: &RawValue| RawJson::part_of(whole, value);
    let id = envelope.id.filter(|id| id.get() != "null").map(part);
    let params = envelope.params.map(part);
    match (envelope.method, id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) => {
            Ok(Message::Request { id, method: method.into_owned().into(), params })
        }
        (Some(method), None, None, None) => {
            Ok(Message::Notification { method: method.into_owned(), params })
        }
        (None, id, Some(result), None) => Ok(Message::Response { id, answer: Ok(part(result)) }),
        (None, id, None, Some(error)) => {
            Ok(Message::Response { id, answer: Err(RpcError::new(part(error))) })
        }
        _ => Err(Malformed("neither a request, a notification nor a response".into())),
    }
}

/// A request or a result as everybody writes them. `None` for whatever is in any way special. Calls `each` as
/// [`parse_noting`] does.
fn ordinary(body: &Bytes, mut each: impl FnMut(&[u8], Range<usize>)) -> Option<Message> {
    let text = &body[..];
    let (mut id, mut method, mut params, mut result) = (None, None, None, None);
    let mut special = false;
    let mut scanner = Scanner::new(text);
    scanner.object(|scanner, name| {
        let name = &text[name];
        let field = match name {
            b"id" => &mut id,
            b"method" => &mut method,
            b"params" => &mut params,
            b"result" => &mut result,
            _ => {
                special |= name == b"error";
                return scanner.value().map(|_| ());
            }
        };
        let start = scanner.at();
        if name == b"params" && scanner.peek() == Some(b'{') {
            scanner.object(|scanner, name| {
                let place = scanner.value()?;
                each(&text[name], place.start - start..place.end - start);
                Some(())
            })?;
        } else {
            scanner.value()?;
        }
        special |= field.replace(start..scanner.at()).is_some();
        Some(())
    })?;
    if !scanner.is_at_end() || special {
        return None;
    }
    if !scanner.is_ascii() {
        std::str::from_utf8(text).ok()?;
    }
    let part = |place: Range<usize>| RawJson::from_valid(body.slice(place));
    let id = id.filter(|id| &text[id.clone()] != b"null")?;
    match (method, result) {
        (Some(method), None) => {
            let method = text[method].strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            if method.contains(&b'\\') {
                return None;
            }
            Some(Message::Request {
                id: part(id),
                method: owned_method(method)?,
                params: params.map(part),
            })
        }
        (None, Some(result)) => {
            Some(Message::Response { id: Some(part(id)), answer: Ok(part(result)) })
        }
        _ => None,
    }
}

/// The method that most requests are for needs no memory.
fn owned_method(method: &[u8]) -> Option<Cow<'static, str>> {
    if method == TOOLS_CALL.as_bytes() {
        return Some(Cow::Borrowed(TOOLS_CALL));
    }
    std::str::from_utf8(method).ok().map(|method| method.to_owned().into())
}

/// Which request an answer belongs to of which only the two ends are left. Servers write the id first or last; anything
/// less obvious is not guessed at.
pub(crate) fn answered_id(start: &[u8], end: &[u8]) -> Option<u64> {
    let compact = |text: &[u8]| -> String {
        let text = text.iter().filter(|byte| !byte.is_ascii_whitespace());
        text.map(|byte| char::from(*byte)).collect()
    };
    let (start, end) = (compact(start), compact(end));
    let start = start.strip_prefix("{\"jsonrpc\":\"2.0\",").or_else(|| start.strip_prefix('{'))?;
    // Requests of the server have ids too, and must not be taken for answers to ours.
    let is_answer = |text: &str| text.starts_with("\"result\":") || text.starts_with("\"error\":");
    if let Some((id, rest)) = start.strip_prefix("\"id\":").and_then(|rest| rest.split_once(',')) {
        return id.parse().ok().filter(|_| is_answer(rest));
    }
    let id = end.strip_suffix('}')?.rsplit_once(",\"id\":")?.1;
    id.parse().ok().filter(|_| is_answer(start))
}

/// Keeps an explicit `null` apart from an absent field, which `Option` alone does not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

// === impl RpcError ===

impl RpcError {
    /// Takes an error object over. An object without the usual fields is kept all the same.
    pub(crate) fn new(raw: RawJson) -> Self {
        let fields = raw.parse().unwrap_or(ErrorFields { code: 0, message: String::new() });
        Self { code: fields.code, message: fields.message, raw }
    }

    /// An error of our own, for handlers to refuse a server's request with.
    pub fn with(code: i64, message: impl Into<String>) -> Self {
        let message = message.into();
        let raw = RawJson::from(serde_json::json!({ "code": code, "message": message }));
        Self { code, message, raw }
    }

    /// The revisions that the server says it speaks, in the error that it does not speak ours (2026-07-28).
    pub(crate) fn supported_revisions(&self) -> Option<Vec<String>> {
        let unsupported = (self.code == code::UNSUPPORTED_VERSION).then_some(&self.raw)?;
        unsupported.parse::<Unsupported>().ok().map(|error| error.data.supported)
    }
}

// === impl Malformed ===

impl Malformed {
    fn json(error: &serde_json::Error) -> Self {
        // The category and position only: serde quotes parts of the input in some messages.
        let kind = match error.classify() {
            serde_json::error::Category::Eof => "it ends too early",
            serde_json::error::Category::Syntax => "invalid JSON",
            serde_json::error::Category::Data => "unexpected types or duplicate fields",
            serde_json::error::Category::Io => "unreadable",
        };
        Self(format!("{kind} at column {}", error.column()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &'static str) -> Message {
        let mut all = parse(&Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn payloads_keep_every_byte() {
        let text = r#"{"result":{"z":1,"a":9223372036854775808,"u":{"new":[1.0,1e2]}},"jsonrpc":"2.0","id":7}"#;
        let Message::Response { id, answer } = one(text) else { panic!("a response") };
        assert_eq!(id.unwrap().as_str(), "7");
        assert_eq!(
            answer.unwrap().as_str(),
            r#"{"z":1,"a":9223372036854775808,"u":{"new":[1.0,1e2]}}"#
        );
    }

    #[test]
    fn payloads_share_the_body() {
        let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#);
        let Message::Response { answer: Ok(result), .. } = parse(&body).unwrap().remove(0) else {
            panic!("a result")
        };
        let offset = result.as_bytes().as_ptr() as usize - body.as_ptr() as usize;
        assert_eq!(offset, 33);
    }

    #[test]
    fn what_is_in_params_is_noted_or_not_relied_on() {
        let noted = |text: &str| {
            let (body, mut fields) = (Bytes::copy_from_slice(text.as_bytes()), Vec::new());
            let note = |name: &[u8], place| fields.push((name.to_vec(), place));
            let (messages, is_noted) = parse_noting(&body, note).unwrap();
            let Message::Request { params, .. } = &messages[0] else { panic!("a request") };
            let params = params.as_ref().map_or("", |params| params.as_str());
            let shown = |(name, place): (Vec<u8>, Range<usize>)| {
                (String::from_utf8(name).unwrap(), params[place].to_owned())
            };
            is_noted.then(|| fields.into_iter().map(shown).collect::<Vec<(String, String)>>())
        };
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            noted(r#"{"method":"m", "params" :{ "a" : [{"x":1}] ,"ä":"ö"},"id":1}"#),
            Some(vec![field("a", r#"[{"x":1}]"#), field("ä", r#""ö""#)])
        );
        assert_eq!(noted(r#"{"id":1,"method":"m","params":[{"a":1}]}"#), Some(vec![]));
        assert_eq!(noted(r#"{"id":1,"method":"m"}"#), Some(vec![]));
        assert_eq!(noted(r#"{"id":1,"method":"m","params":{"\u0061":1}}"#), None);
        assert_eq!(noted(r#"[{"id":1,"method":"m","params":{"a":1}}]"#), None);
    }

    #[test]
    fn what_is_not_text_is_refused_wherever_it_is() {
        for text in [
            &b"{\"id\":1,\"result\":\"\xff\"}"[..],
            b"{\"id\":1,\"result\":\"12345678\xc3\"}",
            b"{\"id\":1,\"result\":{\"12345678\xe2\x82\":1}}",
            b"{\"id\":\"\x80\",\"method\":\"m\"}",
            b"{\"id\":1,\"method\":\"m\xff\"}",
        ] {
            assert!(parse(&Bytes::from_static(text)).is_err(), "{text:?}");
        }
        assert!(parse(&Bytes::from_static("{\"id\":1,\"result\":\"ä€\"}".as_bytes())).is_ok());
    }

    #[test]
    fn a_null_result_is_a_result_and_a_null_id_is_none() {
        assert!(matches!(
            one(r#"{"id":1,"result":null}"#),
            Message::Response { answer: Ok(_), .. }
        ));
        assert!(matches!(
            one(r#"{"id":null,"error":{"code":-32000,"message":"x"}}"#),
            Message::Response { id: None, answer: Err(_) }
        ));
    }

    #[test]
    fn an_error_keeps_fields_nobody_knows() {
        let text = r#"{"id":1,"error":{"message":"no","code":-32050,"hint":true}}"#;
        let Message::Response { answer: Err(error), .. } = one(text) else { panic!("an error") };
        assert_eq!((error.code, error.message.as_str()), (-32050, "no"));
        assert_eq!(error.raw.as_str(), r#"{"message":"no","code":-32050,"hint":true}"#);
    }

    #[test]
    fn batches_are_read_one_by_one() {
        let body = Bytes::from_static(br#" [{"method":"a"},{"id":"x","method":"b","params":{}}]"#);
        let all = parse(&body).unwrap();
        assert!(matches!(&all[0], Message::Notification { method, .. } if method == "a"));
        assert!(matches!(&all[1], Message::Request { id, .. } if id.as_str() == "\"x\""));
    }

    #[test]
    fn garbage_is_refused_without_being_quoted() {
        for text in ["", "hello secret", "{}", "[1]", r#"{"id":1,"id":2,"result":1}"#, "\u{0}"] {
            let error = parse(&Bytes::copy_from_slice(text.as_bytes())).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_answer_is_told_by_its_ends() {
        let id = |text: &str| answered_id(text.as_bytes(), text.as_bytes());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{"id":5}}"#), Some(7));
        assert_eq!(id(r#"{"jsonrpc": "2.0", "id": 7, "result": {}}"#), Some(7));
        assert_eq!(id("{\"result\":{\"id\":5},\"jsonrpc\":\"2.0\",\"id\":9}\r"), Some(9));
        for unclear in
            ["", "{", r#"{"result":{"x":1,"id":5}}"#, r#"{"id":"a","result":1}"#, "x\u{0}y"]
        {
            assert_eq!(id(unclear), None, "{unclear}");
        }
    }
}
