//! Server-sent events, decoded from whatever chunks the network delivers.
//!
//! Written by hand because the decoders on offer either reconnect by themselves, which only `retry/` may decide, or
//! put no limit on the size of an event. Follows the WHATWG rules: CR, LF or CRLF ends a line, an empty line ends an
//! event, a leading byte order mark and comments are skipped.

use bytes::Bytes;

/// One event. Fields that were not sent are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// The `event` field; empty means `message`.
    pub kind: String,
    /// The `data` lines, joined by newlines.
    pub data: Bytes,
    /// The last event id as of this event: `None` if the server never set one or reset it.
    pub id: Option<String>,
}

/// An event grew past the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event larger than {limit} bytes")]
pub struct EventTooLarge {
    limit: usize,
}

/// Takes chunks, gives events.
#[derive(Debug)]
pub struct EventDecoder {
    limit: usize,
    /// Received and not yet split into lines.
    buffer: Vec<u8>,
    /// How much of `buffer` is consumed, and how much is known to hold no line end.
    start: usize,
    scanned: usize,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    first_line: bool,
    kind: String,
    data: Vec<u8>,
    has_data: bool,
    /// The id of the last complete event: what a resumed stream goes on after.
    id: Option<String>,
    /// The id of the event under way. It counts only once the event is complete.
    next_id: Option<String>,
    retry: Option<u64>,
}

// === impl EventDecoder ===

impl EventDecoder {
    /// A decoder that takes events of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            after_cr: false,
            first_line: true,
            kind: String::new(),
            data: Vec::new(),
            has_data: false,
            id: None,
            next_id: None,
            retry: None,
        }
    }

    /// A decoder for a stream that goes on after the event `id`.
    pub fn resuming(limit: usize, id: Option<String>) -> Self {
        Self { next_id: id.clone(), id, ..Self::new(limit) }
    }

    /// Adds what arrived.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete event, if there is one.
    pub fn next_event(&mut self) -> Result<Option<ServerEvent>, EventTooLarge> {
        while let Some(line) = self.next_line()? {
            if let Some(event) = self.take_line(line) {
                return Ok(Some(event));
            }
            if self.data.len() > self.limit {
                return Err(EventTooLarge { limit: self.limit });
            }
        }
        Ok(None)
    }

    /// What is left when the stream ends. The standard discards an event that no empty line ended; servers that
    /// forget it exist, and their answer is complete JSON or is refused later. Its id does not count: the event may
    /// have been cut short, and must be asked for again then.
    pub fn finish(&mut self) -> Option<ServerEvent> {
        let rest = self.start..self.buffer.len();
        if !rest.is_empty() {
            self.take_line(rest);
        }
        self.next_id.clone_from(&self.id);
        self.end_event()
    }

    /// The last event id the server set.
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The reconnection delay in milliseconds the server last asked for.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn next_line(&mut self) -> Result<Option<std::ops::Range<usize>>, EventTooLarge> {
        if self.after_cr && self.buffer.get(self.start) == Some(&b'\n') {
            self.start += 1;
            self.after_cr = false;
        }
        self.scanned = self.scanned.max(self.start);
        let found = memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned..]);
        let end = found.map_or(self.buffer.len(), |found| self.scanned + found);
        // Also for lines that have ended: whether one is too long must not depend on how it was cut up.
        if end - self.start > self.limit {
            return Err(EventTooLarge { limit: self.limit });
        }
        if found.is_none() {
            self.scanned = end;
            return Ok(None);
        }
        let line = self.start..end;
        self.after_cr = self.buffer[end] == b'\r';
        self.start = end + 1;
        self.scanned = self.start;
        Ok(Some(line))
    }

    fn take_line(&mut self, line: std::ops::Range<usize>) -> Option<ServerEvent> {
        let mut line = &self.buffer[line];
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                let id = String::from_utf8_lossy(value).into_owned();
                self.next_id = Some(id).filter(|id| !id.is_empty());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
            // A comment, a field nobody knows, or an invalid value: the standard says to skip it.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<ServerEvent> {
        let kind = std::mem::take(&mut self.kind);
        self.id.clone_from(&self.next_id);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        let data = std::mem::take(&mut self.data).into();
        Some(ServerEvent { kind, data, id: self.id.clone() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(text: &[u8], chunk: usize) -> Vec<ServerEvent> {
        let mut decoder = EventDecoder::new(1024);
        let mut events = Vec::new();
        for part in text.chunks(chunk.max(1)) {
            decoder.push(part);
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event);
            }
        }
        events.extend(decoder.finish());
        events
    }

    #[test]
    fn fields_comments_and_joined_data() {
        let text = b"\xEF\xBB\xBF: hi\nevent: endpoint\ndata: a\ndata:b\nid: 7\nretry: 20\n\nid\ndata:  c\n\n";
        let events = decode(text, 3);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].kind, "endpoint");
        assert_eq!(events[0].data, "a\nb");
        assert_eq!(events[0].id.as_deref(), Some("7"));
        assert_eq!(events[1].data, " c");
        assert_eq!(events[1].id, None, "an empty id resets the cursor");
    }

    #[test]
    fn a_final_event_without_its_empty_line_counts() {
        assert_eq!(decode(b"data: x", 100)[0].data, "x");
        assert_eq!(decode(b"data: x\n", 100)[0].data, "x");
        assert!(decode(b"id: 4\n", 100).is_empty());
    }

    #[test]
    fn an_event_that_was_cut_short_does_not_move_the_cursor() {
        let mut decoder = EventDecoder::new(1024);
        decoder.push(b"id: 1\ndata: whole\n\nid: 2\ndata: {\"half");
        assert_eq!(decoder.next_event().unwrap().unwrap().id.as_deref(), Some("1"));
        assert_eq!(decoder.next_event().unwrap(), None);
        assert_eq!(decoder.last_id(), Some("1"));
        assert_eq!(decoder.finish().unwrap().data, "{\"half");
        assert_eq!(decoder.last_id(), Some("1"), "it is asked for again");
    }

    #[test]
    fn a_priming_event_sets_the_id_and_is_empty() {
        let events = decode(b"id: p\ndata:\n\n", 100);
        assert_eq!((events[0].data.len(), events[0].id.as_deref()), (0, Some("p")));
    }

    #[test]
    fn size_is_bounded_however_it_arrives() {
        let mut one_line = EventDecoder::new(8);
        one_line.push(b"data: 0123456789");
        assert!(one_line.next_event().is_err());
        let mut many_lines = EventDecoder::new(8);
        for _ in 0..4 {
            many_lines.push(b"data: abc\n");
        }
        assert!(many_lines.next_event().is_err());
        for long in [&b"data: 0123456789\n\n"[..], b": 0123456789\n", b"id: 0123456789\n"] {
            let mut at_once = EventDecoder::new(8);
            at_once.push(long);
            assert!(at_once.next_event().is_err(), "a long line that arrives whole is no shorter");
        }
    }

    proptest! {
        /// Chunk borders carry no meaning.
        #[test]
        fn chunking_changes_nothing(text in "(data|id|event|retry|:|x)?[:]? ?[a-z0-9]{0,6}(\r\n|\n|\r|\n\n){1,3}", n in 1usize..8, repeat in 1usize..5) {
            let text = text.repeat(repeat);
            prop_assert_eq!(decode(text.as_bytes(), n), decode(text.as_bytes(), usize::MAX));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..512), n in 1usize..16) {
            decode(&bytes, n);
        }
    }
}
