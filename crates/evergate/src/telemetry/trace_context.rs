//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>) and Baggage, as text: what is taken from clients, and what is
//! passed on. Whatever does not follow the rules is ignored, as the rules ask for.

use std::fmt;

/// 16 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TraceId(pub(super) [u8; 16]);

/// 8 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SpanId(pub(super) [u8; 8]);

/// A place in a trace: what `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(super) flags: u8,
}

/// Where a request stands, in the words of whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) parent: TraceParent,
    /// As it was sent: a later version may say more than we read.
    pub(super) traceparent: Box<str>,
    pub(super) tracestate: Option<Box<str>>,
    pub(super) baggage: Option<Box<str>>,
}

/// A request with this flag is recorded by whoever made it.
pub(super) const SAMPLED: u8 = 1;

/// The names, in headers and in `_meta` alike.
pub(super) const TRACEPARENT: &str = "traceparent";
pub(super) const TRACESTATE: &str = "tracestate";
pub(super) const BAGGAGE: &str = "baggage";

/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const LENGTH: usize = 55;
/// Later versions may be longer, but what says nothing about itself for so long is not one.
const LONGEST: usize = 256;
/// "Vendors SHOULD propagate at least 512 characters of a combined header."
const LONGEST_STATE: usize = 512;
/// "There can be a maximum of 32 list-members in a list."
const MOST_STATES: usize = 32;
/// A baggage of up to 8192 bytes and 64 members "MUST" be passed on; a larger one need not be.
const LONGEST_BAGGAGE: usize = 8192;
const MOST_BAGS: usize = 64;

// === impl TraceContext ===

impl TraceContext {
    /// What the three texts say together. Without a place in a trace the others mean nothing.
    pub(super) fn read(
        traceparent: &str,
        tracestate: Option<&str>,
        baggage: Option<&str>,
    ) -> Option<Self> {
        let traceparent = traceparent.trim_matches([' ', '\t']);
        let parent = TraceParent::parse(traceparent)?;
        let kept = |text: Option<&str>, is_fine: fn(&str) -> bool| {
            text.filter(|text| !text.is_empty() && is_fine(text)).map(Box::from)
        };
        Some(Self {
            parent,
            traceparent: traceparent.into(),
            tracestate: kept(tracestate, is_tracestate),
            baggage: kept(baggage, is_baggage),
        })
    }

    /// The same trace, one step further.
    #[cfg(feature = "otel")]
    pub(super) fn at(parent: TraceParent, before: Option<&Self>) -> Self {
        Self {
            parent,
            traceparent: parent.to_string().into(),
            tracestate: before.and_then(|before| before.tracestate.clone()),
            baggage: before.and_then(|before| before.baggage.clone()),
        }
    }

    /// Names and texts, as they are sent.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let rest = [(TRACESTATE, &self.tracestate), (BAGGAGE, &self.baggage)];
        let rest = rest.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        std::iter::once((TRACEPARENT, &*self.traceparent)).chain(rest)
    }
}

// === impl TraceParent ===

impl TraceParent {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if !(LENGTH..=LONGEST).contains(&bytes.len()) {
            return None;
        }
        let [version] = digits(&bytes[..2])?;
        let fits = match version {
            0 => bytes.len() == LENGTH,
            0xff => false,
            // "The version is higher than supported": more may follow, after a dash.
            _ => bytes.get(LENGTH).is_none_or(|next| *next == b'-'),
        };
        if !fits || [2, 35, 52].iter().any(|at| bytes[*at] != b'-') {
            return None;
        }
        let (trace, span) = (digits(&bytes[3..35])?, digits(&bytes[36..52])?);
        let [flags] = digits(&bytes[53..55])?;
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace: TraceId(trace), span: SpanId(span), flags })
    }

    #[cfg(any(test, feature = "otel"))]
    pub(crate) fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // "Set all other bits to zero": what they mean nobody knows in this version.
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags & SAMPLED)
    }
}

// === impl TraceId, SpanId ===

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Small hexadecimal digits: "uppercase characters are not allowed".
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn is_tracestate(text: &str) -> bool {
    let is_key = |key: &str| {
        let fits =
            |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
        let first = key.bytes().next();
        first.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            && key.len() <= 256
            && key.bytes().all(fits)
    };
    let is_value = |value: &str| {
        let fits = |c: u8| matches!(c, b' '..=b'~') && c != b',' && c != b'=';
        !value.is_empty() && value.len() <= 256 && value.bytes().all(fits)
    };
    let mut members = members(text);
    text.len() <= LONGEST_STATE
        && members.clone().count() <= MOST_STATES
        && members.all(|member| {
            member.split_once('=').is_some_and(|(key, value)| is_key(key) && is_value(value))
        })
}

fn is_baggage(text: &str) -> bool {
    let is_key = |key: &str| {
        let fits = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        !key.is_empty() && key.bytes().all(fits)
    };
    let is_value = |value: &str| value.bytes().all(|c| matches!(c, b' '..=b'~' | b'\t'));
    let mut members = members(text);
    text.len() <= LONGEST_BAGGAGE
        && members.clone().count() <= MOST_BAGS
        && members.all(|member| {
            member.split_once('=').is_some_and(|(key, value)| {
                is_key(key.trim_matches([' ', '\t'])) && is_value(value)
            })
        })
}

/// The members of a list; empty ones are allowed and say nothing.
fn members(text: &str) -> impl Iterator<Item = &str> + Clone {
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
    members.filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FINE: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn a_place_in_a_trace_is_read_and_written_alike() {
        let parent = TraceParent::parse(FINE).unwrap();
        assert!(parent.is_sampled());
        assert_eq!(parent.to_string(), FINE);
        assert_eq!(parent.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        // Flags that this version does not know are not passed on as if it did.
        let flags = TraceParent::parse(&FINE.replace("-01", "-fe")).unwrap();
        assert_eq!(flags.to_string(), FINE.replace("-01", "-00"));
        // Of a later version as much is read as this one knows.
        let later = FINE.replacen("00", "cc", 1) + "-what-the-future-brings";
        let context = TraceContext::read(&later, None, None).unwrap();
        assert_eq!(context.parent.to_string(), FINE);
        assert_eq!(context.fields().collect::<Vec<_>>(), [("traceparent", &*later)]);
    }

    #[test]
    fn what_does_not_follow_the_rules_is_ignored() {
        let zeros = "0".repeat(32);
        for bad in [
            "",
            "00",
            &FINE.to_uppercase(),
            &FINE[..54],
            &format!("{FINE}-"),
            &format!("{FINE}0"),
            &FINE.replacen("00", "ff", 1),
            &FINE.replace("0af7651916cd43dd8448eb211c80319c", &zeros),
            &FINE.replace("00f067aa0ba902b7", &zeros[..16]),
            &FINE.replace('-', "_"),
            &FINE.replace("01", "0g"),
            &(FINE.replacen("00", "01", 1) + "x"),
            &(FINE.replacen("00", "01", 1) + "-" + &"x".repeat(1 << 20)),
            "00-ääääääääääääääää-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-0ü",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_bad_tracestate_or_baggage_is_left_out() {
        let read = |state: &str, baggage: &str| {
            let context = TraceContext::read(FINE, Some(state), Some(baggage)).unwrap();
            (context.tracestate.is_some(), context.baggage.is_some())
        };
        assert_eq!(
            read("rojo=00f067aa0ba902b7, congo=t61 \"x\\,,", "userId=alice;p=1, b = 2"),
            (true, true)
        );
        assert_eq!(read("1tenant@vendor=x", "a="), (true, true));
        assert_eq!(read("", ""), (false, false));
        assert_eq!(read("Upper=1", "no value"), (false, false));
        assert_eq!(read("a=b=c", "sp ace=1"), (false, false));
        assert_eq!(read("a=\u{7f}", "a=\r\nx: y"), (false, false));
        assert_eq!(
            read(&format!("a={}", "x".repeat(512)), &format!("a={}", "x".repeat(8192))),
            (false, false)
        );
        assert_eq!(read(&"a=b,".repeat(33), &"a=b,".repeat(65)), (false, false));
        assert_eq!(TraceContext::read("junk", Some("a=b"), Some("a=b")), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic_and_what_is_taken_can_be_sent(text in ".{0,80}", state in ".{0,80}") {
            if let Some(context) = TraceContext::read(&text, Some(&state), Some(&state)) {
                for (_, text) in context.fields() {
                    prop_assert!(http::HeaderValue::from_str(text).is_ok());
                }
            }
        }

        #[test]
        fn every_place_survives_its_text(trace in any::<[u8; 16]>(), span in any::<[u8; 8]>(), flags in 0_u8..2) {
            let parent = TraceParent { trace: TraceId(trace), span: SpanId(span), flags };
            let back = TraceParent::parse(&parent.to_string());
            let valid = trace != [0; 16] && span != [0; 8];
            prop_assert_eq!(back, valid.then_some(parent));
        }
    }
}
