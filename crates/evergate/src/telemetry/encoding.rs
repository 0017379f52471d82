//! OTLP's `ExportTraceServiceRequest` in the binary form of Protocol Buffers.
//!
//! Written by hand because it is only written, never read, and needs four of the format's constructions: the usual crates
//! would bring seventeen others along. The numbers are those of `opentelemetry/proto/trace/v1/trace.proto`, which are
//! promised never to change; `crates/evergate-peers` has the official package read what this writes.

use std::time::SystemTime;

use super::span::{Event, Span, Value};
use super::trace_context::TraceParent;

/// A message that is being written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

/// How a value is written, in the low bits of its key.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// OTLP's `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

/// The whole request: who says it, and what.
pub(super) fn request(resource: &[(String, Value)], spans: &[Span]) -> Vec<u8> {
    let mut scope = Message::default();
    scope.text(1, "evergate");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    let mut scope_spans = Message::default();
    scope_spans.message(1, &scope);
    for span in spans {
        scope_spans.message(2, &span_message(span));
    }
    let mut about = Message::default();
    for (name, value) in resource {
        about.message(1, &attribute(name, value));
    }
    let mut resource_spans = Message::default();
    resource_spans.message(1, &about);
    resource_spans.message(2, &scope_spans);
    let mut request = Message::default();
    request.message(1, &resource_spans);
    request.0
}

fn span_message(span: &Span) -> Message {
    let mut message = Message::default();
    message.bytes(1, &span.trace.0);
    message.bytes(2, &span.id.0);
    message.text(3, span.state.as_deref().unwrap_or_default());
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.0);
    }
    message.text(5, &span.name);
    message.number(6, span.kind as u64);
    message.fixed64(7, nanos(span.began));
    message.fixed64(8, nanos(span.ended));
    for (name, value) in &span.attributes {
        message.message(9, &attribute(name, value));
    }
    for event in &span.events {
        message.message(11, &event_message(event));
    }
    for link in &span.links {
        message.message(13, &link_message(link));
    }
    if let Some(error) = &span.error {
        let mut status = Message::default();
        status.text(2, error);
        status.number(3, ERROR);
        message.message(15, &status);
    }
    // It was recorded, so it is sampled.
    message.fixed32(16, 1);
    message
}

fn event_message(event: &Event) -> Message {
    let mut message = Message::default();
    message.fixed64(1, nanos(event.at));
    message.text(2, event.name);
    for (name, value) in &event.attributes {
        message.message(3, &attribute(name, value));
    }
    message
}

fn link_message(link: &TraceParent) -> Message {
    let mut message = Message::default();
    message.bytes(1, &link.trace.0);
    message.bytes(2, &link.span.0);
    message.fixed32(6, u32::from(link.is_sampled()));
    message
}

fn attribute(name: &str, value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        // Which of them it is must be said even if it is empty.
        Value::Text(text) => any.bytes(1, text.as_bytes()),
        Value::Flag(flag) => any.varint_field(2, u64::from(*flag)),
        Value::Number(number) => any.varint_field(3, number.cast_unsigned()),
    }
    let mut message = Message::default();
    message.text(1, name);
    message.message(2, &any);
    message
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

// === impl Message ===

impl Message {
    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    fn varint_field(&mut self, field: u64, number: u64) {
        self.key(field, VARINT);
        self.varint(number);
    }

    /// What is zero need not be said.
    fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.varint_field(field, number);
        }
    }

    fn fixed64(&mut self, field: u64, number: u64) {
        self.key(field, FIXED64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, number: u32) {
        self.key(field, FIXED32);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::span::Kind;
    use crate::telemetry::trace_context::{SpanId, TraceId};

    /// As the official Python package (opentelemetry-proto 1.45) writes the same.
    #[test]
    fn numbers_are_written_in_the_usual_way() {
        let mut message = Message::default();
        message.number(1, 0);
        message.number(1, 1);
        message.number(2, 300);
        message.varint_field(3, (-1_i64).cast_unsigned());
        message.text(16, "x");
        let mut expected = vec![0x08, 1, 0x10, 0xac, 0x02, 0x18];
        expected.extend([0xff; 9]);
        expected.extend([0x01, 0x82, 0x01, 1, b'x']);
        assert_eq!(message.0, expected);
    }

    #[test]
    fn a_span_is_written_with_its_fields_in_their_places() {
        let time = |nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        let span = Span {
            trace: TraceId([1; 16]),
            id: SpanId([2; 8]),
            parent: None,
            state: None,
            name: "n".into(),
            kind: Kind::Server,
            began: time(1),
            ended: time(2),
            attributes: vec![("a", Value::from(true))],
            events: Vec::new(),
            links: Vec::new(),
            error: Some("e".into()),
        };
        let mut expected = vec![0x0a, 16];
        expected.extend([1; 16]);
        expected.extend([0x12, 8]);
        expected.extend([2; 8]);
        expected.extend([0x2a, 1, b'n', 0x30, 2]);
        expected.extend([0x39, 1, 0, 0, 0, 0, 0, 0, 0, 0x41, 2, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0x4a, 7, 0x0a, 1, b'a', 0x12, 2, 0x10, 1]);
        expected.extend([0x7a, 5, 0x12, 1, b'e', 0x18, 2, 0x85, 0x01, 1, 0, 0, 0]);
        assert_eq!(span_message(&span).0, expected);
    }
}
