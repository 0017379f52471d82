//! Where the fields of a JSON object are, without reading what is in them.
//!
//! Every request passes here and every answer, and all that is wanted are a few places in the text. A general reader costs
//! several times as much. This one says nothing about what it does not know for certain: whoever gets `None` asks the
//! general reader, which then says what is wrong, if anything is.

use std::ops::Range;

/// Deeper nesting is left to others.
const MAX_DEPTH: u32 = 64;

pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The bytes of all strings so far, one over the other: whether any is not ASCII.
    seen: u64,
}

/// Calls `each` with the name of every field, which has no escapes, and the place of its value. `None` if the text is
/// not, or not certainly, one JSON object.
pub fn object_fields<'a>(text: &'a str, mut each: impl FnMut(&'a str, Range<usize>)) -> Option<()> {
    let mut scanner = Scanner::new(text.as_bytes());
    scanner.object(|scanner, name| {
        let place = scanner.value()?;
        each(&text[name], place);
        Some(())
    })?;
    scanner.is_at_end().then_some(())
}

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, seen: 0 }
    }

    /// Moves over an object. `value` is called with the place of every name, which has no escapes, and must move over the
    /// value.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut value: impl FnMut(&mut Self, Range<usize>) -> Option<()>,
    ) -> Option<()> {
        self.space();
        self.expect(b'{')?;
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.space();
            let start = self.at + 1;
            let is_plain = self.string()?;
            if !is_plain {
                return None;
            }
            let name = start..self.at - 1;
            self.space();
            self.expect(b':')?;
            self.space();
            value(self, name)?;
            self.space();
            if self.peek()? == b'}' {
                self.at += 1;
                return Some(());
            }
            self.expect(b',')?;
        }
    }

    /// Nothing follows.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.space();
        self.at == self.text.len()
    }

    /// Whatever was moved over is text: outside of strings there is nothing that could be anything else.
    pub(super) fn is_ascii(&self) -> bool {
        self.seen & HIGH == 0
    }

    /// Where it is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Moves over one value; with its place, if what is before it was moved over.
    pub(super) fn value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        self.skip_value()?;
        Some(start..self.at)
    }

    fn skip_value(&mut self) -> Option<()> {
        // One bit for each array or object around: set for objects.
        let (mut depth, mut objects) = (0, 0_u64);
        loop {
            self.space();
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                opening @ (b'{' | b'[') => {
                    self.at += 1;
                    self.space();
                    if self.peek()? == opening + 2 {
                        self.at += 1;
                    } else {
                        if depth == MAX_DEPTH {
                            return None;
                        }
                        depth += 1;
                        objects = objects << 1 | u64::from(opening == b'{');
                        if opening == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => self.number()?,
            }
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.space();
                let in_object = objects & 1 == 1;
                match (self.peek()?, in_object) {
                    (b',', _) => {
                        self.at += 1;
                        if in_object {
                            self.space();
                            self.name()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        depth -= 1;
                        objects >>= 1;
                    }
                    _ => return None,
                }
            }
        }
    }

    /// The name of a field, and the colon behind it.
    #[inline]
    fn name(&mut self) -> Option<()> {
        self.string()?;
        self.space();
        self.expect(b':')
    }

    /// Moves over a string; says whether it is without escapes.
    fn string(&mut self) -> Option<bool> {
        self.expect(b'"')?;
        let mut is_plain = true;
        loop {
            let (passed, seen) = ordinary(&self.text[self.at..]);
            self.at += passed;
            self.seen |= seen;
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(is_plain);
                }
                b'\\' => {
                    is_plain = false;
                    self.at += 1;
                    let escaped = self.peek()?;
                    self.at += 1;
                    match escaped {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            let digits = self.text.get(self.at..self.at + 4)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 4;
                        }
                        _ => return None,
                    }
                }
                // A control character.
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// At least one.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        let end = self.at + literal.len();
        (self.text.get(self.at..end)? == literal).then(|| self.at = end)
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// How many bytes there are before the first quote, backslash or control character, and these and perhaps a few more one
/// over the other.
#[inline]
fn ordinary(text: &[u8]) -> (usize, u64) {
    let (eights, rest) = text.as_chunks::<8>();
    let (mut passed, mut seen) = (0, 0);
    for eight in eights {
        let bytes = u64::from_le_bytes(*eight);
        seen |= bytes;
        let is_zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
        let quote = is_zero(bytes ^ (ONES * u64::from(b'"')));
        let backslash = is_zero(bytes ^ (ONES * u64::from(b'\\')));
        let control = bytes.wrapping_sub(ONES * u64::from(b' ')) & !bytes;
        // The lowest bit is that of the first such byte; those above it may be wrong.
        let special = (quote | backslash | control) & HIGH;
        if special != 0 {
            return (passed + special.trailing_zeros() as usize / 8, seen);
        }
        passed += 8;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    for byte in rest {
        if is_special(byte) {
            break;
        }
        seen |= u64::from(*byte);
        passed += 1;
    }
    (passed, seen)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn found(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut all = Vec::new();
        object_fields(text, |name, place| all.push((name, &text[place])))?;
        Some(all)
    }

    /// What is found must be what the general reader finds.
    fn agrees(text: &str) {
        if let Some(fields) = found(text) {
            let read: BTreeMap<String, &RawValue> = serde_json::from_str(text).expect(text);
            let last: BTreeMap<&str, &str> = fields.into_iter().collect();
            let read: BTreeMap<&str, &str> =
                read.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
            assert_eq!(last, read, "{text}");
        }
    }

    #[test]
    fn fields_are_found_whatever_is_in_them() {
        assert_eq!(
            found(" { \"a\" : [1, {\"b\":\"}\\\"]\"}] ,\"c\":-1.5e+3, \"d\" :{ }\n} "),
            Some(vec![("a", "[1, {\"b\":\"}\\\"]\"}]"), ("c", "-1.5e+3"), ("d", "{ }")])
        );
        assert_eq!(found("{}"), Some(vec![]));
        let deep = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n), "]".repeat(n));
        assert!(found(&deep(64)).is_some() && found(&deep(66)).is_none());
    }

    #[test]
    fn what_is_not_json_is_not_found() {
        for text in [
            "",
            "{",
            "[]",
            "1",
            "{}x",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 2}",
            "{\"a\":[1,]}",
            "{\"a\":[,]}",
            "{\"a\":[1}}",
            "{\"a\":{\"b\":1]}",
            "{\"a\":{1:1}}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":.1}",
            "{\"a\":+1}",
            "{\"a\":1e}",
            "{\"a\":-}",
            "{\"a\":tru}",
            "{\"a\":nulll}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u00g0\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"12345678\t\"}",
            "{\"a\":\"",
            "{\"a\":\"\\",
            "{a:1}",
            "{\"a\":[[}]]}",
            "{\"\\u0061\":1}",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_never_says_what_the_general_reader_does_not(
            text in proptest::collection::vec(
                prop_oneof![
                    Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just(" "), Just("\""),
                    Just("\"a\""), Just("\"b\\n\""), Just("\"key\":"), Just("\\"), Just("\\u12aF"), Just("1"),
                    Just("-0.5E7"), Just("0"), Just("null"), Just("true"), Just("ä"), Just("\u{1f}"),
                    Just("\"long enough for a step\""), Just("\"id\":7,"),
                ],
                0..24,
            ),
        ) {
            let text = text.concat();
            agrees(&text);
            agrees(&format!("{{{text}}}"));
            agrees(&format!("{{\"x\":{text}}}"));
        }

        #[test]
        fn whatever_the_general_reader_writes_is_found(values in proptest::collection::btree_map("[ -~ä]{0,12}", "\\PC{0,40}", 0..6)) {
            let text = serde_json::to_string(&values).unwrap();
            let plain = !values.keys().any(|key| key.contains(['"', '\\']));
            prop_assert_eq!(found(&text).is_some(), plain);
            agrees(&text);
        }
    }
}
