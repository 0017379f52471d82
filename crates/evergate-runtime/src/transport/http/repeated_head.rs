//! Heads that say the same again. Whoever sends one request after the other over a connection, or one response, repeats the
//! whole head but for the length of the body. Then what was found in the last one need not be looked for again: it is enough
//! to compare the two.

use std::ops::Range;

/// The head that came last, if the length of its body is the one thing in it that may change.
#[derive(Default)]
pub struct RepeatedHead {
    text: Vec<u8>,
    /// Where the length is. Nothing comes without one.
    digits: Range<usize>,
}

/// A head that says the same as the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// How long it is.
    pub end: usize,
    /// How long its body is.
    pub length: u64,
    /// How many digits that is written with.
    pub digits: usize,
}

/// Longer ones are read each time: there is one of these for every connection.
const LONGEST: usize = 2 * 1024;

// === impl RepeatedHead ===

impl RepeatedHead {
    /// Keeps a head that is complete, in which the only thing that says how long the body is are the digits there. Says whether
    /// it did.
    pub fn keep(&mut self, head: &[u8], digits: Range<usize>) -> bool {
        self.text.clear();
        let is_short = head.len() <= LONGEST;
        if is_short {
            self.text.extend_from_slice(head);
        }
        self.digits = if is_short { digits } else { 0..0 };
        is_short
    }

    /// Where the length is in the head that is kept.
    pub fn digits(&self) -> Range<usize> {
        self.digits.clone()
    }

    /// Whether a text begins with the same head again. `None` means only that it must be read.
    pub fn again(&self, text: &[u8]) -> Option<Repetition> {
        let (before, after) = (&self.text[..self.digits.start], &self.text[self.digits.end..]);
        if before.is_empty() {
            return None;
        }
        let rest = text.strip_prefix(before)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = decimal(&rest[..digits])?;
        rest[digits..].starts_with(after).then_some(Repetition {
            end: before.len() + digits + after.len(),
            length,
            digits,
        })
    }
}

impl std::fmt::Debug for RepeatedHead {
    /// There are keys and session ids in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RepeatedHead({} bytes)", self.text.len())
    }
}

/// Digits and nothing else: signs, blanks and lists mean different things to different programs.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |number: u64, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_length_may_differ() {
        let mut last = RepeatedHead::default();
        assert_eq!(last.again(b""), None);
        assert_eq!(last.again(b"5"), None);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12 \r\nA: 1\r\n\r\n";
        assert!(last.keep(head, 33..35));
        assert_eq!(format!("{last:?}"), format!("RepeatedHead({} bytes)", head.len()));
        let again = |text: &str| last.again(text.as_bytes());
        for (length, digits) in [(7, 1), (12, 2), (345, 3)] {
            let text =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length} \r\nA: 1\r\n\r\nbody 1");
            let end = text.len() - "body 1".len();
            assert_eq!(again(&text), Some(Repetition { end, length, digits }));
            assert_eq!(again(&text[..end]).map(|again| again.end), Some(end));
            assert_eq!(again(&text[..end - 1]), None, "it is not complete");
        }
        for other in [
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nA: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 12 \r\nA: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1x \r\nA: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1 \r\nA: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:  \r\nA: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1234567890123456789 \r\nA: 1\r\n\r\n",
            "HTTP/1.1 201 OK\r\nContent-Length: 12 \r\nA: 1\r\n\r\n",
        ] {
            assert_eq!(again(other), None, "{other:?}");
        }
        assert!(!last.keep(&vec![b'1'; LONGEST + 1], 1..2));
        assert_eq!(last.again(&[b'1'; LONGEST + 1]), None);
    }
}
