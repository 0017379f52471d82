//! Which face a request is for, and what all faces check alike.

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming as IncomingBody;

use crate::http::connection::Context;
use crate::http::replies::{self, Reply};
use crate::http::{legacy_sse, plain_rpc, streamable};
use crate::jsonrpc::Message;

pub(crate) async fn route(context: Context, request: Request<IncomingBody>) -> Reply {
    let (head, body) = request.into_parts();
    let posted = head.method == Method::POST;
    if posted {
        note_headers(&context, &head.headers);
    }
    if !is_local(&context, &head.headers) {
        return replies::rpc_error(StatusCode::FORBIDDEN, -32000, "Host or Origin not allowed");
    }
    if !is_authorized(&context, &head.headers) {
        context.server.count(|tally| tally.unauthorized += 1);
        return replies::unauthorized();
    }
    // The whole request is read before anything happens, so that faults act after it.
    let Ok(body) = body.collect().await else { return replies::empty(StatusCode::BAD_REQUEST) };
    let body = body.to_bytes();
    let messages = match posted.then(|| parse(&head, &body)).transpose() {
        Ok(messages) => messages,
        Err(reply) => return *reply,
    };
    match (head.uri.path(), messages) {
        ("/mcp", Some(messages)) => streamable::post(context, &head, messages).await,
        ("/mcp", None) if head.method == Method::GET => streamable::get(context, &head).await,
        ("/mcp", None) if head.method == Method::DELETE => streamable::delete(context, &head).await,
        ("/mcp", None) => replies::not_allowed("GET, POST, DELETE"),
        ("/sse", None) if head.method == Method::GET => legacy_sse::open(&context).await,
        ("/sse", _) => replies::not_allowed("GET"),
        ("/message", Some(messages)) => legacy_sse::post(context, &head, messages).await,
        ("/rpc", Some(messages)) => plain_rpc::post(context, &head, messages).await,
        ("/message" | "/rpc", None) => replies::not_allowed("POST"),
        _ => replies::empty(StatusCode::NOT_FOUND),
    }
}

/// What a `POST` carried.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) messages: Vec<Message>,
    pub(crate) is_batch: bool,
}

fn parse(head: &Parts, body: &[u8]) -> Result<Posted, Box<Reply>> {
    if !mentions(&head.headers, &CONTENT_TYPE, "application/json") {
        return Err(Box::new(replies::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
    }
    let parsed = std::str::from_utf8(body).ok().and_then(Message::parse_all);
    let Some((messages, is_batch)) = parsed else {
        return Err(Box::new(replies::rpc_error(StatusCode::BAD_REQUEST, -32700, "Parse error")));
    };
    Ok(Posted { messages, is_batch })
}

/// Whether a header names a media type.
pub(crate) fn mentions(headers: &HeaderMap, name: &http::HeaderName, media_type: &str) -> bool {
    headers.get_all(name).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains(media_type))
    })
}

pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    mentions(headers, &ACCEPT, media_type)
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_authorized(context: &Context, headers: &HeaderMap) -> bool {
    let state = context.server.state();
    let Some(token) = &state.http.bearer_token else { return true };
    header(headers, AUTHORIZATION.as_str()).is_some_and(|sent| sent == format!("Bearer {token}"))
}

/// Whether a browser can have been led here by a name that somebody else owns.
fn is_local(context: &Context, headers: &HeaderMap) -> bool {
    if !context.server.state().http.local_only {
        return true;
    }
    let local = |authority: &str| {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let host = authority.rsplit_once(':').filter(|(_, port)| is_port(port));
        let host = host.map_or(authority, |(host, _)| host);
        ["localhost", "127.0.0.1", "[::1]"].contains(&host)
    };
    let origin = header(headers, ORIGIN.as_str());
    header(headers, HOST.as_str()).is_some_and(local)
        && origin.is_none_or(|origin| {
            origin.split_once("://").is_some_and(|(_, authority)| local(authority))
        })
}

fn note_headers(context: &Context, headers: &HeaderMap) {
    let seen = headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let seen = seen.collect();
    context.server.count(|tally| tally.last_headers = seen);
}
