//! Where the body of an HTTP/1 message ends: after a length, after the last chunk, or with the connection.

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderName;
use memchr::memchr;

/// What is left of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked(Chunk),
    /// Whatever comes until the connection ends.
    UntilClose,
    /// Nothing.
    Done,
    /// Nobody knows: something was not as it should be.
    Broken,
}

/// Where in a chunked body the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// The line that says how long the next chunk is.
    Size,
    /// The chunk, of which so much is left.
    Data(u64),
    /// The line break after the data.
    Break,
    /// Headers after the last chunk, which nobody reads; how many bytes of them there were.
    Trailer(usize),
}

/// What a buffer held.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Some of the body.
    Data(Bytes),
    /// Nothing that could be used yet.
    More,
    /// All of the body has been taken.
    End,
}

/// The body is not what it was announced to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body is malformed")]
pub struct BadFraming;

/// Longest line that announces a chunk. Nobody uses the extensions it may hold.
const MAX_SIZE_LINE: usize = 256;
const MAX_TRAILER: usize = 16 * 1024;

// === impl Framing ===

impl Framing {
    /// Takes from the buffer what belongs to the body.
    ///
    /// # Errors
    ///
    /// If the buffer holds what no chunk begins or ends with.
    pub fn step(&mut self, buffer: &mut BytesMut) -> Result<Step, BadFraming> {
        // Once and for all: what follows might look right again.
        self.try_step(buffer).inspect_err(|_| *self = Self::Broken)
    }

    fn try_step(&mut self, buffer: &mut BytesMut) -> Result<Step, BadFraming> {
        loop {
            match self {
                Self::Done | Self::Length(0) => {
                    *self = Self::Done;
                    return Ok(Step::End);
                }
                Self::Broken => return Err(BadFraming),
                Self::UntilClose if buffer.is_empty() => return Ok(Step::More),
                Self::UntilClose => return Ok(Step::Data(buffer.split().freeze())),
                Self::Length(left) | Self::Chunked(Chunk::Data(left @ 1..)) => {
                    if buffer.is_empty() {
                        return Ok(Step::More);
                    }
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                    *left -= taken as u64;
                    return Ok(Step::Data(buffer.split_to(taken).freeze()));
                }
                Self::Chunked(chunk) => {
                    let Some(next) = chunk.next(buffer)? else { return Ok(Step::More) };
                    *self = next.map_or(Self::Done, Self::Chunked);
                }
            }
        }
    }

    /// How many bytes are still to come, as far as they were announced.
    pub fn announced(self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(left),
            Self::Done => Some(0),
            Self::Chunked(_) | Self::UntilClose | Self::Broken => None,
        }
    }
}

// === impl Chunk ===

impl Chunk {
    /// The next place; `Some(None)` at the end of the body, `None` if the buffer does not hold enough.
    #[expect(clippy::option_option, reason = "the end, and not there yet, are different things")]
    fn next(self, buffer: &mut BytesMut) -> Result<Option<Option<Self>>, BadFraming> {
        match self {
            Self::Size => {
                let Some(line) = take_line(buffer, MAX_SIZE_LINE)? else { return Ok(None) };
                Ok(Some(Some(match chunk_size(&line)? {
                    0 => Self::Trailer(0),
                    size => Self::Data(size),
                })))
            }
            Self::Data(_) => Ok(Some(Some(Self::Break))),
            Self::Break => {
                let Some(line) = take_line(buffer, 2)? else { return Ok(None) };
                if line.is_empty() { Ok(Some(Some(Self::Size))) } else { Err(BadFraming) }
            }
            Self::Trailer(so_far) => {
                let Some(line) = take_line(buffer, MAX_TRAILER - so_far)? else { return Ok(None) };
                // Whoever sees no trailer here sees the next request.
                if !line.is_empty() && !is_header(&line) {
                    return Err(BadFraming);
                }
                Ok(Some((!line.is_empty()).then_some(Self::Trailer(so_far + line.len() + 1))))
            }
        }
    }
}

fn is_header(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().filter(|name| name.len() < line.len());
    name.is_some_and(|name| HeaderName::from_bytes(name).is_ok())
}

/// A line without its end, which must be a proper one: whatever else passes for one differs between programs.
fn take_line(buffer: &mut BytesMut, longest: usize) -> Result<Option<Bytes>, BadFraming> {
    let Some(end) = memchr(b'\n', buffer) else {
        return if buffer.len() > longest { Err(BadFraming) } else { Ok(None) };
    };
    if end > longest || end == 0 || buffer[end - 1] != b'\r' {
        return Err(BadFraming);
    }
    if buffer[..end - 1].iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(BadFraming);
    }
    let line = buffer.split_to(end - 1).freeze();
    buffer.advance(2);
    Ok(Some(line))
}

/// `1a2b; anything`
fn chunk_size(line: &[u8]) -> Result<u64, BadFraming> {
    // No line has another control character.
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 {
        return Err(BadFraming);
    }
    digits.iter().try_fold(0, |size, digit| {
        let digit = char::from(*digit).to_digit(16).ok_or(BadFraming)?;
        Ok(size << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds the text in pieces and returns the body and what is left after it.
    fn read(
        mut framing: Framing,
        text: &[u8],
        piece: usize,
    ) -> Result<(Vec<u8>, bool, Vec<u8>), BadFraming> {
        let (mut buffer, mut body) = (BytesMut::new(), Vec::new());
        let mut pieces = text.chunks(piece.max(1));
        loop {
            match framing.step(&mut buffer)? {
                Step::Data(data) => body.extend_from_slice(&data),
                Step::End => {
                    let rest = buffer.iter().copied().chain(pieces.flatten().copied()).collect();
                    return Ok((body, true, rest));
                }
                Step::More => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return Ok((body, false, Vec::new())),
                },
            }
        }
    }

    const CHUNKED: Framing = Framing::Chunked(Chunk::Size);

    #[test]
    fn chunks_are_put_together_however_they_arrive() {
        let text =
            b"4\r\nWiki\r\n6;x=y\r\npedia \r\nB \r\nin \r\nchunks\r\n0\r\nX-T: 1\r\n\r\nHTTP";
        for piece in 1..text.len() {
            let (body, ended, rest) = read(CHUNKED, text, piece).unwrap();
            assert_eq!(String::from_utf8_lossy(&body), "Wikipedia in \r\nchunks", "{piece}");
            assert!(ended && rest == b"HTTP", "{piece}");
        }
    }

    #[test]
    fn a_length_is_kept_to() {
        assert_eq!(
            read(Framing::Length(3), b"abcdef", 2).unwrap(),
            (b"abc".to_vec(), true, b"def".to_vec())
        );
        assert_eq!(
            read(Framing::Length(3), b"ab", 1).unwrap(),
            (b"ab".to_vec(), false, Vec::new())
        );
        assert_eq!(
            read(Framing::UntilClose, b"ab", 1).unwrap(),
            (b"ab".to_vec(), false, Vec::new())
        );
    }

    #[test]
    fn what_is_not_framed_properly_is_refused() {
        for bad in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "1\nA\n",
            "1\r\nAB\r\n",
            "ffffffffffffffffff\r\n",
            "0\r\nX: 1\n\r\n",
            " 1\r\nA\r\n",
            "1\r\r\nA\r\n",
            "1\x0c\r\nA\r\n",
            "1;a\rb\r\nA\r\n",
            "1;\0\r\nA\r\n",
            "0\r\nGET /x HTTP/1.1\r\n\r\n",
            "0\r\nX: a\rb\r\n\r\n",
            "0\r\n: a\r\n\r\n",
            "0\r\n\r\r\n\r\n",
        ] {
            assert_eq!(read(CHUNKED, bad.as_bytes(), 1), Err(BadFraming), "{bad:?}");
        }
        let endless = "1".repeat(MAX_SIZE_LINE + 2);
        assert_eq!(read(CHUNKED, endless.as_bytes(), 7), Err(BadFraming));
        let trailer = format!("0\r\n{}", "X: 1\r\n".repeat(MAX_TRAILER));
        assert_eq!(read(CHUNKED, trailer.as_bytes(), 4096), Err(BadFraming));
    }

    proptest! {
        #[test]
        fn any_chunks_make_the_same_body(chunks: Vec<Vec<u8>>, piece in 1_usize..40) {
            let mut text = Vec::new();
            for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(read(CHUNKED, &text, piece).unwrap(), (chunks.concat(), true, Vec::new()));
        }

        #[test]
        fn nothing_makes_it_panic_or_read_on_for_ever(text: Vec<u8>, piece in 1_usize..40) {
            let _ = read(CHUNKED, &text, piece);
        }
    }
}
