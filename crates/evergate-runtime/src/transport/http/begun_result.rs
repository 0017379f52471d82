//! A result that is passed on while it arrives.
//!
//! The envelope is taken off: what comes out are the bytes of the result alone. Whether the envelope was one is known
//! for certain only at its end, where the id may stand too; until then nobody has been told that the answer is complete.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::client::ResponseBody;
use crate::connection::CallWatch;
use crate::protocol::{Message, ValueScanner, parse};
use crate::transport::TransportError;

/// An answer of which enough has come to know that it is a result.
#[derive(Debug)]
pub(crate) struct BegunResult {
    /// What came of the result with the envelope's beginning.
    first: Option<Bytes>,
    rest: ResponseBody,
    scanner: ValueScanner,
    /// The envelope: what stands before the result, and so far behind it.
    before: Bytes,
    behind: Vec<u8>,
    ended: bool,
    left: usize,
    limit: usize,
    watch: Arc<CallWatch>,
}

/// The least that is worth it. What is smaller is passed on whole, so that should it break off nobody has seen any of it.
const STREAM_FROM: usize = 64 * 1024;
/// What may follow a result: an id, a version, and a field or two nobody knows.
const MAX_BEHIND: usize = 64 * 1024;
/// What may stand before it. Whatever begins otherwise is read whole.
const MAX_BEFORE: usize = 1024;

/// Where the result begins in an answer that is large enough, if all before it is what stands before a result.
pub(super) fn result_start(so_far: &[u8], size: usize, watch: &CallWatch) -> Option<usize> {
    if size < STREAM_FROM {
        return None;
    }
    let so_far = &so_far[..so_far.len().min(MAX_BEFORE)];
    let mut at = skip_space(so_far, 0);
    at = skip(so_far, at, b'{')?;
    loop {
        let (name, after) = plain_text(so_far, skip_space(so_far, at))?;
        at = skip_space(so_far, skip(so_far, skip_space(so_far, after), b':')?);
        match name {
            b"result" => break,
            b"jsonrpc" | b"id" => {}
            _ => return None,
        }
        at = skip(so_far, skip_space(so_far, plain_value(so_far, at)?), b',')?;
    }
    let envelope = [&so_far[..at], b"null}"].concat();
    (so_far.get(at) == Some(&b'{') && is_answer_to(&envelope.into(), watch)).then_some(at)
}

fn is_answer_to(envelope: &Bytes, watch: &CallWatch) -> bool {
    match parse(envelope).as_deref() {
        Ok([Message::Response { id, answer: Ok(_) }]) => {
            id.as_ref().is_none_or(|id| watch.has_id(id))
        }
        _ => false,
    }
}

// === impl BegunResult ===

impl BegunResult {
    pub(super) fn new(
        so_far: &Bytes,
        result_at: usize,
        rest: ResponseBody,
        limit: usize,
        watch: Arc<CallWatch>,
    ) -> Self {
        Self {
            first: Some(so_far.slice(result_at..)),
            rest,
            scanner: ValueScanner::default(),
            before: so_far.slice(..result_at),
            behind: Vec::new(),
            ended: false,
            left: limit - result_at,
            limit,
            watch,
        }
    }

    /// The next bytes of the result; `None` when it is complete and was an answer to this call.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TransportError>>> {
        loop {
            let piece = match self.first.take() {
                Some(first) => first,
                None => match ready!(self.rest.poll_next(context)) {
                    Some(Ok(piece)) => piece,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    None => return Poll::Ready(self.complete().err().map(Err)),
                },
            };
            let taken = self.take(&piece);
            match taken {
                Ok(result) if result.is_empty() => {}
                taken => return Poll::Ready(Some(taken)),
            }
        }
    }

    /// See [`ValueScanner::cut_short`].
    pub(crate) fn cut_short(&self, note: &str) -> Option<Vec<u8>> {
        self.scanner.cut_short(note)
    }

    /// What of a piece belongs to the result.
    fn take(&mut self, piece: &Bytes) -> Result<Bytes, TransportError> {
        self.left = self
            .left
            .checked_sub(piece.len())
            .ok_or(TransportError::TooLarge { limit: self.limit })?;
        // Whoever has seen everything before this piece sees nothing of one that is no JSON.
        let before = self.scanner.clone();
        let end = if self.ended { Ok(Some(0)) } else { self.scanner.feed(piece) };
        let Ok(end) = end else {
            self.scanner = before;
            return Err(TransportError::NotJson);
        };
        let Some(end) = end else { return Ok(piece.clone()) };
        self.ended = true;
        self.behind.extend_from_slice(&piece[end..]);
        if self.behind.len() > MAX_BEHIND {
            return Err(TransportError::NotJson);
        }
        Ok(piece.slice(..end))
    }

    fn complete(&self) -> Result<(), TransportError> {
        if !self.ended {
            return Err(TransportError::StreamEnded);
        }
        let envelope = [&self.before[..], b"null", &self.behind].concat();
        if is_answer_to(&envelope.into(), &self.watch) {
            Ok(())
        } else {
            Err(TransportError::WrongId)
        }
    }
}

fn skip_space(text: &[u8], from: usize) -> usize {
    let space = text.get(from..).unwrap_or_default().iter();
    from + space.take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn skip(text: &[u8], at: usize, expected: u8) -> Option<usize> {
    (text.get(at) == Some(&expected)).then_some(at + 1)
}

/// A text without escapes, and where it ends.
fn plain_text(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = skip(text, at, b'"')?;
    let length = text[start..].iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    let end = skip(text, start + length, b'"')?;
    Some((&text[start..start + length], end))
}

/// Where a text without escapes, a number or a literal ends.
fn plain_value(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'"') {
        return plain_text(text, at).map(|(_, end)| end);
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let length = text.get(at..)?.iter().take_while(|byte| is_part(byte)).count();
    (length > 0).then_some(at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_large_result_is_known_when_it_comes() {
        let watch = CallWatch::new(7, None);
        let start = |text: &str| result_start(text.as_bytes(), STREAM_FROM, &watch);
        assert_eq!(start(r#"{"jsonrpc":"2.0","id":7,"result":{"con"#), Some(33));
        assert_eq!(start(r#" { "id" : "7" , "result" : {"#), Some(27));
        assert_eq!(start(r#"{"result":{"#), Some(10));
        assert_eq!(result_start(br#"{"result":{"#, STREAM_FROM - 1, &watch), None);
        for other in [
            r#"{"jsonrpc":"2.0","id":8,"result":{"#,
            r#"{"jsonrpc":"2.0","error":{"#,
            r#"{"method":"x","params":{"#,
            r#"{"id":7,"id":7,"result":{"#,
            r#"{"x":1,"result":{"#,
            r#"{"result":["#,
            r#"{"result":"#,
            r#"{"jsonrpc":"2.0","id":7,"resu"#,
            r#"[{"result":{"#,
            "",
        ] {
            assert_eq!(start(other), None, "{other}");
        }
    }
}
