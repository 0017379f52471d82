//! Another name for a tool or prompt, and not one byte else.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Where the name of an object is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// The name it has.
    pub(super) own: Cow<'a, str>,
    /// Its JSON string in the text, quotes included.
    place: Range<usize>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Finds the `name` of the JSON object `text`; `None` if it has none, or one that is no string.
pub(super) fn find_name(text: &[u8]) -> Option<Name<'_>> {
    // An array would be read as the fields in order.
    if !text.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let name = serde_json::from_slice::<Named<'_>>(text).ok()?.name.get();
    let Text(own) = serde_json::from_str(name).ok()?;
    // It was borrowed from the text, so the distance between the two is where it is.
    let start = name.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let place = start..start + name.len();
    text.get(place.clone())?;
    Some(Name { own, place })
}

/// Appends `text` to `out`, called `public` instead.
pub(super) fn append_renamed(out: &mut Vec<u8>, text: &[u8], name: &Name<'_>, public: &str) {
    if name.own == public {
        out.extend_from_slice(text);
        return;
    }
    out.extend_from_slice(&text[..name.place.start]);
    out.extend_from_slice(serde_json::Value::from(public).to_string().as_bytes());
    out.extend_from_slice(&text[name.place.end..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(text: &str, public: &str) -> String {
        let mut out = Vec::new();
        append_renamed(&mut out, text.as_bytes(), &find_name(text.as_bytes()).unwrap(), public);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_but_the_name_changes() {
        let text = r#" { "z" : 12345678901234567890123, "name"  :  "read" ,"unknown":{"name":"read"}, "a":1.0E+2 } "#;
        assert_eq!(
            renamed(text, "files__read"),
            r#" { "z" : 12345678901234567890123, "name"  :  "files__read" ,"unknown":{"name":"read"}, "a":1.0E+2 } "#
        );
    }

    #[test]
    fn a_nested_name_before_it_is_not_taken_for_it() {
        assert_eq!(
            renamed(r#"{"x":{"name":"no"},"y":["name"],"name":"yes"}"#, "s__yes"),
            r#"{"x":{"name":"no"},"y":["name"],"name":"s__yes"}"#
        );
    }

    #[test]
    fn escapes_are_understood_and_written() {
        let text = r#"{"n\u0061me":"a\"b\u00e4\ud83d\ude00"}"#;
        assert_eq!(find_name(text.as_bytes()).unwrap().own, "a\"bä😀");
        assert_eq!(renamed(text, "s__a\"b\n"), r#"{"n\u0061me":"s__a\"b\n"}"#);
    }

    #[test]
    fn a_name_that_stays_keeps_its_bytes() {
        let text = r#"{"name":"\u0061"}"#;
        assert_eq!(renamed(text, "a"), text);
    }

    #[test]
    fn without_a_usable_name_there_is_nothing_to_find() {
        for text in [r#"{"title":"x"}"#, r#"{"name":7}"#, r#"{"name":null}"#, r#"["a"]"#, "7", ""] {
            assert_eq!(find_name(text.as_bytes()), None, "{text}");
        }
        // Readers disagree on which of two counts.
        assert_eq!(find_name(br#"{"name":"a","name":"b"}"#), None);
    }
}
