//! The head of a request, and what it says about its body and its connection.
//!
//! Where programs disagree on where a request ends, one can be hidden in another. So whatever can be read in two ways is
//! refused: two lengths, a length beside chunks, another coding than chunks, chunks in HTTP/1.0.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use evergate_runtime::wire::{Chunk, Framing, RepeatedHead, decimal};
use http::{Method, StatusCode, Uri};

use super::super::request::{Headers, Request, Span};

/// A request whose body is still to be read.
#[derive(Debug)]
pub(super) struct RequestHead<B> {
    /// In a box: it passes many hands, and is large.
    pub(super) request: Box<Request<B>>,
    pub(super) framing: Framing,
    /// The client sends its body once it is told to.
    pub(super) expects_continue: bool,
    pub(super) terms: Terms,
}

/// What matters for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// The client may send another request on the same connection.
    pub(super) keep_alive: bool,
    /// HTTP/1.0: knows no chunks.
    pub(super) is_old: bool,
    /// Wants no body.
    pub(super) is_head: bool,
}

/// It is not the head of a request, or not of one that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHead {
    Malformed,
    TooLong,
    TooManyHeaders,
    /// Two readers might not agree on where it ends.
    Ambiguous,
    UnknownCoding,
}

/// What was found in the last head of a connection, for the next one that says the same.
#[derive(Debug, Default)]
pub(super) struct LastHead {
    text: RepeatedHead,
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    method: Method,
    uri: Uri,
    /// Without their text, which is the next one's.
    headers: Headers,
    terms: Terms,
}

/// More than any client sends.
const MAX_HEADERS: usize = 100;
/// The same, in bytes.
pub(super) const MAX_HEAD: usize = u16::MAX as usize;

/// Takes the head at the start of a buffer; `None` if it is not complete.
pub(super) fn take<B>(
    buffer: &mut BytesMut,
    body: impl FnOnce() -> B,
) -> Result<Option<RequestHead<B>>, BadHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let status = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut parsed,
        buffer,
        &mut headers,
    );
    let length = match status {
        Ok(httparse::Status::Complete(length)) if length > MAX_HEAD => {
            return Err(BadHead::TooLong);
        }
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if buffer.len() > MAX_HEAD => return Err(BadHead::TooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooManyHeaders),
        Err(_) => return Err(BadHead::Malformed),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(BadHead::Malformed);
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| BadHead::Malformed)?;
    let is_old = minor == 0;
    let span = |part: &[u8]| Span::of(part, buffer).ok_or(BadHead::TooLong);
    let target = span(target.as_bytes())?;
    if !has_proper_lines(&parsed, &buffer[..length]) {
        return Err(BadHead::Malformed);
    }
    let mut terms = Terms { keep_alive: !is_old, is_old, is_head: method == Method::HEAD };
    let mut headers = Headers::default();
    let (mut announced, mut is_chunked, mut closes, mut expects_continue) =
        (None, false, false, false);
    for header in &*parsed.headers {
        let (name, value) = (header.name, header.value);
        headers.add(span(name.as_bytes())?, span(value)?);
        if name.eq_ignore_ascii_case("content-length") {
            let length = decimal(value).ok_or(BadHead::Malformed)?;
            if announced.replace(length).is_some() {
                return Err(BadHead::Ambiguous);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if is_chunked || is_old {
                return Err(BadHead::Ambiguous);
            }
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadHead::UnknownCoding);
            }
            is_chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(|byte| *byte == b',') {
                let option = option.trim_ascii();
                closes |= option.eq_ignore_ascii_case(b"close");
                terms.keep_alive |= is_old && option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if name.eq_ignore_ascii_case("expect") {
            expects_continue = !is_old && value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    terms.keep_alive &= !closes;
    let framing = match (announced, is_chunked) {
        (Some(_), true) => return Err(BadHead::Ambiguous),
        (Some(length), false) => Framing::Length(length),
        (None, true) => Framing::Chunked(Chunk::Size),
        (None, false) => Framing::Done,
    };
    let head = buffer.split_to(length).freeze();
    let uri = Uri::from_maybe_shared(target.slice(&head)).map_err(|_| BadHead::Malformed)?;
    headers.set_text(head);
    let request = Box::new(Request { method, uri, is_old, headers, body: body() });
    Ok(Some(RequestHead { request, framing, expects_continue, terms }))
}

// === impl LastHead ===

impl LastHead {
    /// The same as [`take`].
    pub(super) fn take<B>(
        &mut self,
        buffer: &mut BytesMut,
        body: impl FnOnce() -> B,
    ) -> Result<Option<RequestHead<B>>, BadHead> {
        if let Some(Found { method, uri, headers, terms }) = &self.found
            && let Some(again) = self.text.again(buffer)
        {
            let text = buffer.split_to(again.end).freeze();
            let headers = headers.moved_to(text, &self.text.digits(), again.digits);
            let (method, uri) = (method.clone(), uri.clone());
            let request = Request { method, uri, is_old: terms.is_old, headers, body: body() };
            let framing = Framing::Length(again.length);
            let (request, terms) = (Box::new(request), *terms);
            return Ok(Some(RequestHead { request, framing, expects_continue: false, terms }));
        }
        let Some(head) = take(buffer, body)? else { return Ok(None) };
        self.found = self.keep(&head);
        Ok(Some(head))
    }

    fn keep<B>(&mut self, head: &RequestHead<B>) -> Option<Found> {
        let before = self.found.take();
        let Request { method, uri, headers, .. } = &*head.request;
        // The one that there is: two are refused.
        let digits = headers.place_of("content-length").filter(|_| !head.expects_continue)?;
        self.text.keep(headers.all_text(), digits).then_some(())?;
        // In memory of its own.
        let uri = match before {
            Some(before) if before.uri == *uri => before.uri,
            _ => uri.to_string().parse().ok()?,
        };
        let headers = headers.without_text();
        Some(Found { method: method.clone(), uri, headers, terms: head.terms })
    }
}

/// Whether every line ends as it should: the library takes less for an end, and others do not. A header begins where a line
/// ended.
fn has_proper_lines(parsed: &httparse::Request<'_, '_>, head: &[u8]) -> bool {
    let start = parsed.method.map_or(0, |method| offset(method.as_bytes(), head));
    let mut names = parsed.headers.iter().map(|header| header.name.as_bytes());
    head.ends_with(b"\r\n\r\n")
        && names.all(|name| head[..offset(name, head)].ends_with(b"\r\n"))
        && head[..start].chunks(2).all(|line_end| line_end == b"\r\n")
}

/// Where a part of `whole` begins.
fn offset(part: &[u8], whole: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

// === impl BadHead ===

impl BadHead {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Malformed | Self::Ambiguous => StatusCode::BAD_REQUEST,
            Self::TooLong | Self::TooManyHeaders => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Malformed => "this is not an HTTP/1.1 request",
            Self::TooLong => "the headers are longer than 64 KiB",
            Self::TooManyHeaders => "there are more than 100 headers",
            Self::Ambiguous => "it is not clear where the body of this request ends",
            Self::UnknownCoding => "the only transfer encoding that is known here is chunked",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Option<RequestHead<()>>, BadHead> {
        take(&mut BytesMut::from(text.as_bytes()), || ())
    }

    fn with(headers: &str) -> RequestHead<()> {
        read(&format!("POST /mcp?a=b HTTP/1.1\r\n{headers}\r\n")).unwrap().unwrap()
    }

    #[test]
    fn a_head_is_taken_and_what_follows_left() {
        let mut buffer = BytesMut::from(
            "\r\nPOST /mcp?a=b HTTP/1.1\r\nHost: x\r\nX-A:  1 \r\nx-a: 2\r\n\r\nrest",
        );
        let head = take(&mut buffer, || ()).unwrap().unwrap();
        assert_eq!(buffer, "rest");
        let request = head.request;
        assert_eq!((request.method, request.uri.to_string()), (Method::POST, "/mcp?a=b".into()));
        let values: Vec<_> = request.headers.get_all("x-a").collect();
        assert_eq!(values, [b"1", b"2"]);
        assert_eq!(request.headers.text("host"), Some("x"));
        assert!(head.terms.keep_alive && !head.terms.is_old && !head.terms.is_head);
    }

    #[test]
    fn a_head_in_pieces_is_waited_for() {
        let whole = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).unwrap().is_none(), "{end}");
        }
        assert!(read(whole).unwrap().is_some());
    }

    #[test]
    fn the_end_of_the_body_is_beyond_doubt() {
        assert_eq!(with("").framing, Framing::Done);
        assert_eq!(with("Content-Length: 12\r\n").framing, Framing::Length(12));
        assert_eq!(with("Transfer-Encoding: Chunked\r\n").framing, Framing::Chunked(Chunk::Size));
        let bad =
            |headers: &str| read(&format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n")).unwrap_err();
        for (headers, expected) in [
            ("Content-Length: 5\r\nContent-Length: 5", BadHead::Ambiguous),
            ("Content-Length: 5\r\nContent-Length: 6", BadHead::Ambiguous),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", BadHead::Ambiguous),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", BadHead::Ambiguous),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", BadHead::Ambiguous),
            ("Transfer-Encoding: gzip, chunked", BadHead::UnknownCoding),
            ("Transfer-Encoding: xchunked", BadHead::UnknownCoding),
            ("Transfer-Encoding: identity", BadHead::UnknownCoding),
            ("Transfer-Encoding:", BadHead::UnknownCoding),
            ("Content-Length: 5, 5", BadHead::Malformed),
            ("Content-Length: +5", BadHead::Malformed),
            ("Content-Length: -5", BadHead::Malformed),
            ("Content-Length: 0x5", BadHead::Malformed),
            ("Content-Length:", BadHead::Malformed),
            ("Content-Length: 99999999999999999999", BadHead::Malformed),
            ("Content-Length : 5", BadHead::Malformed),
            (" Content-Length: 5", BadHead::Malformed),
            ("X: 1\r\n Content-Length: 5", BadHead::Malformed),
            ("X: 1\rContent-Length: 5", BadHead::Malformed),
            ("X: \0", BadHead::Malformed),
            ("X: 1\nTransfer-Encoding: chunked", BadHead::Malformed),
        ] {
            assert_eq!(bad(headers), expected, "{headers:?}");
        }
        let old = read("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old.unwrap_err(), BadHead::Ambiguous);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bad in [
            "this is not HTTP\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/1.1\nhost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET http://[ HTTP/1.1\r\n\r\n",
            "\u{16}\u{3}\u{1}",
        ] {
            assert_eq!(read(bad).unwrap_err(), BadHead::Malformed, "{bad:?}");
        }
        let many = "x: y\r\n".repeat(MAX_HEADERS + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        assert_eq!(read(&many).unwrap_err(), BadHead::TooManyHeaders);
        for end in ["", "\r\n\r\n"] {
            let long = format!("GET / HTTP/1.1\r\nx: {}{end}", "y".repeat(MAX_HEAD));
            assert_eq!(read(&long).unwrap_err(), BadHead::TooLong);
        }
    }

    /// All that was found in a head.
    fn described(head: &RequestHead<()>) -> String {
        let Request { method, uri, is_old, headers, .. } = &*head.request;
        let map = headers.to_map();
        let headers: Vec<_> = map.iter().map(|(name, value)| (name, value.as_bytes())).collect();
        let (framing, terms, waits) = (head.framing, head.terms, head.expects_continue);
        format!("{method} {uri} {is_old} {headers:?} {framing:?} {terms:?} {waits}")
    }

    fn text_of_a_head() -> impl Strategy<Value = String> {
        let lines = prop::sample::subsequence(
            vec![
                "Host: x",
                "Mcp-Session-Id: abc",
                "Connection: close",
                "Connection: keep-alive",
                "Expect: 100-continue",
                "Transfer-Encoding: chunked",
                "X-Content-Length: 7",
                "Content-Length: LENGTH",
                "content-length:LENGTH \t",
                "Accept: LENGTH",
            ],
            0..6,
        );
        let start = prop::sample::select(vec![
            "POST /mcp HTTP/1.1",
            "POST /mcp?a=12 HTTP/1.1",
            "POST /mcp HTTP/1.0",
            "GET / HTTP/1.1",
            "\r\nPOST /mcp HTTP/1.1",
            "HEAD http://x/mcp HTTP/1.1",
        ]);
        let length =
            prop::sample::select(vec!["0", "5", "007", "12", "345", "+1", "1234567890123456789"]);
        (start, lines.prop_shuffle(), length).prop_map(|(start, lines, length)| {
            let lines = [&[start], &lines[..], &["", ""]].concat().join("\r\n");
            lines.replace("LENGTH", length)
        })
    }

    proptest! {
        #[test]
        fn what_came_before_makes_no_difference(
            kinds in prop::collection::vec(text_of_a_head(), 1..4),
            order in prop::collection::vec((any::<prop::sample::Index>(), 0..400_u32, 0..60_usize), 1..12),
        ) {
            let mut last = LastHead::default();
            for (kind, length, missing) in order {
                // One that was there before, mostly with another length.
                let text = kind.get(&kinds).replace("12", &length.to_string());
                let text = &text[..text.len() - missing.min(text.len()) / 40];
                let mut buffers = [(); 2].map(|()| BytesMut::from(format!("{text}rest").as_bytes()));
                let [ours, theirs] = &mut buffers;
                let (taken, expected) = (last.take(ours, || ()), take(theirs, || ()));
                prop_assert_eq!(&ours, &theirs);
                match (taken, expected) {
                    (Ok(Some(taken)), Ok(Some(expected))) => {
                        prop_assert_eq!(described(&taken), described(&expected));
                    }
                    (taken, expected) => {
                        prop_assert_eq!(taken.map(|head| head.is_some()), expected.map(|head| head.is_some()));
                    }
                }
            }
        }
    }

    #[test]
    fn one_that_says_the_same_is_not_read_again() {
        let head = |length: u32| {
            format!("POST /mcp HTTP/1.1\r\nHost: x\r\ncontent-length: {length}\r\nA: b\r\n\r\n")
        };
        let mut last = LastHead::default();
        for length in [7, 12, 345, 7] {
            let taken = last.take(&mut BytesMut::from(head(length).as_bytes()), || ());
            let taken = taken.unwrap().unwrap();
            assert_eq!(taken.framing, Framing::Length(length.into()));
            assert_eq!(taken.request.headers.text("content-length"), Some(&*length.to_string()));
            assert_eq!(taken.request.headers.text("a"), Some("b"));
            assert!(last.found.is_some() && last.text.again(head(1).as_bytes()).is_some());
        }
    }

    #[test]
    fn whether_the_connection_goes_on() {
        let keep_alive = |version: &str, connection: &str| {
            let text = format!("GET / HTTP/{version}\r\nconnection: {connection}\r\n\r\n");
            read(&text).unwrap().unwrap().terms.keep_alive
        };
        assert!(keep_alive("1.1", "keep-alive"));
        assert!(keep_alive("1.1", "upgrade"));
        assert!(!keep_alive("1.1", "x, Close"));
        assert!(keep_alive("1.0", "Keep-Alive"));
        assert!(!keep_alive("1.0", "keep-alive, close"));
        assert!(!keep_alive("1.0", ""));
    }
}
