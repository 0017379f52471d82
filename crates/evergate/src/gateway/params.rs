//! The few fields of a request's params that a gateway must know, and how they are replaced without touching the rest.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use evergate_runtime::{RawJson, wire};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::observed::brief;
use crate::telemetry::{self, TraceContext};

/// Borrowed from the params of a request. Of methods nobody knows these may be anything, so nothing is said of types.
#[derive(Debug, Deserialize, Default)]
pub(super) struct Addressed<'a> {
    /// Of a tool or a prompt.
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    /// Of a resource.
    #[serde(borrow, default)]
    pub(super) uri: Option<&'a RawValue>,
    /// What is to be completed.
    #[serde(borrow, default, rename = "ref")]
    reference: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) level: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) cursor: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// What a gateway must know of a `tools/call`.
#[derive(Debug)]
pub(super) struct ToolCall<'a> {
    pub(super) name: Cow<'a, str>,
    /// Where the name is in the params, quotes included.
    place: Range<usize>,
    /// The client's, if it wants to hear of progress.
    pub(super) progress_token: Option<RawJson>,
    /// Where the client says that it stands.
    pub(super) trace: Option<Box<TraceContext>>,
}

/// What was seen of the params of a request when it was read.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Where the name is, quotes included.
    name: Option<Range<usize>>,
    /// There is something that has to be looked at.
    is_special: bool,
}

/// A prompt or a resource template.
#[derive(Debug, Deserialize)]
pub(super) struct Reference<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) uri: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: &'a RawValue,
}

#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
}

pub(super) const NO_OBJECT: &str = "params must be an object";
pub(super) const BAD_META: &str = "params._meta must be an object with at most one progressToken";
const NO_NAME: &str = "tools/call needs a name";

/// `None` if the params are not an object.
pub(super) fn read(params: Option<&RawJson>) -> Option<Addressed<'_>> {
    match params {
        // An array would do for the deserializer, not for MCP.
        Some(params) if !params.as_bytes().starts_with(b"{") => None,
        Some(params) => serde_json::from_slice(params.as_bytes()).ok(),
        None => Some(Addressed::default()),
    }
}

/// All fields of an object, borrowed.
pub(super) fn object(params: &RawJson) -> serde_json::Result<HashMap<String, &RawValue>> {
    serde_json::from_slice(params.as_bytes())
}

/// The text of a JSON string.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(value.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Puts another text in the place of one that was borrowed from `params`.
pub(super) fn with_text(params: &RawJson, old: &RawValue, new: &str) -> RawJson {
    params.with_part(old, &RawJson::from(serde_json::Value::from(new)))
}

/// The progress notification a client gets: the server's, under the token the client gave.
pub(super) fn progress(params: &RawJson, token: &RawJson) -> Option<Bytes> {
    let theirs = retold(params, token)?;
    Some(wire::notification("notifications/progress", Some(theirs.as_bytes())))
}

/// The params of a progress notification under another token.
pub(super) fn retold(params: &RawJson, token: &RawJson) -> Option<RawJson> {
    let before: Token<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    Some(params.with_part(before.progress_token, token))
}

/// The token in the params of a progress notification, if it may be one of ours.
pub(super) fn told_token(params: &RawJson) -> Option<u64> {
    let token: Token<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    token.progress_token.get().parse().ok()
}

/// The params of a server's question under a token of ours, and the token it gave; `None` if it gave none.
pub(super) fn with_progress_token(
    params: Option<&RawJson>,
    ours: u64,
) -> Option<(RawJson, RawJson)> {
    let params = params?;
    let meta: Meta<'_> = serde_json::from_str(read(Some(params))?.meta?.get()).ok()?;
    let theirs = meta.progress_token?;
    let token = RawJson::from_text(theirs.get().to_owned()).ok()?;
    Some((params.with_part(theirs, &RawJson::from(serde_json::Value::from(ours))), token))
}

/// The name of a prompt or the URI of a resource, to be written down. What follows a `?` or a `#`, and credentials, may be
/// secret and are left out.
pub(super) fn shown_name(params: &RawJson) -> Option<String> {
    let fields = read(Some(params))?;
    if let Some(name) = fields.name.and_then(text) {
        return Some(brief(&name));
    }
    let uri = fields.uri.and_then(text)?;
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let shown = match uri.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => uri.to_owned(),
    };
    Some(brief(&shown))
}

/// Which request a client gives up.
pub(super) fn cancelled_id(params: Option<&RawJson>) -> Option<RawJson> {
    let fields: Cancelled<'_> = serde_json::from_slice(params?.as_bytes()).ok()?;
    RawJson::from_text(fields.request_id.get().to_owned()).ok()
}

// === impl Noted ===

impl Noted {
    /// Takes note of a field.
    pub(crate) fn note(&mut self, field: &[u8], place: Range<usize>) {
        match field {
            b"name" => self.is_special |= self.name.replace(place).is_some(),
            b"uri" | b"ref" | b"level" | b"cursor" | b"_meta" => self.is_special = true,
            _ => {}
        }
    }

    /// Where the name is, if there is nothing else.
    fn only_name(&self) -> Option<Range<usize>> {
        self.name.clone().filter(|_| !self.is_special)
    }
}

// === impl ToolCall ===

impl<'a> ToolCall<'a> {
    /// Else what is wrong with the params.
    pub(super) fn read(
        params: Option<&'a RawJson>,
        noted: Option<&Noted>,
    ) -> Result<Self, &'static str> {
        if let Some(call) = params.and_then(|params| Self::ordinary(params, noted)) {
            return Ok(call);
        }
        let fields = read(params).ok_or(NO_OBJECT)?;
        let progress_token = fields.progress_token().map_err(|_| BAD_META)?;
        let trace = fields.trace();
        let (Some(params), Some(name)) = (params, fields.name) else { return Err(NO_NAME) };
        let text = text(name).ok_or(NO_NAME)?;
        // It was borrowed from the params, so the distance between the two is where it is.
        let start = name.get().as_ptr().addr() - params.as_bytes().as_ptr().addr();
        let place = start..start + name.get().len();
        Ok(Self { name: text, place, progress_token, trace })
    }

    /// Nothing in it is special: no field twice, no escapes, no progress wanted.
    fn ordinary(params: &'a RawJson, noted: Option<&Noted>) -> Option<Self> {
        let place = if let Some(noted) = noted {
            noted.only_name()?
        } else {
            let mut noted = Noted::default();
            let note = |field: &str, place| noted.note(field.as_bytes(), place);
            wire::object_fields(params.as_str(), note)?;
            noted.only_name()?
        };
        let name = std::str::from_utf8(params.as_bytes().get(place.clone())?).ok()?;
        let name = name.strip_prefix('"')?.strip_suffix('"')?;
        (!name.contains('\\')).then(|| Self {
            name: Cow::Borrowed(name),
            place,
            progress_token: None,
            trace: None,
        })
    }

    /// The params it was read from, with another name.
    pub(super) fn renamed(&self, params: &RawJson, own: &str) -> RawJson {
        let params = params.as_bytes();
        // Exactly, unless it has to be escaped: the rest would have to be remembered.
        let mut text = Vec::with_capacity(params.len() - self.place.len() + own.len() + 2);
        text.extend_from_slice(&params[..self.place.start]);
        // A string always serializes, and writing into a Vec cannot fail.
        let _ = serde_json::to_writer(&mut text, own);
        text.extend_from_slice(&params[self.place.end..]);
        RawJson::from_valid(text)
    }
}

// === impl Addressed ===

impl<'a> Addressed<'a> {
    /// The token under which the client wants to hear of progress. One that is given twice would reach the server as
    /// it is, where it could be taken for another client's.
    pub(super) fn progress_token(&self) -> Result<Option<RawJson>, serde_json::Error> {
        let Some(meta) = self.meta else { return Ok(None) };
        let meta: Meta<'_> = serde_json::from_str(meta.get())?;
        meta.progress_token.map(|token| RawJson::from_text(token.get().to_owned())).transpose()
    }

    /// Where the client says that it stands.
    pub(super) fn trace(&self) -> Option<Box<TraceContext>> {
        telemetry::from_meta(self.meta?.get()).map(Box::new)
    }

    pub(super) fn reference(&self) -> Option<Reference<'a>> {
        serde_json::from_str(self.reference?.get()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_and_nothing_else() {
        let params = RawJson::from_text(
            r#"{ "x": 1.0, "name" : "a\u0062__c","arguments":{"name":"kept","n":9223372036854775808}}"#,
        )
        .unwrap();
        let fields = read(Some(&params)).unwrap();
        let name = fields.name.unwrap();
        assert_eq!(text(name).unwrap(), "ab__c");
        assert_eq!(
            with_text(&params, name, "c\"").as_str(),
            r#"{ "x": 1.0, "name" : "c\"","arguments":{"name":"kept","n":9223372036854775808}}"#
        );
    }

    #[test]
    fn a_tool_call_is_read_alike_whichever_way_it_is_written() {
        let read = |text: &str| {
            let params = RawJson::from_text(text.to_owned()).unwrap();
            let call = ToolCall::read(Some(&params), None);
            // The same if it was looked at as part of its request.
            let body = format!(" {{\"id\":1, \"params\" : {text},\"method\":\"m\"}}").into();
            let mut noted = Noted::default();
            let (_, is_noted) =
                wire::parse_noting(&body, |field, place| noted.note(field, place)).unwrap();
            if is_noted {
                let again = ToolCall::read(Some(&params), Some(&noted));
                assert_eq!(format!("{again:?}"), format!("{call:?}"));
            }
            let call = call.map_err(str::to_owned)?;
            let token = call.progress_token.as_ref().map(|token| token.as_str().to_owned());
            Ok::<_, String>((
                call.name.to_string(),
                token,
                call.renamed(&params, "n\"").as_str().to_owned(),
            ))
        };
        let plain = read(r#"{"arguments":{"name":1},"name":"a__b","x":[]}"#).unwrap();
        let renamed = r#"{"arguments":{"name":1},"name":"n\"","x":[]}"#;
        assert_eq!(plain, ("a__b".to_owned(), None, renamed.to_owned()));
        let meta = read(r#"{ "name" : "\u0061", "_meta":{"progressToken":1}}"#).unwrap();
        let renamed = r#"{ "name" : "n\"", "_meta":{"progressToken":1}}"#;
        assert_eq!(meta, ("a".to_owned(), Some("1".to_owned()), renamed.to_owned()));
        assert_eq!(read("[]"), Err(NO_OBJECT.to_owned()));
        assert_eq!(read(r#"{"name":"a","name":"a"}"#), Err(NO_OBJECT.to_owned()));
        assert_eq!(read(r#"{"name":"a","cursor":1,"cursor":1}"#), Err(NO_OBJECT.to_owned()));
        assert_eq!(read(r#"{"name":"a","_meta":1}"#), Err(BAD_META.to_owned()));
        assert_eq!(read(r#"{"name":1}"#), Err(NO_NAME.to_owned()));
        assert_eq!(read("{}"), Err(NO_NAME.to_owned()));
        assert_eq!(ToolCall::read(None, None).unwrap_err(), NO_NAME);
    }

    #[test]
    fn progress_comes_under_the_clients_token() {
        let params = RawJson::from_text(r#"{"progress":1.50,"progressToken":7,"x":null}"#).unwrap();
        let token = RawJson::from_text(r#""theirs""#).unwrap();
        assert_eq!(
            progress(&params, &token).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.50,"progressToken":"theirs","x":null}}"#
        );
    }

    #[test]
    fn tokens_of_any_kind_are_found() {
        let params = RawJson::from_text(r#"{"_meta":{"progressToken":0,"other":1}}"#).unwrap();
        assert_eq!(read(Some(&params)).unwrap().progress_token().unwrap().unwrap().as_str(), "0");
        assert!(read(None).unwrap().progress_token().unwrap().is_none());
        let twice =
            RawJson::from_text(r#"{"_meta":{"progressToken":5,"progressToken":5}}"#).unwrap();
        assert!(read(Some(&twice)).unwrap().progress_token().is_err());
        let odd =
            RawJson::from_text(r#"{"_meta":1,"uri":[],"name":{},"ref":0,"level":0}"#).unwrap();
        let odd = read(Some(&odd)).unwrap();
        assert!(odd.progress_token().is_err() && odd.reference().is_none());
        assert!(read(Some(&RawJson::from_text("[1]").unwrap())).is_none());
    }
}
