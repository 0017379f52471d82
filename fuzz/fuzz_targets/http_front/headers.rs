//! Headers: those that mean something, with good and bad values, and any others.

use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::arbitrary::{self, Arbitrary};

use super::{AUTHORITY, KEYS, Memory, pick};

#[derive(Debug, Arbitrary)]
pub(crate) enum Header {
    SessionId(Known),
    LastEventId(Known),
    Accept(u8),
    ContentType(u8),
    Version(u8),
    Origin(u8),
    Host(u8),
    Key { name: u8, key: u8 },
    Any { name: Vec<u8>, value: Vec<u8> },
}

/// Something that was given out, whole or not.
#[derive(Debug, Arbitrary)]
pub(crate) enum Known {
    Whole(u8),
    Changed { which: u8, at: u16, by: u8 },
    Cut { which: u8, at: u16 },
    Longer { which: u8, more: Vec<u8> },
    MadeUp(Vec<u8>),
}

const ACCEPT: [&str; 6] = [
    "application/json, text/event-stream",
    "text/event-stream",
    "application/json",
    "*/*",
    "text/*;q=0,",
    "",
];
const CONTENT_TYPE: [&str; 5] = [
    "application/json",
    "Application/JSON ; charset=utf-8",
    "text/plain",
    "application/json, text/plain",
    "",
];
const VERSION: [&str; 6] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2026-07-28", "x"];
const ORIGIN: [&str; 6] = [
    "http://127.0.0.1:8080",
    "http://localhost:3000",
    "https://evil.example",
    "null",
    "http://[::1]:8080",
    "a b",
];
const HOST: [&str; 7] =
    [AUTHORITY, "localhost:8080", "evil.example", "[::1]:8080", "127.0.0.1:99999", "", "@"];
const KEY_NAMES: [&str; 2] = ["authorization", "x-api-key"];

// === impl Header ===

impl Header {
    pub(crate) fn add_to(&self, headers: &mut HeaderMap, memory: &Memory) {
        let one_of = |values: &[&'static str], which: u8| {
            values[usize::from(which) % values.len()].as_bytes().to_vec()
        };
        let ids = || {
            memory.sessions.iter().map(|session| session.id.as_bytes().to_vec()).collect::<Vec<_>>()
        };
        let (name, value) = match self {
            Self::SessionId(known) => ("mcp-session-id", known.value(&ids())),
            Self::LastEventId(known) => ("last-event-id", known.value(&memory.event_ids)),
            Self::Accept(which) => ("accept", one_of(&ACCEPT, *which)),
            Self::ContentType(which) => ("content-type", one_of(&CONTENT_TYPE, *which)),
            Self::Version(which) => ("mcp-protocol-version", one_of(&VERSION, *which)),
            Self::Origin(which) => ("origin", one_of(&ORIGIN, *which)),
            Self::Host(which) => ("host", one_of(&HOST, *which)),
            Self::Key { name, key } => {
                let key = KEYS.get(usize::from(*key) % 3).copied().unwrap_or("wrong");
                let scheme = if *key.as_bytes().first().unwrap_or(&0) % 2 == name % 2 {
                    "Bearer "
                } else {
                    ""
                };
                (KEY_NAMES[usize::from(*name) % 2], format!("{scheme}{key}").into_bytes())
            }
            Self::Any { name, value } => {
                let (Ok(name), Ok(value)) =
                    (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
                else {
                    return;
                };
                headers.append(name, value);
                return;
            }
        };
        let Ok(value) = HeaderValue::from_bytes(&value) else { return };
        // A second session id is worth a try, a second host too.
        if matches!(self, Self::SessionId(Known::MadeUp(_)) | Self::Host(6..)) {
            headers.append(name, value);
        } else {
            headers.insert(name, value);
        }
    }
}

// === impl Known ===

impl Known {
    fn value(&self, all: &[Vec<u8>]) -> Vec<u8> {
        let known = |which: u8| pick(all, which).cloned().unwrap_or_default();
        match self {
            Self::Whole(which) => known(*which),
            Self::Changed { which, at, by } => {
                let mut value = known(*which);
                let length = value.len().max(1);
                if let Some(byte) = value.get_mut(usize::from(*at) % length) {
                    *byte ^= by;
                }
                value
            }
            Self::Cut { which, at } => {
                let mut value = known(*which);
                value.truncate(usize::from(*at));
                value
            }
            Self::Longer { which, more } => [known(*which), more.clone()].concat(),
            Self::MadeUp(value) => value.clone(),
        }
    }
}
