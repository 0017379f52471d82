//! The head of a response: of its headers only those that mean something to us are kept.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::framing::{Chunk, Framing};
use super::headers::ContentType;
use super::repeated_head::{RepeatedHead, decimal};
use crate::retry::Reset;

/// Status and what matters of the headers.
#[derive(Debug, Clone)]
pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    pub(super) content_type: ContentType,
    pub(super) session_id: Option<HeaderValue>,
    /// Of a refusal that may be about our rate: when it ends.
    pub(super) reset: Option<Reset>,
    /// For how long another request may follow on the same connection.
    pub(super) keep_alive: Option<Duration>,
    pub(super) framing: Framing,
    /// Where the length of its body is written, if in one place.
    length_at: Option<Range<usize>>,
}

/// What was found in the last head of a connection, for the next one that says the same.
#[derive(Debug, Default)]
pub(super) struct LastHead {
    text: RepeatedHead,
    found: Option<ResponseHead>,
}

/// It is not the head of an HTTP/1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP/1 response: {0}")]
pub(crate) struct BadHead(&'static str);

impl BadHead {
    pub(super) const TOO_LONG: Self = Self("too long");
    pub(super) const SWITCHED: Self = Self("it switches to a protocol nobody asked for");
}

const MAX_HEADERS: usize = 128;
/// Servers close connections that are idle: those on Node and uvicorn after 5 s, and only some say so. A request that
/// passes the end of its connection on the way is lost, and nobody can tell whether it was read.
const KEPT_UNANNOUNCED: Duration = Duration::from_secs(4);
const KEPT_AT_MOST: Duration = Duration::from_secs(90);
/// How long before the end that was announced a request may still be on its way.
const ON_THE_WAY: Duration = Duration::from_secs(1);

// === impl LastHead ===

impl LastHead {
    /// The same as [`parse`].
    pub(super) fn parse(
        &mut self,
        buffer: &[u8],
    ) -> Result<Option<(ResponseHead, usize)>, BadHead> {
        if let Some(found) = &self.found
            && let Some(again) = self.text.again(buffer)
        {
            let framing = Framing::Length(again.length);
            return Ok(Some((ResponseHead { framing, ..found.clone() }, again.end)));
        }
        let Some((head, length)) = parse(buffer)? else { return Ok(None) };
        let is_usual = head.status == StatusCode::OK && matches!(head.framing, Framing::Length(_));
        let digits = head.length_at.clone().filter(|_| is_usual);
        let is_kept = digits.is_some_and(|digits| self.text.keep(&buffer[..length], digits));
        self.found = is_kept.then(|| head.clone());
        Ok(Some((head, length)))
    }
}

/// The head at the start of a buffer, and how long it is. `None` if it is not complete.
pub(super) fn parse(buffer: &[u8]) -> Result<Option<(ResponseHead, usize)>, BadHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        buffer,
        &mut headers,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead("too many headers")),
        Err(_) => return Err(BadHead("malformed")),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(BadHead("no status"))?;
    let mut head = ResponseHead {
        status,
        content_type: ContentType::default(),
        session_id: None,
        reset: None,
        keep_alive: None,
        framing: Framing::UntilClose,
        length_at: None,
    };
    let mut announced: Option<u64> = None;
    let may_be_limited = matches!(status.as_u16(), 403 | 429);
    let (mut chunked, mut closes) = (false, false);
    let mut persistent = response.version == Some(1);
    let mut kept = KEPT_UNANNOUNCED;
    for header in response.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        // By length first: most headers mean nothing here.
        match header.name.len() {
            12 if is("content-type") => {
                head.content_type = ContentType::read(header.value);
            }
            14 if is("content-length") => {
                let digits = header.value.trim_ascii();
                let length = decimal(digits).ok_or(BadHead("no usable length"))?;
                if announced.is_some_and(|before| before != length) {
                    return Err(BadHead("two lengths"));
                }
                let start = digits.as_ptr().addr() - buffer.as_ptr().addr();
                head.length_at = announced.is_none().then(|| start..start + digits.len());
                announced = Some(length);
            }
            17 if is("transfer-encoding") => {
                // The only one there is, as every server knows that we know.
                if chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(BadHead("an unknown transfer encoding"));
                }
                chunked = true;
            }
            10 if is("connection") => {
                for option in header.value.split(|byte| *byte == b',') {
                    let option = option.trim_ascii();
                    if option.eq_ignore_ascii_case(b"close") {
                        closes = true;
                    } else if option.eq_ignore_ascii_case(b"keep-alive")
                        && response.version == Some(0)
                    {
                        persistent = true;
                    }
                }
            }
            10 if is("keep-alive") => kept = announced_idle_time(header.value).unwrap_or(kept),
            14 if is("mcp-session-id") => {
                head.session_id = HeaderValue::from_bytes(header.value).ok();
                // It is kept with the head, and never shown.
                head.session_id.iter_mut().for_each(|id| id.set_sensitive(true));
            }
            11 if may_be_limited && is("retry-after") => {
                head.reset = Reset::retry_after(header.value).or(head.reset);
            }
            15 | 17
                if may_be_limited
                    && head.reset.is_none()
                    && (is("ratelimit-reset") || is("x-ratelimit-reset")) =>
            {
                head.reset = Reset::rate_limit_reset(header.value);
            }
            _ => {}
        }
    }
    let empty = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let has_body = chunked || announced.is_some_and(|length| length > 0);
    if closes || (chunked && announced.is_some()) || (empty && has_body) {
        // Somebody on the way may believe the other: nothing after it can be trusted.
        persistent = false;
    }
    head.framing = match announced {
        _ if empty || status.is_informational() => Framing::Done,
        _ if chunked => Framing::Chunked(Chunk::Size),
        Some(length) => Framing::Length(length),
        None => {
            persistent = false;
            Framing::UntilClose
        }
    };
    head.keep_alive = (persistent && !kept.is_zero()).then_some(kept);
    Ok(Some((head, length)))
}

/// `timeout=5, max=100`
fn announced_idle_time(value: &[u8]) -> Option<Duration> {
    let timeout = value.split(|byte| *byte == b',').find_map(|parameter| {
        let (name, value) = parameter.trim_ascii().split_at_checked("timeout=".len())?;
        name.eq_ignore_ascii_case(b"timeout=").then_some(value)
    })?;
    let timeout = Duration::from_secs(decimal(timeout.trim_ascii())?);
    Some(timeout.saturating_sub(ON_THE_WAY).min(KEPT_AT_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ResponseHead {
        let (head, length) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(length, text.len());
        head
    }

    #[test]
    fn what_matters_is_found_and_the_rest_ignored() {
        let head = read(
            "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: application/json\r\nMCP-Session-Id: abc\r\nContent-Length: 12\r\n\r\n",
        );
        assert_eq!(head.status, 200);
        assert_eq!(head.content_type, ContentType::Json);
        assert_eq!(head.session_id.unwrap(), "abc");
        assert_eq!((head.framing, head.keep_alive), (Framing::Length(12), Some(KEPT_UNANNOUNCED)));
    }

    #[test]
    fn the_end_of_a_body_is_known_or_the_connection_is_not_used_again() {
        let chunked = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n");
        assert_eq!(chunked.framing, Framing::Chunked(Chunk::Size));
        assert!(chunked.keep_alive.is_some());
        let both =
            read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!((both.framing, both.keep_alive), (Framing::Chunked(Chunk::Size), None));
        let neither = read("HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!((neither.framing, neither.keep_alive), (Framing::UntilClose, None));
        let closing =
            read("HTTP/1.1 404 Not Found\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n");
        assert_eq!((closing.framing, closing.keep_alive), (Framing::Length(0), None));
        assert_eq!(
            read("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n").framing,
            Framing::Done
        );
        assert!(read("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").keep_alive.is_none());
        assert!(
            read("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
                .keep_alive
                .is_some()
        );
    }

    #[test]
    fn a_connection_is_used_again_only_well_before_the_server_gives_it_up() {
        let kept = |announced: &str| {
            let head = format!("HTTP/1.1 204 No Content\r\nKeep-Alive: {announced}\r\n\r\n");
            read(&head).keep_alive.map(|kept| kept.as_secs())
        };
        assert_eq!(kept("timeout=5"), Some(4));
        assert_eq!(kept("max=100, Timeout=75"), Some(74));
        assert_eq!(kept("timeout=86400"), Some(KEPT_AT_MOST.as_secs()));
        assert_eq!(kept("timeout=1"), None);
        assert_eq!(kept("timeout=0"), None);
        for nothing in ["max=100", "timeout=", "timeout=soon", "time"] {
            assert_eq!(kept(nothing), Some(KEPT_UNANNOUNCED.as_secs()), "{nothing}");
        }
    }

    #[test]
    fn a_session_id_does_not_print() {
        let head = read("HTTP/1.1 204 No Content\r\nMcp-Session-Id: secret\r\n\r\n");
        assert_eq!(head.session_id.as_ref().unwrap(), "secret");
        assert!(!format!("{head:?}").contains("secret"));
    }

    #[test]
    fn what_came_before_makes_no_difference() {
        let kinds = [
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: N\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length:N \r\nKeep-Alive: timeout=5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: N\r\nContent-Length: N\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: N\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: N\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: N\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nContent-Length: N\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: N\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ];
        let lengths = ["0", "7", "12", "00345", "x", "", "+1"];
        let mut last = LastHead::default();
        for (kind, length) in kinds.iter().flat_map(|kind| lengths.map(|length| (kind, length))) {
            let text = kind.replace('N', length) + "body";
            // Twice, and in between what is not complete.
            for end in [text.len(), text.len() - 5, text.len()] {
                let (ours, theirs) =
                    (last.parse(&text.as_bytes()[..end]), parse(&text.as_bytes()[..end]));
                let described = |parsed| format!("{parsed:?}");
                let alike = |parsed: Result<Option<(ResponseHead, usize)>, BadHead>| {
                    described(parsed.map(|found| {
                        found.map(|(head, end)| (ResponseHead { length_at: None, ..head }, end))
                    }))
                };
                assert_eq!(alike(ours), alike(theirs), "{text:?}");
            }
        }
    }

    #[test]
    fn what_could_be_read_two_ways_is_refused() {
        for bad in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "hello\r\n\r\n",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert!(parse(many.as_bytes()).is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-").unwrap().is_none());
    }
}
