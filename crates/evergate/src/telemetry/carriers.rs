//! What carries a trace context: the headers of an HTTP request, and `_meta` of a message (SEP-414). A payload is spliced,
//! never written again.

use std::borrow::Cow;
use std::ops::Range;

use evergate_runtime::{RawJson, wire};
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;

use crate::front::request::Headers;

use super::trace_context::{BAGGAGE, TRACEPARENT, TRACESTATE, TraceContext};

/// Whether a request says where it stands, in its headers.
pub(crate) fn is_in(headers: &Headers) -> bool {
    headers.get(TRACEPARENT).is_some()
}

/// Whether a header says where a request stands.
pub(crate) fn carries(name: &HeaderName) -> bool {
    [TRACEPARENT, TRACESTATE, BAGGAGE].contains(&name.as_str())
}

/// What the headers of a request say.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let traceparent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        // "If more than one traceparent header": nobody could tell which is meant.
        return None;
    }
    let (state, baggage) = (joined(headers, TRACESTATE), joined(headers, BAGGAGE));
    TraceContext::read(traceparent, state.as_deref(), baggage.as_deref())
}

/// What `_meta` of a request says.
pub(crate) fn from_meta(meta: &str) -> Option<TraceContext> {
    // Most that do not can be told without reading them.
    memmem::find(meta.as_bytes(), TRACEPARENT.as_bytes())?;
    let places = Places::of(meta)?;
    let text = |places: &[Range<usize>]| match places {
        [place] => string(&meta[place.clone()]),
        _ => None,
    };
    let traceparent = text(&places.traceparent)?;
    let (state, baggage) = (text(&places.tracestate), text(&places.baggage));
    TraceContext::read(&traceparent, state.as_deref(), baggage.as_deref())
}

/// Puts a context among the headers of a request.
pub(super) fn into_headers(context: &TraceContext, headers: &mut HeaderMap) {
    for (name, text) in context.fields() {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
}

/// The params of a request with a context in their `_meta`, in place of what was there. `None` if they are none of those
/// that certainly can have one: then they pass as they are.
pub(super) fn into_params(context: &TraceContext, params: Option<&RawJson>) -> Option<RawJson> {
    let Some(params) = params else {
        let mut text = Vec::from(b"{\"_meta\":{");
        add(&mut text, context.fields(), false);
        text.extend_from_slice(b"}}");
        return Some(RawJson::from_valid(text));
    };
    let text = std::str::from_utf8(params.as_bytes()).ok()?;
    let (mut metas, mut is_empty) = (Vec::new(), true);
    wire::object_fields(text, |name, place| {
        is_empty = false;
        if name == "_meta" {
            metas.push(place);
        }
    })?;
    let mut result = Vec::with_capacity(text.len() + 160);
    match &metas[..] {
        [] => {
            result.extend_from_slice(text.trim_end().strip_suffix('}')?.as_bytes());
            result.extend_from_slice(if is_empty { b"\"_meta\":{" } else { b",\"_meta\":{" });
            add(&mut result, context.fields(), false);
            result.extend_from_slice(b"}}");
        }
        [place] => {
            result.extend_from_slice(&text.as_bytes()[..place.start]);
            into_meta(&mut result, context, &text[place.clone()])?;
            result.extend_from_slice(&text.as_bytes()[place.end..]);
        }
        _ => return None,
    }
    Some(RawJson::from_valid(result))
}

/// Writes `_meta` with a context.
fn into_meta(result: &mut Vec<u8>, context: &TraceContext, meta: &str) -> Option<()> {
    let places = Places::of(meta)?;
    let own = |name| context.fields().find(|(own, _)| *own == name).map(|(_, text)| text);
    let mut changes: Vec<(Range<usize>, &str)> = Vec::new();
    let mut missing = Vec::new();
    for (name, found) in [(TRACEPARENT, &places.traceparent), (TRACESTATE, &places.tracestate)] {
        match own(name) {
            Some(text) if found.is_empty() => missing.push((name, text)),
            // A state without its trace must not go on; an empty one says nothing.
            text => {
                changes.extend(found.iter().map(|place| (place.clone(), text.unwrap_or_default())));
            }
        }
    }
    // What a client put there stays its own.
    if let Some(text) = own(BAGGAGE).filter(|_| places.baggage.is_empty()) {
        missing.push((BAGGAGE, text));
    }
    changes.sort_by_key(|(place, _)| place.start);
    let end = meta.trim_end().len() - 1;
    let mut at = 0;
    for (place, text) in changes {
        result.extend_from_slice(&meta.as_bytes()[at..place.start]);
        write_string(result, text);
        at = place.end;
    }
    result.extend_from_slice(&meta.as_bytes()[at..end]);
    add(result, missing.into_iter(), !places.is_empty);
    result.push(b'}');
    Some(())
}

fn add<'a>(
    result: &mut Vec<u8>,
    fields: impl Iterator<Item = (&'static str, &'a str)>,
    mut has_fields: bool,
) {
    for (name, text) in fields {
        if std::mem::replace(&mut has_fields, true) {
            result.push(b',');
        }
        write_string(result, name);
        result.push(b':');
        write_string(result, text);
    }
}

fn write_string(result: &mut Vec<u8>, text: &str) {
    // A string always serializes, and writing into a Vec cannot fail.
    let _ = serde_json::to_writer(result, text);
}

/// The text of a JSON string.
fn string(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(value).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The values of a header, which may have come in several lines.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut joined = String::new();
    for value in headers.get_all(name) {
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(value.to_str().ok()?);
    }
    (!joined.is_empty()).then_some(joined)
}

/// Where the values are in an object.
#[derive(Default)]
struct Places {
    traceparent: Vec<Range<usize>>,
    tracestate: Vec<Range<usize>>,
    baggage: Vec<Range<usize>>,
    is_empty: bool,
}

// === impl Places ===

impl Places {
    fn of(meta: &str) -> Option<Self> {
        let mut places = Self { is_empty: true, ..Self::default() };
        wire::object_fields(meta, |name, place| {
            places.is_empty = false;
            match name {
                TRACEPARENT => places.traceparent.push(place),
                TRACESTATE => places.tracestate.push(place),
                BAGGAGE => places.baggage.push(place),
                _ => {}
            }
        })?;
        Some(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    const OURS: &str = "00-0af7651916cd43dd8448eb211c80319c-1111111111111111-01";

    fn context(traceparent: &str, state: Option<&str>, baggage: Option<&str>) -> TraceContext {
        TraceContext::read(traceparent, state, baggage).unwrap()
    }

    fn spliced(params: &str, context: &TraceContext) -> Option<String> {
        let params = RawJson::from_text(params.to_owned()).unwrap();
        into_params(context, Some(&params)).map(|params| params.as_str().to_owned())
    }

    #[test]
    fn a_context_is_put_into_meta_and_nothing_else_is_touched() {
        let ours = context(OURS, None, None);
        let added = format!(r#""traceparent":"{OURS}""#);
        for (before, after) in [
            ("{}", format!(r#"{{"_meta":{{{added}}}}}"#)),
            (
                r#"{ "n": 9223372036854775808, "s":"\u00e9" }"#,
                format!(r#"{{ "n": 9223372036854775808, "s":"\u00e9" ,"_meta":{{{added}}}}}"#),
            ),
            (r#"{"_meta": { } ,"x":1.0}"#, format!(r#"{{"_meta": {{ {added}}} ,"x":1.0}}"#)),
            (
                r#"{"_meta":{"progressToken":1 },"x":1}"#,
                format!(r#"{{"_meta":{{"progressToken":1 ,{added}}},"x":1}}"#),
            ),
            (
                &format!(
                    r#"{{"a":1,"_meta":{{"traceparent": "{THEIRS}","tracestate":"a=b","k":[]}}}}"#
                ),
                format!(r#"{{"a":1,"_meta":{{"traceparent": "{OURS}","tracestate":"","k":[]}}}}"#),
            ),
            // However often and whatever it says.
            (
                r#"{"_meta":{"traceparent":1,"baggage":"kept=1","traceparent":null}}"#,
                format!(r#"{{"_meta":{{{added},"baggage":"kept=1",{added}}}}}"#),
            ),
            // A tool's argument of that name is not meant.
            (
                r#"{"arguments":{"_meta":{"traceparent":"x"}}}"#,
                format!(r#"{{"arguments":{{"_meta":{{"traceparent":"x"}}}},"_meta":{{{added}}}}}"#),
            ),
        ] {
            assert_eq!(spliced(before, &ours).unwrap(), after);
        }
        assert_eq!(
            into_params(&ours, None).unwrap().as_str(),
            format!(r#"{{"_meta":{{{added}}}}}"#)
        );
        // What cannot be looked at for certain passes as it is.
        assert_eq!(spliced(r#"{"_meta":[]}"#, &ours), None);
        assert_eq!(spliced(r#"{"\u005fmeta":{}}"#, &ours), None);
        assert_eq!(spliced(r#"{"_meta":{},"_meta":{}}"#, &ours), None);
    }

    #[test]
    fn all_three_go_along_with_their_quotes() {
        let ours = context(OURS, Some("a=\"b\\"), Some("user=alice"));
        let after = spliced(r#"{"_meta":{"baggage":"own=1"}}"#, &ours).unwrap();
        let expected = format!(
            r#"{{"_meta":{{"baggage":"own=1","traceparent":"{OURS}","tracestate":"a=\"b\\"}}}}"#
        );
        assert_eq!(after, expected);
        let back =
            from_meta(expected.strip_prefix(r#"{"_meta":"#).unwrap().strip_suffix('}').unwrap());
        assert_eq!(back.unwrap(), context(OURS, Some("a=\"b\\"), Some("own=1")));
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_static("theirs"));
        into_headers(&ours, &mut headers);
        assert_eq!(from_headers(&headers).unwrap(), ours);
    }

    #[test]
    fn meta_is_read_as_far_as_it_is_one_context() {
        let read = |meta: &str| from_meta(meta).map(|context| context.parent.to_string());
        assert_eq!(read(&format!(r#"{{"x":{{}}, "traceparent" : "{THEIRS}" }}"#)).unwrap(), THEIRS);
        assert_eq!(
            read(&format!(r#"{{"traceparent":"\u0030{}"}}"#, &THEIRS[1..])).unwrap(),
            THEIRS
        );
        for nothing in [
            "{}".to_owned(),
            r#"{"progressToken":1}"#.to_owned(),
            r#"{"traceparent":7}"#.to_owned(),
            r#"{"traceparent":"x"}"#.to_owned(),
            format!(r#"{{"traceparent":"{THEIRS}","traceparent":"{THEIRS}"}}"#),
            format!(r#"{{"x":{{"traceparent":"{THEIRS}"}}}}"#),
        ] {
            assert_eq!(read(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn headers_may_come_in_several_lines_but_only_one_says_where() {
        assert!(!is_in(&Headers::default()) && from_headers(&HeaderMap::new()).is_none());
        let headers = Headers::from_iter([
            ("Traceparent", THEIRS),
            (TRACESTATE, "a=b"),
            ("authorization", "secret"),
            (TRACESTATE, "c=d"),
        ]);
        let mut kept = headers.to_map_of(carries);
        assert!(is_in(&headers) && !kept.contains_key("authorization"));
        assert_eq!(from_headers(&kept).unwrap(), context(THEIRS, Some("a=b,c=d"), None));
        kept.append(TRACEPARENT, HeaderValue::from_static(THEIRS));
        assert_eq!(from_headers(&kept), None);
    }
}
