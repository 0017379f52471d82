//! A request as it goes over the wire, but for its body.

use std::io::Cursor;

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use http::header::{HOST, HeaderMap};
use http::{Method, Uri};

/// Written once for all requests that differ only in their body. Cheap to clone.
#[derive(Clone)]
pub(super) struct RequestHead {
    /// Up to the length of the body.
    text: Bytes,
    has_body: bool,
}

/// A body that is sent together with its head.
const SMALL_BODY: usize = 4 * 1024;

// === impl RequestHead ===

impl RequestHead {
    pub(super) fn new(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let mut text = Vec::with_capacity(512);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // Some addresses have a query and no path.
        let slash = if path.starts_with('/') { "" } else { "/" };
        for part in [method.as_str(), " ", slash, path, " HTTP/1.1\r\n"] {
            text.extend_from_slice(part.as_bytes());
        }
        if !headers.contains_key(HOST) {
            text.extend_from_slice(format!("host: {}\r\n", host(uri)).as_bytes());
        }
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
        Self { text: text.into(), has_body: *method == Method::POST }
    }

    /// The same with more headers, as they are written.
    pub(super) fn and(&self, headers: &[u8]) -> Self {
        let text = [&self.text, headers].concat().into();
        Self { text, has_body: self.has_body }
    }

    /// The whole request, in two pieces if it is large: one is sent with less ado, and a small body soon copied. It is
    /// written into `room`, which may have served for another.
    pub(super) fn with_body(&self, body: Bytes, room: Vec<u8>) -> Chain<Cursor<Vec<u8>>, Bytes> {
        let (copied, apart) =
            if body.len() <= SMALL_BODY { (body, Bytes::new()) } else { (Bytes::new(), body) };
        let mut text = room;
        text.clear();
        text.reserve(self.text.len() + 48 + copied.len());
        text.extend_from_slice(&self.text);
        if self.has_body {
            text.extend_from_slice(b"content-length: ");
            let length = copied.len() + apart.len();
            text.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(&copied);
        Cursor::new(text).chain(apart)
    }
}

/// The name and port of a server: no port if it is the usual one, and never a password.
fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    match uri.port_u16() {
        Some(port) if port != usual => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}

impl std::fmt::Debug for RequestHead {
    /// Headers hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestHead")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn written(method: &Method, uri: &'static str, headers: &HeaderMap, length: usize) -> String {
        let head = RequestHead::new(method, &Uri::from_static(uri), headers);
        let mut request = head.with_body(vec![b'x'; length].into(), b"another".to_vec());
        let text = request.copy_to_bytes(request.remaining());
        String::from_utf8(text.strip_suffix(&*vec![b'x'; length]).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_request_is_written_as_http_wants_it() {
        let headers =
            HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static("a/b"))]);
        assert_eq!(
            written(&Method::POST, "http://user:pass@host:8080/mcp?x=1", &headers, 1205),
            "POST /mcp?x=1 HTTP/1.1\r\nhost: host:8080\r\naccept: a/b\r\ncontent-length: 1205\r\n\r\n"
        );
        assert_eq!(
            written(&Method::GET, "https://[::1]:443", &HeaderMap::new(), 0),
            "GET / HTTP/1.1\r\nhost: [::1]\r\n\r\n"
        );
        for length in [0, SMALL_BODY, SMALL_BODY + 1] {
            let text = written(&Method::POST, "http://h", &HeaderMap::new(), length);
            assert!(text.ends_with(&format!("content-length: {length}\r\n\r\n")), "{text}");
        }
    }

    #[test]
    fn a_host_of_ones_own_is_kept() {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("other"))]);
        let text = written(&Method::GET, "http://h/", &headers, 0);
        assert_eq!(text, "GET / HTTP/1.1\r\nhost: other\r\n\r\n");
    }
}
