//! The dashboard's files over HTTP. Anybody may have them: they are the same for everybody and know nothing.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::request::{Headers, Request, visible};
use super::{Reply, body, incoming};
use crate::dashboard::{self, File};

/// What every file says besides its content. Browsers ask each time whether it is still the same, so that a page never
/// mixes files of two versions.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(dashboard::POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

pub(super) async fn answer<B>(file: File, request: &mut Request<B>) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut reply = match request.method {
        Method::GET | Method::HEAD if has(&request.headers, file) => {
            body::empty(StatusCode::NOT_MODIFIED)
        }
        Method::GET | Method::HEAD => body::file(file.content_type, file.content),
        _ => body::wrong_method("GET"),
    };
    reply.headers.extend(HEADERS);
    reply.set(ETAG, HeaderValue::from_static(file.etag));
    if !incoming::discard(&mut request.body).await {
        reply.closes = true;
    }
    reply
}

/// Whether the browser has this version already.
fn has(headers: &Headers, file: File) -> bool {
    let known = headers.get_all("if-none-match").filter_map(visible);
    let mut known = known.flat_map(|tags| tags.split(',')).map(str::trim);
    // A proxy that compresses what it passes on makes the tag a weak one.
    known.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == file.etag)
}
