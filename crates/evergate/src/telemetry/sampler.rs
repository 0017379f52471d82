//! Which traces are recorded: OpenTelemetry's own rules, by their own names.

use super::trace_context::{TraceId, TraceParent};

/// By what `OTEL_TRACES_SAMPLER` calls it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    /// Whoever began the trace decides.
    parent_based: bool,
    /// Which part of the others.
    part: f64,
}

/// Nobody knows it.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("OTEL_TRACES_SAMPLER or its argument is not known")]
pub(crate) struct UnknownSampler;

// === impl Sampler ===

impl Sampler {
    /// Of traces that begin here this part, of others what their beginner says.
    pub(super) fn of_roots(part: f64) -> Self {
        Self { parent_based: true, part }
    }

    pub(super) fn parse(name: &str, argument: Option<&str>) -> Result<Self, UnknownSampler> {
        let (parent_based, rest) = match name.strip_prefix("parentbased_") {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let part = match rest {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => match argument.map(str::parse) {
                None => 1.0,
                Some(Ok(part)) if (0.0..=1.0).contains(&part) => part,
                Some(_) => return Err(UnknownSampler),
            },
            _ => return Err(UnknownSampler),
        };
        Ok(Self { parent_based, part })
    }

    pub(super) fn takes(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool {
        match parent.filter(|_| self.parent_based) {
            Some(parent) => parent.is_sampled(),
            None => self.is_in(trace),
        }
    }

    /// Decided by the trace's own id, so that everybody decides alike.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of all traces need not be exact"
    )]
    fn is_in(&self, trace: TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace.0;
        let random = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        random < (self.part * (1_u64 << 63) as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::trace_context::SpanId;

    #[test]
    fn the_sampler_is_known_by_its_name() {
        let parse = |name, argument| Sampler::parse(name, argument);
        assert_eq!(parse("parentbased_always_on", None).unwrap(), Sampler::of_roots(1.0));
        assert_eq!(
            parse("parentbased_traceidratio", Some("0.25")).unwrap(),
            Sampler::of_roots(0.25)
        );
        for (name, argument) in [
            ("", None),
            ("jaeger_remote", None),
            ("traceidratio", Some("2")),
            ("traceidratio", Some("x")),
        ] {
            assert_eq!(parse(name, argument), Err(UnknownSampler), "{name}");
        }
    }

    #[test]
    fn whoever_began_a_trace_decides_and_else_its_id_does() {
        let trace = |byte| TraceId([byte; 16]);
        let parent = |flags| TraceParent { trace: trace(1), span: SpanId([1; 8]), flags };
        let half = Sampler::of_roots(0.5);
        assert!(half.takes(trace(0x01), None) && !half.takes(trace(0xfe), None));
        assert!(
            half.takes(trace(0xfe), Some(&parent(1))) && !half.takes(trace(1), Some(&parent(0)))
        );
        let always = Sampler::parse("always_on", None).unwrap();
        assert!(always.takes(trace(0xff), Some(&parent(0))));
        let never = Sampler::parse("always_off", None).unwrap();
        assert!(!never.takes(trace(1), Some(&parent(1))));
    }
}
