//! JSON as people write it, found in its text instead of parsed: with comments, trailing commas and its own layout.
//!
//! Whoever changes a file of somebody else must leave everything as it is that is not theirs, so this knows where things
//! are and nothing of what they mean. The text must be well formed once comments and trailing commas are taken out;
//! check that first. Nothing here recurses: depth is no danger.

use std::collections::HashSet;
use std::ops::Range;

/// The whole document's value.
pub(crate) fn root(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = after_blank(bytes, if text.starts_with('\u{feff}') { 3 } else { 0 });
    let end = after_value(bytes, start)?;
    Some(start..end)
}

/// The value of a key of an object. Of several the last, as parsers have it.
pub(crate) fn member(text: &str, object: &Range<usize>, key: &str) -> Option<Range<usize>> {
    let mut found = members(text, object)?.into_iter().filter(|(name, _, _)| name == key);
    found.next_back().map(|(_, _, value)| value)
}

/// The value of an item of a list.
pub(crate) fn item(text: &str, list: &Range<usize>, wanted: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if bytes.get(list.start) != Some(&b'[') {
        return None;
    }
    let mut at = after_blank(bytes, list.start + 1);
    let mut n = 0;
    while at < list.end && bytes[at] != b']' {
        let end = after_value(bytes, at)?;
        if n == wanted {
            return Some(at..end);
        }
        n += 1;
        at = after_comma(bytes, end);
    }
    None
}

/// The members of an object: their keys, where those begin, and their values.
pub(crate) fn members(
    text: &str,
    object: &Range<usize>,
) -> Option<Vec<(String, usize, Range<usize>)>> {
    let bytes = text.as_bytes();
    if bytes.get(object.start) != Some(&b'{') {
        return None;
    }
    let mut members = Vec::new();
    let mut at = after_blank(bytes, object.start + 1);
    while at < object.end && bytes[at] != b'}' {
        let end = after_value(bytes, at)?;
        let key: String = serde_json::from_str(text.get(at..end)?).ok()?;
        let colon = after_blank(bytes, end);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let value = after_blank(bytes, colon + 1);
        let value_end = after_value(bytes, value)?;
        members.push((key, at, value..value_end));
        at = after_comma(bytes, value_end);
    }
    Some(members)
}

/// A key that is there twice in one object, and where it is for the second time: parsers take the last and say nothing.
/// Only looks below these keys of the top, and at those themselves.
pub(crate) fn repeated(text: &str, sections: &[&str]) -> Option<(String, usize)> {
    let top = members(text, &root(text)?)?;
    let top: Vec<_> =
        top.into_iter().filter(|(name, ..)| sections.contains(&name.as_str())).collect();
    let mut waiting = vec![top];
    while let Some(members_of_one) = waiting.pop() {
        let mut seen = HashSet::new();
        for (name, at, value) in &members_of_one {
            if !seen.insert(name) {
                return Some((name.clone(), *at));
            }
            waiting.extend(members(text, value));
        }
    }
    None
}

/// The comma behind a value, if there is one.
pub(crate) fn comma_after(text: &str, at: usize) -> Option<usize> {
    let at = after_blank(text.as_bytes(), at);
    (text.as_bytes().get(at) == Some(&b',')).then_some(at)
}

/// Where white space and comments that begin here are over.
fn after_blank(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at..).unwrap_or_default() {
            [b'/', b'/', rest @ ..] => {
                at += 2 + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            [b'/', b'*', rest @ ..] => {
                let end = rest.windows(2).position(|pair| pair == b"*/");
                at += 2 + end.map_or(rest.len(), |end| end + 2);
            }
            [byte, ..] if byte.is_ascii_whitespace() => at += 1,
            _ => return at,
        }
    }
}

fn after_comma(bytes: &[u8], at: usize) -> usize {
    let at = after_blank(bytes, at);
    if bytes.get(at) == Some(&b',') { after_blank(bytes, at + 1) } else { at }
}

/// Where the value that begins here is over.
fn after_value(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        match bytes.get(at)? {
            b'"' => at = after_string(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            // Between the parts of a value; no value begins so.
            b',' | b':' if depth > 0 => at += 1,
            b',' | b':' => return None,
            _ => {
                let length = bytes[at..]
                    .iter()
                    .position(|byte| byte.is_ascii_whitespace() || b"{}[],:\"/".contains(byte));
                // A lone slash begins nothing.
                let length = length.unwrap_or(bytes.len() - at);
                at += Some(length).filter(|length| *length > 0)?;
            }
        }
        if depth == 0 {
            return Some(at);
        }
        at = after_blank(bytes, at);
    }
}

/// Where the string that begins here is over.
fn after_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_there_twice_is_found() {
        let found = |text| repeated(text, &["a", "b"]).map(|(name, at)| (name, &text[at..]));
        assert_eq!(found(r#"{"a": {"x": {"y": 1}, "z": {"y": 1}}, "c": 1, "c": 2}"#), None);
        assert_eq!(found("{\"a\": {\"x\": 1, // x\n\"x\": 2}}"), Some(("x".into(), "\"x\": 2}}")));
        assert_eq!(found(r#"{"b": {"x": {"y": {"k": 1, "k": 2}}}}"#).unwrap().0, "k");
        assert_eq!(found(r#"{"a": {}, "a": {}}"#).unwrap().0, "a");
        assert_eq!(found("[]"), None);
    }

    fn slice<'a>(text: &'a str, range: Option<&Range<usize>>) -> Option<&'a str> {
        range.map(|range| &text[range.clone()])
    }

    #[test]
    fn things_are_found_between_comments() {
        let text = "\u{feff}// {\n{ /* } */ \"a\\u0062\": { \"x\": [1, \"]\", {}, ], // }\n }, \"b\" : -1.5e3, }";
        let all = root(text).unwrap();
        let inner = member(text, &all, "ab").unwrap();
        let list = member(text, &inner, "x").unwrap();
        assert_eq!(slice(text, item(text, &list, 1).as_ref()), Some("\"]\""));
        assert_eq!(slice(text, item(text, &list, 2).as_ref()), Some("{}"));
        assert_eq!(item(text, &list, 3), None);
        assert_eq!(slice(text, member(text, &all, "b").as_ref()), Some("-1.5e3"));
        assert_eq!(member(text, &all, "c"), None);
        assert_eq!(member(text, &list, "c"), None);
    }

    #[test]
    fn broken_text_is_not_found_and_depth_is_no_danger() {
        for text in ["", "{", "{\"a\"", "{\"a\":", "{\"a\" 1}", "\"\\", "}", "{,}", "// x"] {
            let found = root(text).and_then(|all| member(text, &all, "a"));
            assert_eq!(found, None, "{text}");
        }
        let deep = "[".repeat(200_000);
        assert_eq!(root(&deep), None);
        let deep = format!("{deep}{}", "]".repeat(200_000));
        assert_eq!(root(&deep), Some(0..400_000));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_member_is_where_it_is_said_to_be(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            let all = root(&text).unwrap();
            prop_assert_eq!(&text[all.clone()], text.as_str());
            for (name, expected) in value.as_object().into_iter().flatten() {
                let found = member(&text, &all, name).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(&text[found]).unwrap(), expected);
            }
            for (n, expected) in value.as_array().into_iter().flatten().enumerate() {
                let found = item(&text, &all, n).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(&text[found]).unwrap(), expected);
            }
        }

        #[test]
        fn no_text_makes_it_fail(text in r#"[{}\[\]",:/*\\ a1\n]{0,24}"#) {
            if let Some(all) = root(&text) {
                members(&text, &all);
                item(&text, &all, 1);
            }
        }
    }
}
