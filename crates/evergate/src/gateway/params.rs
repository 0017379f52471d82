//! The few fields of a request's params that a gateway must know, and how they are replaced without touching the rest.

use std::borrow::Cow;

use bytes::Bytes;
use evergate_runtime::{RawJson, wire};
use serde::Deserialize;
use serde_json::value::RawValue;

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

/// `None` if the params are not an object.
pub(super) fn read(params: Option<&RawJson>) -> Option<Addressed<'_>> {
    match params {
        // An array would do for the deserializer, not for MCP.
        Some(params) if !params.as_bytes().starts_with(b"{") => None,
        Some(params) => serde_json::from_slice(params.as_bytes()).ok(),
        None => Some(Addressed::default()),
    }
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

/// Which request a client gives up.
pub(super) fn cancelled_id(params: Option<&RawJson>) -> Option<RawJson> {
    let fields: Cancelled<'_> = serde_json::from_slice(params?.as_bytes()).ok()?;
    RawJson::from_text(fields.request_id.get().to_owned()).ok()
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
