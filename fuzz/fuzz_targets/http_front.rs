//! Sequences of requests to the HTTP front, some as clients send them and some as nobody should: every one is answered,
//! none with a 500, sessions stay within their limit, and when the clients are gone nothing of them is left.

#![no_main]

#[path = "http_front/bodies.rs"]
mod bodies;
#[path = "http_front/headers.rs"]
mod headers;

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use evergate::fuzzing::{AUTHORITY, KEYS, Seen, World};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

use bodies::Body;
use headers::Header;

#[derive(Debug, Arbitrary)]
struct Input {
    with_keys: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// A well-formed handshake.
    Initialize {
        place: Place,
        key: u8,
        version: u8,
        capabilities: u8,
    },
    /// A well-formed request in a session that was given out.
    InSession {
        session: u8,
        method: Verb,
        body: Body,
        keep: bool,
    },
    /// Anything.
    Any(Anything),
    Wait(u8),
    Disturb,
}

#[derive(Debug, Arbitrary)]
struct Anything {
    method: Verb,
    place: Place,
    /// As a client would, before `headers` are added.
    proper: bool,
    headers: Vec<Header>,
    body: Body,
    cuts: Vec<u8>,
    keep: bool,
}

#[derive(Debug, Arbitrary)]
enum Verb {
    Post,
    Get,
    Delete,
    Options,
    Head,
    Put,
    Other(String),
}

#[derive(Debug, Arbitrary)]
enum Place {
    Mcp,
    Server(u8),
    Sse,
    Message(u8),
    Health,
    Ready,
    Close,
    Other(String),
}

/// What responses told, as a client would remember it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) sessions: Vec<Session>,
    pub(crate) event_ids: Vec<Vec<u8>>,
    /// Addresses of HTTP+SSE streams.
    endpoints: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: HeaderValue,
    place: String,
    key: Option<HeaderValue>,
}

thread_local! {
    static WORLDS: RefCell<[World; 2]> = RefCell::new([World::new(false), World::new(true)]);
}

fuzz_target!(|input: Input| WORLDS.with_borrow_mut(|worlds| {
    let world = &mut worlds[usize::from(input.with_keys)];
    let mut memory = Memory::default();
    for step in input.steps.iter().take(24) {
        step.run(world, &mut memory);
    }
    for session in std::mem::take(&mut memory.sessions).iter().step_by(2) {
        let request = request(&Method::DELETE, &session.place, session.headers(), Vec::new());
        request.map(|request| world.send(request, false));
    }
    world.leave();
}));

// === impl Step ===

impl Step {
    fn run(&self, world: &mut World, memory: &mut Memory) {
        match self {
            Self::Initialize { place, key, version, capabilities } => {
                let mut headers = proper_headers();
                let key = KEYS.get(usize::from(*key) % 4).map(|key| HeaderValue::from_static(key));
                if let Some(key) = &key {
                    headers.insert("x-api-key", key.clone());
                }
                let body = bodies::initialize(*version, *capabilities);
                let place = place.path(memory);
                let Some(request) = request(&Method::POST, &place, headers, vec![body]) else {
                    return;
                };
                let seen = world.send(request, false);
                memory.note(&seen, &place, key);
            }
            Self::InSession { session, method, body, keep } => {
                let Some(session) = pick(&memory.sessions, *session) else { return };
                let (place, key) = (session.place.clone(), session.key.clone());
                let pieces = vec![body.text(memory)];
                let Some(request) = request(&method.method(), &place, session.headers(), pieces)
                else {
                    return;
                };
                let seen = world.send(request, *keep);
                memory.note(&seen, &place, key);
            }
            Self::Any(anything) => anything.send(world, memory),
            Self::Wait(seconds) => {
                let seen = world.wait(Duration::from_secs(u64::from(*seconds)));
                memory.note_events(&seen);
            }
            Self::Disturb => world.disturb(),
        }
    }
}

// === impl Anything ===

impl Anything {
    fn send(&self, world: &mut World, memory: &mut Memory) {
        let mut headers = if self.proper { proper_headers() } else { HeaderMap::new() };
        for header in self.headers.iter().take(16) {
            header.add_to(&mut headers, memory);
        }
        let place = self.place.path(memory);
        let mut body = self.body.text(memory);
        let mut pieces = Vec::new();
        for cut in self.cuts.iter().take(8) {
            pieces.push(body.split_to(usize::from(*cut).min(body.len())));
        }
        pieces.push(body);
        let Some(request) = request(&self.method.method(), &place, headers, pieces) else { return };
        let seen = world.send(request, self.keep);
        memory.note(&seen, &place, None);
    }
}

// === impl Verb ===

impl Verb {
    fn method(&self) -> Method {
        match self {
            Self::Post => Method::POST,
            Self::Get => Method::GET,
            Self::Delete => Method::DELETE,
            Self::Options => Method::OPTIONS,
            Self::Head => Method::HEAD,
            Self::Put => Method::PUT,
            Self::Other(text) => text.parse().unwrap_or(Method::PATCH),
        }
    }
}

// === impl Place ===

impl Place {
    fn path(&self, memory: &Memory) -> String {
        match self {
            Self::Mcp => "/mcp".to_owned(),
            Self::Server(which) => {
                let names = ["a", "b", "own", "none", "%61", "a/", "%", "%zz", "%ff", ""];
                format!("/mcp/{}", names[usize::from(*which) % names.len()])
            }
            Self::Sse => "/sse".to_owned(),
            Self::Message(which) => match pick(&memory.endpoints, *which) {
                Some(endpoint) => endpoint.clone(),
                None => "/message?sessionId=0".to_owned(),
            },
            Self::Health => "/health".to_owned(),
            Self::Ready => "/readyz".to_owned(),
            Self::Close => "/close".to_owned(),
            Self::Other(text) => format!("/{text}"),
        }
    }
}

// === impl Memory ===

impl Memory {
    fn note(&mut self, seen: &Seen, place: &str, key: Option<HeaderValue>) {
        if let Some(id) = seen.headers.get("mcp-session-id") {
            self.sessions.push(Session { id: id.clone(), place: place.to_owned(), key });
        }
        self.note_events(&seen.body);
    }

    fn note_events(&mut self, events: &[u8]) {
        for line in events.split(|byte| *byte == b'\n') {
            if let Some(id) = line.strip_prefix(b"id: ") {
                self.event_ids.push(id.to_vec());
            }
            let endpoint =
                line.strip_prefix(b"data: ").filter(|data| data.starts_with(b"/message?"));
            self.endpoints.extend(endpoint.map(|data| String::from_utf8_lossy(data).into_owned()));
        }
    }
}

// === impl Session ===

impl Session {
    fn headers(&self) -> HeaderMap {
        let mut headers = proper_headers();
        headers.insert("mcp-session-id", self.id.clone());
        if let Some(key) = &self.key {
            headers.insert("x-api-key", key.clone());
        }
        headers
    }
}

pub(crate) fn pick<T>(all: &[T], which: u8) -> Option<&T> {
    all.get(usize::from(which) % all.len().max(1))
}

fn proper_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static(AUTHORITY));
    headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers
}

/// `None` if HTTP itself does not allow it: then it never gets to the front.
fn request(
    method: &Method,
    place: &str,
    headers: HeaderMap,
    body: Vec<Bytes>,
) -> Option<Request<Vec<Bytes>>> {
    let uri: Uri = place.parse().ok()?;
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Some(request)
}
