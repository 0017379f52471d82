//! Newline-delimited messages out of a byte stream, with a bound on memory.

use bytes::{Bytes, BytesMut};

/// What a stretch of input turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A complete line, without its end. Never empty.
    Message(Bytes),
    /// A line beyond the limit. It was thrown away as it arrived, but for its two ends, which may tell whose it was.
    Oversized(Ends),
}

/// The first and the last [`Ends::LENGTH`] bytes of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// How it began.
    pub start: Vec<u8>,
    /// How it ended.
    pub end: Vec<u8>,
}

/// Takes chunks, gives lines.
#[derive(Debug)]
pub struct LineSplitter {
    limit: usize,
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no newline.
    scanned: usize,
    /// Inside an oversized line, of which this is left.
    skipping: Option<Ends>,
}

// === impl LineSplitter ===

impl LineSplitter {
    /// A splitter that takes lines of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: BytesMut::new(), scanned: 0, skipping: None }
    }

    /// Where to read into. Grows by at most `step` beyond what is buffered.
    pub fn space(&mut self, step: usize) -> &mut BytesMut {
        self.buffer.reserve(step);
        &mut self.buffer
    }

    /// What came after the last line end, for readers to whom an unfinished line at the end means something.
    pub fn rest(self) -> Option<Line> {
        if let Some(mut ends) = self.skipping {
            ends.absorb(&self.buffer);
            return Some(Line::Oversized(ends));
        }
        let rest = self.buffer.freeze();
        let text = rest.trim_ascii();
        (!text.is_empty()).then(|| Line::Message(rest.slice_ref(text)))
    }

    /// The next complete line, if there is one. Blank lines are skipped.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                if self.scanned > self.limit || self.skipping.is_some() {
                    self.skipping.get_or_insert_default().absorb(&self.buffer);
                    self.buffer.clear();
                    self.scanned = 0;
                }
                return None;
            };
            let line = self.buffer.split_to(self.scanned + found + 1).freeze();
            self.scanned = 0;
            if self.skipping.is_some() || line.len() > self.limit + 1 {
                let mut ends = self.skipping.take().unwrap_or_default();
                ends.absorb(&line[..line.len() - 1]);
                return Some(Line::Oversized(ends));
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                return Some(Line::Message(line.slice_ref(text)));
            }
        }
    }
}

// === impl Ends ===

impl Ends {
    /// Room for an envelope without its payload.
    pub const LENGTH: usize = 128;

    fn absorb(&mut self, text: &[u8]) {
        let room = Self::LENGTH - self.start.len();
        self.start.extend_from_slice(&text[..text.len().min(room)]);
        self.end.extend_from_slice(&text[text.len().saturating_sub(Self::LENGTH)..]);
        let surplus = self.end.len().saturating_sub(Self::LENGTH);
        self.end.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8], chunk: usize, limit: usize) -> Vec<Line> {
        let mut splitter = LineSplitter::new(limit);
        let mut lines = Vec::new();
        for part in text.chunks(chunk) {
            splitter.space(part.len()).extend_from_slice(part);
            while let Some(line) = splitter.next_line() {
                lines.push(line);
            }
            assert!(splitter.buffer.len() <= limit, "memory is bounded by the limit");
        }
        lines
    }

    #[test]
    fn lines_come_out_whole_whatever_the_chunks() {
        for chunk in 1..12 {
            let lines = split(b"one\r\n\n  \ntwo two\nrest", chunk, 100);
            assert_eq!(lines, [Line::Message("one".into()), Line::Message("two two".into())]);
        }
    }

    #[test]
    fn the_rest_is_what_no_line_end_followed() {
        let rest = |text: &[u8], limit| {
            let mut splitter = LineSplitter::new(limit);
            splitter.space(text.len()).extend_from_slice(text);
            while splitter.next_line().is_some() {}
            splitter.rest()
        };
        assert_eq!(rest(b"one\n two ", 100), Some(Line::Message("two".into())));
        assert_eq!(rest(b"one\n", 100), None);
        assert!(matches!(rest(b"one\n0123456789", 8), Some(Line::Oversized(_))));
    }

    #[test]
    fn an_oversized_line_is_dropped_and_the_next_one_survives() {
        for chunk in 1..40 {
            let lines = split(b"0123456789abcdef0123456789\nok\n", chunk, 8);
            let whole = b"0123456789abcdef0123456789".to_vec();
            let ends = Ends { start: whole.clone(), end: whole };
            assert_eq!(lines, [Line::Oversized(ends), Line::Message("ok".into())], "chunk {chunk}");
        }
    }

    #[test]
    fn the_two_ends_of_an_oversized_line_are_kept_whatever_the_chunks() {
        let line: Vec<u8> = (0..1000).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        let text = [&line[..], b"\n"].concat();
        let ends = Ends {
            start: line[..Ends::LENGTH].to_vec(),
            end: line[line.len() - Ends::LENGTH..].to_vec(),
        };
        for chunk in [1, 7, 127, 128, 129, 500, 2000] {
            assert_eq!(split(&text, chunk, 300), [Line::Oversized(ends.clone())], "chunk {chunk}");
        }
    }
}
