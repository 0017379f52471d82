//! A receiver of traces that reads just enough of Protocol Buffers to say what it got. Whether others read the same is for
//! the tests with peers to show.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use crate::support::until;

/// Listens until it is dropped.
pub(crate) struct Receiver {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    bodies: Vec<Bytes>,
    headers: Vec<(String, HeaderMap)>,
    /// What to answer first.
    refusals: Vec<StatusCode>,
}

/// As it came.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Traces and spans.
    pub(crate) links: Vec<(String, String)>,
    pub(crate) error: Option<String>,
    pub(crate) resource: BTreeMap<String, String>,
}

/// One field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

// === impl Receiver ===

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::refusing(&[]).await
    }

    /// Answers with these at first.
    pub(crate) async fn refusing(refusals: &[StatusCode]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let refusals = refusals.iter().rev().copied().collect();
        let state = Arc::new(Mutex::new(State { refusals, ..State::default() }));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = shared.clone();
                let service = service_fn(move |request| take(state.clone(), request));
                tokio::spawn(async move {
                    let serving = hyper::server::conn::http1::Builder::new();
                    let _ = serving.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, state, task }
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.state.lock().unwrap().bodies.iter().flat_map(|body| read(body)).collect()
    }

    /// Everything it got, as bytes and text.
    pub(crate) fn everything(&self) -> String {
        let state = self.state.lock().unwrap();
        state.bodies.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect()
    }

    pub(crate) fn requests(&self) -> Vec<(String, HeaderMap)> {
        self.state.lock().unwrap().headers.clone()
    }

    /// Waits for one of this name.
    pub(crate) async fn span(&self, name: &str) -> Span {
        let mut found = None;
        until(&format!("a span called {name}"), async || {
            found = self.spans().into_iter().find(|span| span.name == name);
            found.is_some()
        })
        .await;
        found.unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let headers = request.headers().clone();
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let mut response = Response::new(Full::new(Bytes::new()));
    let mut state = state.lock().unwrap();
    state.headers.push((path, headers));
    match state.refusals.pop() {
        Some(status) => *response.status_mut() = status,
        None => state.bodies.extend(body.ok()),
    }
    Ok(response)
}

// === reading ===

fn read(body: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in messages(body, 1) {
        let resource = messages(resource_spans, 1).first().map(|about| attributes(about, 1));
        for scope_spans in messages(resource_spans, 2) {
            for span in messages(scope_spans, 2) {
                spans.push(span_of(span, resource.clone().unwrap_or_default()));
            }
        }
    }
    spans
}

fn span_of(span: &[u8], resource: BTreeMap<String, String>) -> Span {
    let hex = |field| hex(messages(span, field).first().copied().unwrap_or_default());
    Span {
        trace: hex(1),
        id: hex(2),
        parent: hex(4),
        state: text(span, 3),
        name: text(span, 5),
        kind: number(span, 6),
        began: number(span, 7),
        ended: number(span, 8),
        attributes: attributes(span, 9),
        links: messages(span, 13)
            .iter()
            .map(|link| (self::hex(messages(link, 1)[0]), self::hex(messages(link, 2)[0])))
            .collect(),
        error: messages(span, 15).first().map(|status| {
            assert_eq!(number(status, 3), 2);
            text(status, 2)
        }),
        resource,
    }
}

fn attributes(message: &[u8], field: u64) -> BTreeMap<String, String> {
    let pairs = messages(message, field).into_iter().map(|pair| {
        let value = messages(pair, 2)[0];
        let shown = match fields(value).pop().unwrap() {
            (1, Field::Bytes(text)) => String::from_utf8(text.to_vec()).unwrap(),
            (2, Field::Number(flag)) => (flag == 1).to_string(),
            (3, Field::Number(number)) => number.cast_signed().to_string(),
            _ => panic!("an attribute of another kind"),
        };
        (text(pair, 1), shown)
    });
    pairs.collect()
}

fn text(message: &[u8], field: u64) -> String {
    let bytes = messages(message, field).first().copied().unwrap_or_default();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn number(message: &[u8], field: u64) -> u64 {
    let found = fields(message).into_iter().find_map(|(number, value)| match value {
        Field::Number(value) if number == field => Some(value),
        _ => None,
    });
    found.unwrap_or_default()
}

fn messages(message: &[u8], field: u64) -> Vec<&[u8]> {
    let found = fields(message).into_iter().filter_map(|(number, value)| match value {
        Field::Bytes(bytes) if number == field => Some(bytes),
        _ => None,
    });
    found.collect()
}

fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = match key & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => Field::Number(u64::from_le_bytes(take_bytes(&mut message, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut message);
                Field::Bytes(take_bytes(&mut message, usize::try_from(length).unwrap()))
            }
            5 => {
                let bytes = take_bytes(&mut message, 4).try_into().unwrap();
                Field::Number(u64::from(u32::from_le_bytes(bytes)))
            }
            other => panic!("a field of kind {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn take_bytes<'a>(message: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(count);
    *message = rest;
    taken
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_bytes(message, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How long a span took.
pub(crate) fn took(span: &Span) -> Duration {
    Duration::from_nanos(span.ended - span.began)
}
