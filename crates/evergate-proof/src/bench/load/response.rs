//! An HTTP/1.1 response as it comes in, piece by piece.

use anyhow::{Context as _, Result, bail, ensure};
use memchr::memmem;

/// What its head says.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    /// The connection ends with this response.
    pub(super) last: bool,
}

/// Where in a body we are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// So many bytes are missing.
    Length(usize),
    /// Within a chunk, of which so many bytes are missing.
    Chunk(usize),
    /// At the line that says how long the next chunk is, or at the empty one before it.
    ChunkLine,
    /// Behind the last chunk, at the empty line.
    Trailer,
    /// Until the connection ends.
    Rest,
}

/// The head, how its body goes on, and how long the head is; nothing if it is not complete.
pub(super) fn head(bytes: &[u8]) -> Result<Option<(Head, Body, usize)>> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).context("a head that is not a text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status: u16 = status.context("no status line")?;
    let mut head = Head { status, session: None, last: false };
    let mut body = if matches!(status, 204 | 304) { Body::Length(0) } else { Body::Rest };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            body = Body::Length(value.parse().context("a length that is no number")?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            ensure!(value.eq_ignore_ascii_case("chunked"), "transfer encoding {value}");
            body = Body::ChunkLine;
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            head.session = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case("connection") {
            head.last = value.eq_ignore_ascii_case("close");
        }
    }
    Ok(Some((head, body, end + 4)))
}

// === impl Body ===

impl Body {
    /// Passes the body's bytes on. Says how many of `bytes` were used and whether the body is complete.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut pass: impl FnMut(&[u8]),
    ) -> Result<(usize, bool)> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self {
                Self::Length(0) => return Ok((used, true)),
                Self::Length(left) | Self::Chunk(left) => {
                    let now = rest.len().min(*left);
                    pass(&rest[..now]);
                    used += now;
                    *left -= now;
                    match self {
                        Self::Chunk(0) => *self = Self::ChunkLine,
                        Self::Length(0) => {}
                        _ => return Ok((used, false)),
                    }
                }
                Self::Rest => {
                    pass(rest);
                    return Ok((bytes.len(), false));
                }
                Self::ChunkLine | Self::Trailer => {
                    let Some(end) = memmem::find(rest, b"\r\n") else {
                        return Ok((used, false));
                    };
                    let line = &rest[..end];
                    used += end + 2;
                    match self {
                        Self::Trailer if line.is_empty() => {
                            *self = Self::Length(0);
                        }
                        Self::Trailer => {}
                        // Behind each chunk there is a line break.
                        _ if line.is_empty() => {}
                        _ => match chunk_length(line)? {
                            0 => *self = Self::Trailer,
                            length => *self = Self::Chunk(length),
                        },
                    }
                }
            }
        }
    }
}

fn chunk_length(line: &[u8]) -> Result<usize> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(digits).unwrap_or_default().trim();
    let Ok(length) = usize::from_str_radix(text, 16) else { bail!("chunk length {text:?}") };
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::{Body, head};

    /// Feeds it in steps, keeping what was not used, as a connection does.
    fn body(mut body: Body, bytes: &[u8], step: usize) -> (Vec<u8>, bool, usize) {
        let (mut kept, mut out, mut used) = (Vec::new(), Vec::new(), 0);
        for piece in bytes.chunks(step) {
            kept.extend_from_slice(piece);
            let (now, complete) = body.take(&kept, |b| out.extend_from_slice(b)).unwrap();
            kept.drain(..now);
            used += now;
            if complete {
                return (out, true, used);
            }
        }
        (out, false, used)
    }

    #[test]
    fn chunks_come_out_the_same_however_they_come_in() {
        let bytes = b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\nHTTP";
        for step in 1..bytes.len() {
            let (out, complete, used) = body(Body::ChunkLine, bytes, step);
            assert_eq!((&out[..], complete, used), (&b"hello, world"[..], true, bytes.len() - 4));
        }
    }

    #[test]
    fn a_length_ends_a_body_and_a_missing_one_does_not() {
        assert_eq!(body(Body::Length(3), b"abcHTTP", 2), (b"abc".to_vec(), true, 3));
        assert_eq!(body(Body::Length(9), b"abc", 2), (b"abc".to_vec(), false, 3));
        assert_eq!(body(Body::Rest, b"abc", 2), (b"abc".to_vec(), false, 3));
    }

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 12\r\nMcp-Session-Id: a b\r\nConnection: close\r\n\r\n";
        assert!(head(&text[..text.len() - 1]).unwrap().is_none());
        let (head, body, length) = head(text).unwrap().unwrap();
        assert_eq!((head.status, head.session.as_deref(), head.last), (200, Some("a b"), true));
        assert!(matches!(body, Body::Length(12)));
        assert_eq!(length, text.len());
    }
}
