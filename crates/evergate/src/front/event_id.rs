//! The ids of events, so that a client can say where it stopped reading.
//!
//! The id of an event of a call carries the call's own id: should the gateway have been restarted meanwhile, it can
//! still tell the client, at once, that the answer to that call will never come.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evergate_runtime::RawJson;

/// Which stream, and which of its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: StreamId,
    /// The number of the next message to read.
    pub(super) next: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamId {
    /// What the gateway says unasked. The number tells one run of the process from another.
    Listening { run: u64 },
    /// The answer to one request, and what leads up to it.
    Call { number: u64, request: RawJson },
}

// === impl EventId ===

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (kind, number, next) = (parts.next()?, parts.next()?, parts.next()?);
        let number = u64::from_str_radix(number, 16).ok()?;
        let next = next.parse().ok()?;
        let stream = match (kind, parts.next()) {
            ("l", None) => StreamId::Listening { run: number },
            ("c", Some(request)) => {
                let request = URL_SAFE_NO_PAD.decode(request).ok()?;
                StreamId::Call { number, request: RawJson::from_text(request).ok()? }
            }
            _ => return None,
        };
        parts.next().is_none().then_some(Self { stream, next })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.stream {
            StreamId::Listening { run } => write!(f, "l.{run:x}.{}", self.next),
            StreamId::Call { number, request } => {
                let request = URL_SAFE_NO_PAD.encode(request.as_bytes());
                write!(f, "c.{number:x}.{}.{request}", self.next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written() {
        let request = RawJson::from_text(r#""a.b-ü""#).unwrap();
        for stream in [StreamId::Listening { run: 0xfeed }, StreamId::Call { number: 7, request }] {
            let id = EventId { stream, next: 12 };
            assert_eq!(EventId::parse(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn other_ids_are_not_ours() {
        for text in
            ["", "l", "l.1", "l.x.1", "l.1.-1", "l.1.1.1", "c.1.1", "c.1.1.!", "c.1.1.MQ.x", "1_2"]
        {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
