//! A span: something that took time, and what is known of it.

use std::borrow::Cow;
use std::time::SystemTime;

use super::trace_context::{SpanId, TraceId, TraceParent};

/// A span of a call that is under way.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) place: TraceParent,
    pub(super) parent: Option<SpanId>,
    pub(super) state: Option<Box<str>>,
    /// Where the HTTP request stood, if that was somewhere else.
    pub(super) link: Option<TraceParent>,
    pub(super) protocol: String,
    pub(super) has_session: bool,
    pub(super) is_shared: bool,
}

/// A span that is over.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) state: Option<Box<str>>,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    pub(super) began: SystemTime,
    pub(super) ended: SystemTime,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) events: Vec<Event>,
    pub(super) links: Vec<TraceParent>,
    /// Why it failed.
    pub(super) error: Option<Cow<'static, str>>,
}

/// Whose side it is on, by OTLP's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) at: SystemTime,
    pub(super) name: &'static str,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(Cow<'static, str>),
    Number(i64),
    Flag(bool),
}

// === impl Value ===

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}
