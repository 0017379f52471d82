//! Newline-delimited messages out of a byte stream, with a bound on memory.

use bytes::{Bytes, BytesMut};

/// What a stretch of input turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A complete line, without its end. Never empty.
    Message(Bytes),
    /// A line beyond the limit; its text was thrown away as it arrived.
    Oversized,
}

/// Takes chunks, gives lines.
#[derive(Debug)]
pub struct LineSplitter {
    limit: usize,
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no newline.
    scanned: usize,
    /// Inside an oversized line: throw away up to its end.
    skipping: bool,
}

// === impl LineSplitter ===

impl LineSplitter {
    /// A splitter that takes lines of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: BytesMut::new(), scanned: 0, skipping: false }
    }

    /// Where to read into. Grows by at most `step` beyond what is buffered.
    pub fn space(&mut self, step: usize) -> &mut BytesMut {
        self.buffer.reserve(step);
        &mut self.buffer
    }

    /// What came after the last line end, for readers to whom an unfinished line at the end means something.
    pub fn rest(self) -> Option<Line> {
        if self.skipping {
            return Some(Line::Oversized);
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
                if self.scanned > self.limit || self.skipping {
                    self.skipping = true;
                    self.buffer.clear();
                    self.scanned = 0;
                }
                return None;
            };
            let line = self.buffer.split_to(self.scanned + found + 1).freeze();
            self.scanned = 0;
            if std::mem::take(&mut self.skipping) || line.len() > self.limit + 1 {
                return Some(Line::Oversized);
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                return Some(Line::Message(line.slice_ref(text)));
            }
        }
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
        assert_eq!(rest(b"one\n0123456789", 8), Some(Line::Oversized));
    }

    #[test]
    fn an_oversized_line_is_dropped_and_the_next_one_survives() {
        for chunk in 1..40 {
            let lines = split(b"0123456789abcdef0123456789\nok\n", chunk, 8);
            assert_eq!(lines, [Line::Oversized, Line::Message("ok".into())], "chunk {chunk}");
        }
    }
}
