//! Follows one JSON object through the pieces it comes in, without keeping them: where it ends, and what would have to
//! follow to end it early.
//!
//! Texts are skipped at the speed of a search for their end, so that a large result costs next to nothing. What is
//! checked is the structure; a literal that is none (`nul`) passes, as it did no harm so far.

use memchr::memchr2;

/// Deeper than anything sensible. The same limit as for JSON that is read whole.
const MAX_DEPTH: usize = 128;
/// Longest name of a field of the object itself that anybody asks for.
const NAME: usize = 16;

/// Where the scan of one object stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueScanner {
    open: Vec<Bracket>,
    at: At,
    /// The last bytes, of which the last character may be incomplete.
    tail: [u8; 4],
    /// The digits of the last `\\u` escape.
    hex: u32,
    /// The text so far ends in the first half of a character written as two escapes.
    half: bool,
    /// The name of the object's own field that the scan is in, or as much as matters of it. What has escapes is none that
    /// anybody asks for.
    name: Vec<u8>,
    has_content: bool,
    has_is_error: bool,
}

/// It is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Object,
    Array,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// Before the object itself.
    #[default]
    Start,
    /// After `{`.
    FirstName,
    /// After a comma in an object.
    Name,
    Colon,
    /// After `[`.
    FirstValue,
    /// After a colon, or a comma in an array.
    Value,
    AfterValue,
    Text {
        is_name: bool,
        escape: Escape,
    },
    /// A number or a literal; how much of it there is, and its first and last byte.
    Scalar {
        length: u8,
        first: u8,
        last: u8,
    },
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Begun,
    /// `\u`, and how many digits are missing.
    Hex(u8),
}

// === impl ValueScanner ===

impl ValueScanner {
    /// Takes the next piece. Returns how much of it belongs to the object if that ends in it.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<Option<usize>, NotJson> {
        let mut next = 0;
        while let Some(&byte) = piece.get(next) {
            match self.at {
                At::Text { is_name, escape: Escape::No } => {
                    let rest = &piece[next..];
                    let length = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.note_text(&rest[..length], is_name);
                    self.half &= length == 0;
                    next += length;
                    match piece.get(next) {
                        Some(b'"') => self.end_text(is_name),
                        Some(_) => self.at = At::Text { is_name, escape: Escape::Begun },
                        None => break,
                    }
                    next += 1;
                    continue;
                }
                At::Text { is_name, escape } => {
                    if is_name && self.open.len() == 1 && self.name.first() != Some(&b'\\') {
                        self.name.insert(0, b'\\');
                    }
                    self.note_text(&[byte], is_name);
                    self.at = At::Text { is_name, escape: self.escaped(escape, byte)? };
                }
                At::End => break,
                _ => self.structure(byte)?,
            }
            next += 1;
            if self.at == At::End {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// What has to follow what has come so far to make it a tool's result that says of itself that it failed, with
    /// `note` as the last of its content. `None` if it has already said otherwise.
    pub(crate) fn cut_short(&self, note: &str) -> Option<Vec<u8>> {
        if self.has_is_error || matches!(self.at, At::Start | At::End) {
            return None;
        }
        let item = serde_json::json!({ "type": "text", "text": note }).to_string();
        let of_content = self.name == b"content";
        if of_content && self.open.len() == 1 && matches!(self.at, At::Colon | At::Value) {
            let colon = if self.at == At::Colon { ":" } else { "" };
            return Some(format!("{colon}[{item}],\"isError\":true}}").into());
        }
        let in_content = of_content && self.open.get(1) == Some(&Bracket::Array);
        // What is closed first: everything inside the content, or inside the result.
        let keep = if in_content { 2 } else { 1 };
        let mut end = Vec::with_capacity(item.len() + 64);
        let mut needs_comma = self.end_token(&mut end, self.open.len() > keep);
        for bracket in self.open[keep..].iter().rev() {
            end.push(if *bracket == Bracket::Object { b'}' } else { b']' });
            needs_comma = true;
        }
        let mut add = |text: &str, needs_comma: bool| {
            if needs_comma {
                end.push(b',');
            }
            end.extend_from_slice(text.as_bytes());
        };
        if in_content {
            add(&format!("{item}]"), needs_comma);
            needs_comma = true;
        } else if !self.has_content {
            add(&format!("\"content\":[{item}]"), needs_comma);
            needs_comma = true;
        }
        add("\"isError\":true}", needs_comma);
        Some(end)
    }

    /// One more byte after a backslash.
    fn escaped(&mut self, escape: Escape, byte: u8) -> Result<Escape, NotJson> {
        Ok(match escape {
            Escape::Hex(left) => {
                let digit = char::from(byte).to_digit(16).ok_or(NotJson)?;
                self.hex = self.hex << 4 | digit;
                if left > 1 {
                    return Ok(Escape::Hex(left - 1));
                }
                self.half = !self.half && is_first_half(self.hex);
                Escape::No
            }
            _ if byte == b'u' => {
                self.hex = 0;
                Escape::Hex(4)
            }
            _ => {
                self.half = false;
                Escape::No
            }
        })
    }

    fn structure(&mut self, byte: u8) -> Result<(), NotJson> {
        if let At::Scalar { length, first, .. } = self.at {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.') {
                self.at = At::Scalar { length: length.saturating_add(1), first, last: byte };
                return Ok(());
            }
            self.at = At::AfterValue;
        }
        self.at = match (byte, self.at) {
            (b' ' | b'\t' | b'\n' | b'\r', at) => at,
            (b'{', At::Start | At::FirstValue | At::Value) => self.enter(Bracket::Object)?,
            (b'[', At::FirstValue | At::Value) => self.enter(Bracket::Array)?,
            (b'}', At::FirstName | At::AfterValue) => self.leave(Bracket::Object)?,
            (b']', At::FirstValue | At::AfterValue) => self.leave(Bracket::Array)?,
            (b'"', At::FirstName | At::Name) => {
                if self.open.len() == 1 {
                    self.name.clear();
                }
                At::Text { is_name: true, escape: Escape::No }
            }
            (b'"', At::FirstValue | At::Value) => At::Text { is_name: false, escape: Escape::No },
            (b':', At::Colon) => At::Value,
            (b',', At::AfterValue) => match self.open.last() {
                Some(Bracket::Object) => At::Name,
                _ => At::Value,
            },
            (b'-' | b'0'..=b'9' | b't' | b'f' | b'n', At::FirstValue | At::Value) => {
                At::Scalar { length: 1, first: byte, last: byte }
            }
            _ => return Err(NotJson),
        };
        Ok(())
    }

    fn enter(&mut self, bracket: Bracket) -> Result<At, NotJson> {
        if self.open.len() == MAX_DEPTH {
            return Err(NotJson);
        }
        self.open.push(bracket);
        Ok(if bracket == Bracket::Object { At::FirstName } else { At::FirstValue })
    }

    fn leave(&mut self, bracket: Bracket) -> Result<At, NotJson> {
        if self.open.pop() != Some(bracket) {
            return Err(NotJson);
        }
        Ok(if self.open.is_empty() { At::End } else { At::AfterValue })
    }

    fn note_text(&mut self, text: &[u8], is_name: bool) {
        if is_name && self.open.len() == 1 {
            let room = NAME.saturating_sub(self.name.len());
            self.name.extend_from_slice(&text[..text.len().min(room)]);
        }
        let newest = &text[text.len().saturating_sub(self.tail.len())..];
        self.tail.rotate_left(newest.len());
        let start = self.tail.len() - newest.len();
        self.tail[start..].copy_from_slice(newest);
    }

    fn end_text(&mut self, is_name: bool) {
        (self.tail, self.half) = ([0; 4], false);
        if !is_name {
            self.at = At::AfterValue;
            return;
        }
        self.at = At::Colon;
        if self.open.len() == 1 {
            self.has_content |= self.name == b"content";
            self.has_is_error |= self.name == b"isError";
        }
    }

    /// Makes the last character of a text whole. Any valid one will do.
    fn end_char(&self, end: &mut Vec<u8>, escape: Escape) {
        const SECOND_HALF: &[u8] = b"\\udc00";
        match escape {
            Escape::No if self.half => end.extend_from_slice(SECOND_HALF),
            Escape::No => end.extend(missing_of_last_char(&self.tail)),
            Escape::Begun if self.half => end.extend_from_slice(&SECOND_HALF[1..]),
            Escape::Begun => end.push(b'n'),
            Escape::Hex(left) if self.half => {
                end.extend_from_slice(&SECOND_HALF[SECOND_HALF.len() - usize::from(left)..]);
            }
            Escape::Hex(left) => {
                end.extend((0..left).map(|_| b'0'));
                if is_first_half(self.hex << (4 * left)) {
                    end.extend_from_slice(SECOND_HALF);
                }
            }
        }
    }

    /// Ends whatever the scan is in the middle of; `value` if a value has to stand there. Says whether something now
    /// stands before whatever follows.
    fn end_token(&self, end: &mut Vec<u8>, value: bool) -> bool {
        match self.at {
            At::Name if value => {
                end.extend_from_slice(b"\"\":null");
                true
            }
            // What is added next takes the place.
            At::FirstName | At::FirstValue | At::Name => false,
            At::Value => {
                let in_array = self.open.last() == Some(&Bracket::Array);
                if !value && in_array {
                    return false;
                }
                end.extend_from_slice(b"null");
                true
            }
            At::Colon => {
                end.extend_from_slice(b":null");
                true
            }
            At::Text { is_name, escape } => {
                self.end_char(end, escape);
                // A name that is not complete must not become one that is there already, or is added.
                end.extend_from_slice(if is_name { b"_\":null" } else { b"\"" });
                true
            }
            At::Scalar { length, first, last } => {
                let whole = match first {
                    b't' => "true",
                    b'f' => "false",
                    b'n' => "null",
                    _ if last.is_ascii_digit() => "",
                    _ => "0",
                };
                let there =
                    if matches!(first, b't' | b'f' | b'n') { usize::from(length) } else { 0 };
                end.extend_from_slice(whole.get(there..).unwrap_or_default().as_bytes());
                true
            }
            At::AfterValue | At::Start | At::End => true,
        }
    }
}

/// Of a character that is written as two escapes.
fn is_first_half(hex: u32) -> bool {
    (0xD800..0xDC00).contains(&hex)
}

/// What makes the last character whole, should it have been cut through. Any valid one will do.
fn missing_of_last_char(tail: &[u8]) -> impl Iterator<Item = u8> {
    let from_end = tail.iter().rev().position(|byte| !(0x80..0xC0).contains(byte)).unwrap_or(4);
    let lead = tail.len().checked_sub(from_end + 1).map_or(0, |index| tail[index]);
    let length = match lead {
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
        _ => 1,
    };
    // The second byte of some is bound to a narrower range.
    let second = match lead {
        0xE0 => 0xA0,
        0xF0 => 0x90,
        _ => 0x80,
    };
    let there = from_end + 1;
    (there..length).map(move |index| if index == 1 { second } else { 0x80 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const RESULT: &str = r#"{"_meta":{"a\"":[-1.5e+3,true,null,{}]},"content":[{"type":"text","text":"ä\u00e4\\\ud83d\uDE00€😀 x"},{"n":[[]]}],"structuredContent":{"x":false}}"#;

    #[test]
    fn the_end_is_found_however_it_is_cut() {
        let text = format!("{RESULT},\"id\":1}}");
        for cut in 0..RESULT.len() {
            let mut scanner = ValueScanner::default();
            assert_eq!(scanner.feed(&text.as_bytes()[..cut]), Ok(None), "{cut}");
            assert_eq!(
                scanner.feed(&text.as_bytes()[cut..]),
                Ok(Some(RESULT.len() - cut)),
                "{cut}"
            );
        }
    }

    #[test]
    fn wherever_a_result_breaks_off_it_can_be_ended_as_a_failure() {
        for cut in 1..RESULT.len() {
            let mut text = RESULT.as_bytes()[..cut].to_vec();
            let mut scanner = ValueScanner::default();
            scanner.feed(&text).unwrap();
            text.extend(scanner.cut_short("broke \"off\"").unwrap());
            let result: Value = serde_json::from_slice(&text).unwrap_or_else(|error| {
                panic!("{cut}: {error}: {}", String::from_utf8_lossy(&text))
            });
            assert_eq!(result["isError"], true, "{cut}");
            let after_content = cut >= RESULT.find(",\"structured").unwrap();
            let last = result["content"].as_array().unwrap().last().unwrap();
            assert!(after_content || last["text"] == "broke \"off\"", "{cut}: {result}");
        }
    }

    #[test]
    fn no_field_is_there_twice_wherever_it_breaks_off() {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Result {
            content: Vec<Value>,
            is_error: bool,
        }
        for text in
            [r#"{"content":[{"a":1}],"isError""#, r#"{"co\ntent":1,"isErr\u006Fr_":2,"content"#]
        {
            for cut in 1..text.len() {
                let mut scanner = ValueScanner::default();
                scanner.feed(&text.as_bytes()[..cut]).unwrap();
                // Once it has its name there is nothing left to say.
                let Some(end) = scanner.cut_short("note") else { continue };
                let whole = [&text.as_bytes()[..cut], &end].concat();
                let ended: Result = serde_json::from_slice(&whole)
                    .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&whole)));
                assert!(ended.is_error && !ended.content.is_empty());
            }
        }
    }

    #[test]
    fn what_has_already_said_how_it_went_is_not_contradicted() {
        let mut scanner = ValueScanner::default();
        scanner.feed(br#"{"isError":false,"content":["#).unwrap();
        assert_eq!(scanner.cut_short("late"), None);
    }

    #[test]
    fn what_is_not_json_is_noticed() {
        for bad in ["[", "x", r#"{"a":1]"#, r#"{"a" 1}"#, r#"{"a":1 2}"#, "{,}", r#"{"a":{}}}"#] {
            let mut scanner = ValueScanner::default();
            let fed = scanner.feed(bad.as_bytes());
            assert!(
                fed.is_err() || fed.is_ok_and(|end| end.is_some_and(|end| end < bad.len())),
                "{bad}"
            );
        }
        let deep = format!("{{\"a\":{}", "[".repeat(200));
        assert_eq!(ValueScanner::default().feed(deep.as_bytes()), Err(NotJson));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_object_ends_where_it_ends(
            value in prop::collection::btree_map(".*", json(), 0..6),
            pretty: bool,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let value = Value::Object(value.into_iter().collect());
            let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let mut scanner = ValueScanner::default();
            let mut start = 0;
            for cut in cuts {
                let ended = scanner.feed(&text[start..cut]).unwrap();
                prop_assert_eq!(ended, (cut == text.len() && start < cut).then(|| cut - start));
                start = cut;
            }
        }

        #[test]
        fn any_object_can_be_ended_anywhere(
            value in prop::collection::btree_map(".*", json(), 1..6),
            cut: prop::sample::Index,
        ) {
            let value = Value::Object(value.into_iter().collect());
            let text = serde_json::to_vec(&value).unwrap();
            let cut = cut.index(text.len() - 1) + 1;
            let mut scanner = ValueScanner::default();
            scanner.feed(&text[..cut]).unwrap();
            if let Some(end) = scanner.cut_short("x") {
                let ended = [&text[..cut], &end].concat();
                let ended: Result<Value, _> = serde_json::from_slice(&ended);
                prop_assert!(ended.is_ok_and(|ended| ended["isError"] == true));
            }
        }
    }
}
