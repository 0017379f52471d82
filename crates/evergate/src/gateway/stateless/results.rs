//! What results have in this revision that earlier ones do not know: their kind, how long they may be kept, and by whom they
//! were made.

use std::fmt::Write as _;
use std::sync::LazyLock;

use evergate_runtime::{RawJson, wire};
use indexmap::IndexMap;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::SERVER_INFO;
use crate::gateway::error_body::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::gateway::handshake;

/// How long a result may be kept, and for whom. By default not at all: a server that says nothing promises nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::gateway) struct CacheHint {
    pub(in crate::gateway) ttl_ms: u64,
    /// For everybody.
    pub(in crate::gateway) public: bool,
}

/// Whether a request of this method may be answered with questions.
pub(super) fn may_ask(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// The result of a request; what it says of itself already stays.
pub(super) fn complete_of(method: &str, result: RawJson) -> RawJson {
    // Made here, and complete.
    if method.ends_with("/list") || method == "server/discover" {
        return result;
    }
    complete(&result, (method == "resources/read").then(CacheHint::default))
}

/// The same with a hint for those who may keep it.
pub(in crate::gateway) fn complete(result: &RawJson, hint: Option<CacheHint>) -> RawJson {
    let text = result.as_str();
    let (mut has_type, mut has_ttl, mut has_scope) = (false, false, false);
    let mut meta = None;
    let mut is_empty = true;
    let mut is_final = true;
    let read = wire::object_fields(text, |name, value| {
        is_empty = false;
        match name {
            "resultType" => {
                has_type = true;
                is_final = &text[value] == "\"complete\"";
            }
            "ttlMs" => has_ttl = true,
            "cacheScope" => has_scope = true,
            "_meta" => meta = Some(value),
            _ => {}
        }
    });
    if read.is_none() {
        return rebuilt(result, hint);
    }
    let mut added = String::with_capacity(192);
    if !has_type {
        added.push_str("\"resultType\":\"complete\",");
    }
    if let Some(hint) = hint.filter(|_| is_final) {
        if !has_ttl {
            // Writing to a text cannot fail.
            let _ = write!(added, "\"ttlMs\":{},", hint.ttl_ms);
        }
        if !has_scope {
            let _ = write!(added, "\"cacheScope\":\"{}\",", hint.scope());
        }
    }
    if meta.is_none() {
        let _ = write!(added, "\"_meta\":{},", our_meta());
    }
    if is_empty {
        added.pop();
    }
    // The fields were read, so it is an object.
    let begin = text.find('{').map_or(0, |brace| brace + 1);
    let unsigned = meta.filter(|meta| {
        let meta = &text[meta.clone()];
        meta.starts_with('{') && !meta.contains(SERVER_INFO)
    });
    let Some(meta) = unsigned else {
        return RawJson::from_valid(["{", &added, &text[begin..]].concat());
    };
    // Somebody has something to say there, but not who.
    let inside = meta.start + 1;
    let comma = if text[inside..meta.end - 1].trim().is_empty() { "" } else { "," };
    let ours = our_meta();
    let ours = &ours[1..ours.len() - 1];
    RawJson::from_valid(["{", &added, &text[begin..inside], ours, comma, &text[inside..]].concat())
}

/// The slow way, for objects that are nested deeply or written in an unusual way. What is in their fields stays as it is; what
/// is no object at all is nobody's to complete.
fn rebuilt(result: &RawJson, hint: Option<CacheHint>) -> RawJson {
    let fields = serde_json::from_slice::<IndexMap<String, &RawValue>>(result.as_bytes());
    let Ok(mut fields) = fields else { return result.clone() };
    let raw = |text: String| RawValue::from_string(text).ok();
    let added = [
        ("resultType", raw("\"complete\"".to_owned())),
        ("_meta", raw(our_meta().to_owned())),
        ("ttlMs", hint.and_then(|hint| raw(hint.ttl_ms.to_string()))),
        ("cacheScope", hint.and_then(|hint| raw(format!("\"{}\"", hint.scope())))),
    ];
    for (name, value) in &added {
        if let Some(value) = value {
            fields.entry((*name).to_owned()).or_insert(value);
        }
    }
    RawJson::from_value(&fields).unwrap_or_else(|_| result.clone())
}

/// An error in the terms of this revision.
pub(super) fn error_of(error: RawJson) -> RawJson {
    let Ok(mut fields) = error.parse::<Map<String, Value>>() else { return error };
    if fields.get("code") != Some(&RESOURCE_NOT_FOUND.into()) {
        return error;
    }
    fields.insert("code".into(), INVALID_PARAMS.into());
    Value::Object(fields).into()
}

/// The `_meta` of what nobody else has signed.
pub(super) fn our_meta() -> &'static str {
    static META: LazyLock<String> =
        LazyLock::new(|| json!({ SERVER_INFO: handshake::ourselves() }).to_string());
    &META
}

// === impl CacheHint ===

impl CacheHint {
    fn scope(self) -> &'static str {
        if self.public { "public" } else { "private" }
    }

    /// What holds for a list that several servers made together, each of which may have said something.
    pub(in crate::gateway) fn of_all(parts: impl Iterator<Item = Self>) -> Self {
        let both = |one: Self, other: Self| Self {
            ttl_ms: one.ttl_ms.min(other.ttl_ms),
            public: one.public && other.public,
        };
        parts.reduce(both).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str, hint: Option<CacheHint>) -> String {
        let result = complete(&RawJson::from_text(text.to_owned()).unwrap(), hint);
        // It must be valid whatever came in.
        RawJson::from_text(result.as_str().to_owned()).unwrap();
        result.as_str().replace(our_meta(), "US").replace(SERVER_INFO, "who")
    }

    #[test]
    fn what_is_missing_is_added_and_the_rest_stays() {
        assert_eq!(completed("{}", None), r#"{"resultType":"complete","_meta":US}"#);
        assert_eq!(
            completed(r#"{ "content":[1.0] }"#, None),
            r#"{"resultType":"complete","_meta":US, "content":[1.0] }"#
        );
        let hint = Some(CacheHint { ttl_ms: 5, public: true });
        assert_eq!(
            completed(r#"{"contents":[]}"#, hint),
            r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","_meta":US,"contents":[]}"#
        );
        let own = r#"{"resultType":"complete","ttlMs":7,"cacheScope":"private","_meta":{"who":{}},"contents":[]}"#;
        assert_eq!(completed(&own.replace("who", SERVER_INFO), hint), own);
    }

    #[test]
    fn what_somebody_else_says_is_signed_by_us() {
        let us = our_meta().replace(SERVER_INFO, "who");
        let signed = |text: &str| completed(text, None).replace(&us[1..us.len() - 1], "US");
        assert_eq!(
            signed(r#"{"_meta":{"x":1},"y":2}"#),
            r#"{"resultType":"complete","_meta":{US,"x":1},"y":2}"#
        );
        assert_eq!(signed(r#"{"_meta":null}"#), r#"{"resultType":"complete","_meta":null}"#);
        assert_eq!(signed(r#"{"_meta": { } }"#), r#"{"resultType":"complete","_meta": {US } }"#);
    }

    #[test]
    fn questions_have_no_time_to_live() {
        let question = r#"{"resultType":"input_required","requestState":"x","_meta":{"who":{}}}"#;
        let completed =
            completed(&question.replace("who", SERVER_INFO), Some(CacheHint::default()));
        assert_eq!(completed, question);
    }

    #[test]
    fn nothing_is_lost_of_what_is_nested_deeply_or_written_strangely() {
        let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        let text = format!(r#"{{"content":{deep},"n":9223372036854775808.10,"\u0061":1}}"#);
        let hint = Some(CacheHint::default());
        assert_eq!(
            completed(&text, hint),
            format!(
                r#"{{"content":{deep},"n":9223372036854775808.10,"a":1,"resultType":"complete","_meta":US,"ttlMs":0,"cacheScope":"private"}}"#
            )
        );
    }

    #[test]
    fn hints_hold_for_all_parts() {
        let hint = |(ttl_ms, public)| CacheHint { ttl_ms, public };
        let all = |parts: &[(u64, bool)]| CacheHint::of_all(parts.iter().copied().map(hint));
        assert_eq!(all(&[(5, true), (3, true)]), hint((3, true)));
        assert_eq!(all(&[(5, true), (9, false)]), hint((5, false)));
        assert_eq!(all(&[]), hint((0, false)));
    }

    #[test]
    fn a_missing_resource_is_a_wrong_param() {
        let error = |text: &str| error_of(RawJson::from_text(text.to_owned()).unwrap());
        let missing = r#"{"code":-32002,"message":"no","data":{"uri":"a:b"}}"#;
        let now: Value = error(missing).parse().unwrap();
        assert_eq!(now, json!({ "code": -32602, "message": "no", "data": { "uri": "a:b" } }));
        let other = r#"{"code":-32603, "message":"x"}"#;
        assert_eq!(error(other).as_str(), other);
    }
}
