//! A request as it goes over the wire, but for its body.

use std::io::Write as _;

use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::{Method, Uri};

/// Written once for all requests that differ only in their body. Cheap to clone.
#[derive(Clone)]
pub(super) struct RequestHead {
    /// Up to the length of the body.
    text: Bytes,
    has_body: bool,
}

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

    /// The whole head of a request with so large a body.
    pub(super) fn with_length(&self, length: usize) -> Vec<u8> {
        let mut into = Vec::with_capacity(self.text.len() + 48);
        into.extend_from_slice(&self.text);
        if self.has_body {
            // Writing to memory does not fail.
            let _ = write!(into, "content-length: {length}\r\n");
        }
        into.extend_from_slice(b"\r\n");
        into
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
        String::from_utf8(head.with_length(length)).unwrap()
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
        assert!(
            written(&Method::POST, "http://h", &HeaderMap::new(), 0).contains("content-length: 0")
        );
    }

    #[test]
    fn a_host_of_ones_own_is_kept() {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("other"))]);
        let text = written(&Method::GET, "http://h/", &headers, 0);
        assert_eq!(text, "GET / HTTP/1.1\r\nhost: other\r\n\r\n");
    }
}
