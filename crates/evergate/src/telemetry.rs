//! Where calls stand in traces that span more than this process, and what is recorded of them.
//!
//! A client says where its call stands by `traceparent`, in `_meta` (SEP-414) or in a header; it is passed on in both ways.
//! That costs a call that says nothing one look at its headers. If traces are sent somewhere (`gateway.otlp`), the call is
//! a span, and what is passed on is that span's place. Spans are made when a call is over, from what is known of it by then:
//! see `docs/decisions/0011`.

mod carriers;
#[cfg(feature = "otel")]
mod encoding;
#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod sampler;
#[cfg(feature = "otel")]
mod settings;
#[cfg(feature = "otel")]
mod span;
mod trace_context;
#[cfg(feature = "otel")]
mod tracer;

#[cfg(feature = "otel")]
use std::sync::OnceLock;
use std::time::Duration;

use evergate_runtime::{RawJson, wire};
use http::HeaderMap;

pub(crate) use carriers::{carries, from_meta, is_in};
#[cfg(feature = "otel")]
pub(crate) use exporter::Exporter;
#[cfg(feature = "otel")]
pub(crate) use settings::Settings;
pub(crate) use trace_context::{TraceContext, TraceId};
#[cfg(feature = "otel")]
pub(crate) use tracer::{Tracer, follow};

use crate::observed::CallRecord;

#[cfg(feature = "otel")]
use span::Begun;
/// There is none.
#[cfg(not(feature = "otel"))]
type Begun = std::convert::Infallible;

/// What calls see of it.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    tracer: OnceLock<Tracer>,
}

/// A call's place in a trace.
#[derive(Debug)]
pub(crate) struct CallTrace {
    /// What its server is told.
    context: TraceContext,
    /// `_meta` says just that already.
    is_in_meta: bool,
    span: Option<Begun>,
}

/// What a span says of a call besides what is recorded of it anyway.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nobody records it"))]
pub(crate) struct About<'a> {
    /// The revision that the client speaks.
    pub(crate) protocol: &'a str,
    pub(crate) has_session: bool,
    /// Its server is everybody's.
    pub(crate) is_shared: bool,
}

/// What became of a call on its way.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nobody records it"))]
pub(crate) struct Sending {
    /// How long after its beginning it was sent last.
    pub(crate) last_sent: Option<Duration>,
    /// How long after its beginning it began to wait the last time.
    pub(crate) last_waited: Option<Duration>,
    /// Its result says that the tool failed.
    pub(crate) tool_failed: bool,
}

/// Whether the result of a tool says that it failed.
pub(crate) fn says_it_failed(result: &RawJson) -> bool {
    let Ok(text) = std::str::from_utf8(result.as_bytes()) else { return false };
    let mut failed = false;
    // What cannot be read for certain says nothing.
    let read = wire::object_fields(text, |name, place| {
        failed |= name == "isError" && &text[place] == "true";
    });
    read.is_some() && failed
}

// === impl Telemetry ===

impl Telemetry {
    /// From now on spans are recorded.
    #[cfg(feature = "otel")]
    pub(crate) fn record_with(&self, tracer: Tracer) {
        // It is started once.
        let _ = self.tracer.set(tracer);
    }

    /// Where a call stands by what it says itself, in `_meta` or else in headers. `None` if it says nothing and nothing is
    /// recorded.
    #[cfg_attr(not(feature = "otel"), expect(clippy::unused_self, reason = "nobody records it"))]
    pub(crate) fn begin(
        &self,
        in_meta: Option<TraceContext>,
        headers: Option<&HeaderMap>,
        about: About<'_>,
    ) -> Option<Box<CallTrace>> {
        let in_headers = headers.and_then(carriers::from_headers);
        #[cfg(feature = "otel")]
        if let Some(tracer) = self.tracer.get() {
            return Some(Box::new(tracer.begin(in_meta, in_headers, about)));
        }
        let _ = about;
        let is_in_meta = in_meta.is_some();
        let context = in_meta.or(in_headers)?;
        Some(Box::new(CallTrace { context, is_in_meta, span: None }))
    }

    /// A call is over.
    #[cfg(feature = "otel")]
    pub(crate) fn call_ended(&self, trace: CallTrace, record: &CallRecord, sending: Sending) {
        if let (Some(tracer), Some(span)) = (self.tracer.get(), trace.span) {
            tracer.call_ended(&span, record, sending);
        }
    }

    /// A call is over, and nobody records it.
    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn call_ended(&self, _: CallTrace, _: &CallRecord, _: Sending) {}
}

// === impl CallTrace ===

impl CallTrace {
    pub(crate) fn id(&self) -> TraceId {
        self.context.parent.trace
    }

    /// Whether a span is made of it: then it is worth looking at what came of it.
    pub(crate) fn is_recorded(&self) -> bool {
        self.span.is_some()
    }

    /// The params of its request as the server is to get them.
    pub(crate) fn params(&self, params: Option<RawJson>) -> Option<RawJson> {
        if self.is_in_meta {
            return params;
        }
        carriers::into_params(&self.context, params.as_ref()).or(params)
    }

    /// Adds what the server is to get as headers.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        carriers::into_headers(&self.context, headers);
    }
}
