//! JSON as people write it: `//` and `/* */` comments and commas before a closing bracket are taken out first.
//!
//! What is taken out becomes spaces, so that the line and column of a mistake stay what they are.

/// The text without comments and trailing commas. Text that is not well formed is left for the parser to complain about.
pub(crate) fn strict(text: &str) -> String {
    let mut bytes = text.trim_start_matches('\u{feff}').as_bytes().to_vec();
    blank_comments(&mut bytes);
    blank_trailing_commas(&mut bytes);
    // Only whole comments and single commas were replaced, so this is UTF-8 still.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// How many members the objects of a strict text have together: each has a colon, and outside of strings nothing else
/// has.
pub(crate) fn members(strict: &str) -> usize {
    let bytes = strict.as_bytes();
    let (mut found, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        if *byte == b'"' {
            at = after_string(bytes, at);
            continue;
        }
        found += usize::from(*byte == b':');
        at += 1;
    }
    found
}

fn blank_comments(bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'"', ..] => {
                at = after_string(bytes, at);
                continue;
            }
            [b'/', b'/', rest @ ..] => {
                at + 2 + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            }
            [b'/', b'*', rest @ ..] => match rest.windows(2).position(|pair| pair == b"*/") {
                Some(length) => at + 2 + length + 2,
                None => return,
            },
            _ => {
                at += 1;
                continue;
            }
        };
        let comment = bytes[at..end].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r'));
        comment.for_each(|byte| *byte = b' ');
        at = end;
    }
}

fn blank_trailing_commas(bytes: &mut [u8]) {
    let mut at = 0;
    // A comma that only white space follows so far, if something stands before it that it could end.
    let mut comma = None;
    let mut before = b'[';
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = after_string(bytes, at);
                (comma, before) = (None, b'"');
                continue;
            }
            // `[,]` is a mistake, not a list.
            b',' if !matches!(before, b'[' | b'{' | b',') => (comma, before) = (Some(at), b','),
            b']' | b'}' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
                before = b']';
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => (comma, before) = (None, byte),
        }
        at += 1;
    }
}

/// Where the string that begins here is over.
fn after_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(text: &str) -> Option<Value> {
        serde_json::from_str(&strict(text)).ok()
    }

    #[test]
    fn comments_and_trailing_commas_are_taken_out() {
        let text =
            "\u{feff}{ // one, }\n \"a\": [1, 2, /* ü, */ ], \"b\": {\"c\": 1,\r\n},\n} // end";
        assert_eq!(parsed(text), Some(json!({ "a": [1, 2], "b": { "c": 1 } })));
    }

    #[test]
    fn members_are_counted_at_every_depth_and_twice_if_they_are_there_twice() {
        assert_eq!(members("[1, \"a:b\", {}]"), 0);
        assert_eq!(members(r#"{"a:\":": {"b": [{"c": ":"}]}, "d": 1, "d": 2}"#), 5);
    }

    #[test]
    fn strings_are_left_alone() {
        let value = json!({ "url": "http://x/*y*/,]", "q": "\\\" // ,}", "e": "\\" });
        assert_eq!(strict(&value.to_string()), value.to_string());
    }

    #[test]
    fn mistakes_stay_mistakes_at_their_place() {
        for text in ["{,}", "[,]", "[1,,]", "{\"a\": 1 /* }", "{\"a", "{\"a\": \"\\", "/", "[1 2,]"]
        {
            assert_eq!(parsed(text), None, "{text}");
        }
        let error = serde_json::from_str::<Value>(&strict("{ // x\n  \"a\" 1 }")).unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 7));
    }
}
