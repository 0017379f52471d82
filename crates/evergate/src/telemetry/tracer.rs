//! Makes spans of what happened. Names of attributes are those of OpenTelemetry's conventions for MCP where there are some
//! (<https://github.com/open-telemetry/semantic-conventions-genai>), and begin with `evergate.` where there are none.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use evergate_runtime::{AttemptEnd, Dialed, Generation, HubEvent, Reason};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::sampler::Sampler;
use super::span::{Begun, Kind, Span, Value};
use super::trace_context::{SAMPLED, SpanId, TraceContext, TraceId, TraceParent};
use super::{About, CallTrace, Sending};
use crate::admin::model::CallOutcome;
use crate::gateway::Gateway;
use crate::observed::CallRecord;

/// Hands spans to the exporter. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tracer {
    pub(super) queue: mpsc::Sender<Span>,
    /// Spans that did not fit.
    pub(super) lost: Arc<AtomicU64>,
    pub(super) sampler: Sampler,
    /// Tells the handshakes of this process from those of others.
    pub(super) seed: u64,
}

/// A wait that is shorter is none.
const WORTH_A_SPAN: Duration = Duration::from_millis(1);
/// Names are for grouping; whoever invents methods as long as this does not want to be grouped.
const LONGEST_NAME: usize = 200;

// === impl Tracer ===

impl Tracer {
    /// Where a call stands: what the message says comes before what the HTTP request says, which may carry several.
    pub(super) fn begin(
        &self,
        in_meta: Option<TraceContext>,
        in_headers: Option<TraceContext>,
        about: About<'_>,
    ) -> CallTrace {
        let link = in_meta.as_ref().and(in_headers.as_ref()).map(|headers| headers.parent);
        let is_in_meta = in_meta.is_some();
        let context = in_meta.or(in_headers);
        let parent = context.as_ref().map(|context| context.parent);
        let trace = parent.map_or_else(new_trace, |parent| parent.trace);
        let sampled = self.sampler.takes(trace, parent.as_ref());
        match context {
            // Nobody here records it: it passes as it came.
            Some(context) if !sampled => CallTrace { context, is_in_meta, span: None },
            context => {
                let flags = if sampled { SAMPLED } else { 0 };
                let place = TraceParent { trace, span: new_span(), flags };
                let link = link.filter(|link| Some(link.span) != parent.map(|parent| parent.span));
                let next = TraceContext::at(place, context.as_ref());
                let span = sampled.then(|| Begun {
                    place,
                    parent: parent.map(|parent| parent.span),
                    state: next.tracestate.clone(),
                    link,
                    protocol: about.protocol.to_owned(),
                    has_session: about.has_session,
                    is_shared: about.is_shared,
                });
                CallTrace { context: next, is_in_meta: false, span }
            }
        }
    }

    /// A call, what it waited for, and its being sent again.
    pub(super) fn call_ended(&self, begun: &Begun, record: &CallRecord, sending: Sending) {
        let Begun { place, is_shared, .. } = *begun;
        let failure = failure(record, sending.tool_failed);
        let end = record.at + record.duration;
        let generation = record.generation.map(Generation::get);
        if let Some(from) = sending.last_waited.filter(|_| record.waited >= WORTH_A_SPAN) {
            // Until it was sent, or to its end if it never was after that.
            let to = sending.last_sent.filter(|sent| *sent >= from).unwrap_or(record.duration);
            let mut span =
                child(&place, "wait", Kind::Internal, (record.at + from, record.at + to));
            span.attributes.push(("evergate.server", text(&record.server)));
            if let (Some(generation), true) = (generation, is_shared) {
                span.links.push(self.handshake(&record.server, generation));
            }
            self.add(span);
        }
        if let Some(sent) = sending.last_sent.filter(|_| record.resent) {
            let mut span = child(&place, "resend", Kind::Client, (record.at + sent, end));
            span.attributes.push(("evergate.server", text(&record.server)));
            span.attributes.extend(generation.map(|number| ("evergate.generation", number.into())));
            self.add(span);
        }
        self.add(Span {
            trace: place.trace,
            id: place.span,
            parent: begun.parent,
            state: begun.state.clone(),
            name: name(record),
            kind: Kind::Server,
            began: record.at,
            ended: end,
            attributes: attributes(record, begun, failure.clone()),
            events: Vec::new(),
            links: begun.link.into_iter().collect(),
            error: failure.map(|_| {
                let message = record.error.clone().map(Cow::Owned);
                message.unwrap_or(Cow::Borrowed("the tool says that it failed"))
            }),
        });
    }

    /// An attempt to connect: no call is its parent, but those that waited for it are linked to it.
    fn dialed(&self, dialed: &Dialed) {
        let failure = match dialed.end {
            AttemptEnd::Ok => None,
            // Called off by ourselves.
            AttemptEnd::Aborted => return,
            end => Some(dialed.reason.map_or(end.as_str(), Reason::as_str)),
        };
        let place = self.handshake(&dialed.server, dialed.generation.get());
        if !self.sampler.takes(place.trace, None) {
            return;
        }
        let mut attributes = vec![
            ("evergate.server", text(&dialed.server)),
            ("evergate.generation", dialed.generation.get().into()),
        ];
        let protocol = dialed.protocol.map(|version| version.as_str().to_owned());
        attributes.extend(protocol.map(|version| ("mcp.protocol.version", version.into())));
        attributes.extend(dialed.transport.map(|name| ("evergate.transport", name.into())));
        attributes.extend(failure.map(|name| ("error.type", name.into())));
        self.add(Span {
            trace: place.trace,
            id: place.span,
            parent: None,
            state: None,
            name: "handshake".into(),
            kind: Kind::Client,
            began: dialed.began,
            ended: dialed.began + dialed.took,
            attributes,
            events: Vec::new(),
            links: Vec::new(),
            error: dialed.error.clone().map(Cow::Owned),
        });
    }

    /// The place of a handshake, so that whoever waited for it can name it.
    fn handshake(&self, server: &str, generation: u64) -> TraceParent {
        let number = |salt: u64| {
            let mut hash = DefaultHasher::new();
            (self.seed, server, generation, salt).hash(&mut hash);
            // Ids are not zero.
            hash.finish().max(1)
        };
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&number(0).to_be_bytes());
        trace[8..].copy_from_slice(&number(1).to_be_bytes());
        let span = SpanId(number(2).to_be_bytes());
        TraceParent { trace: TraceId(trace), span, flags: SAMPLED }
    }

    fn add(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes spans of handshakes with shared servers, until the gateway drains.
pub(crate) async fn follow(gateway: Arc<Gateway>, tracer: Tracer, mut events: Receiver<HubEvent>) {
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = gateway.draining.begun() => return,
        };
        match event {
            Ok(HubEvent::Dialed(dialed)) => tracer.dialed(&dialed),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn name(record: &CallRecord) -> Cow<'static, str> {
    let mut name = match &record.tool {
        Some(tool) => format!("{} {tool}", record.method),
        None => record.method.to_string(),
    };
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    name.into()
}

fn attributes(
    record: &CallRecord,
    begun: &Begun,
    failure: Option<Cow<'static, str>>,
) -> Vec<(&'static str, Value)> {
    let mut attributes = vec![
        ("mcp.method.name", Value::Text(record.method.clone())),
        ("evergate.server", text(&record.server)),
        ("evergate.outcome", record.outcome.as_str().into()),
        ("evergate.client", text(&record.client)),
        ("evergate.resent", record.resent.into()),
    ];
    if let Some(tool) = &record.tool {
        attributes.push(("gen_ai.operation.name", "execute_tool".into()));
        attributes.push(("gen_ai.tool.name", text(tool)));
    } else if record.method == "prompts/get" {
        let name = record.name.clone();
        attributes.extend(name.map(|name| ("gen_ai.prompt.name", name.into())));
    }
    attributes.push(("mcp.protocol.version", text(&begun.protocol)));
    let era = if begun.has_session { "session" } else { "stateless" };
    attributes.push(("evergate.era", era.into()));
    let key = record.caller.name().map(str::to_owned);
    attributes.extend(key.map(|name| ("evergate.key", name.into())));
    let generation = record.generation.map(Generation::get);
    attributes.extend(generation.map(|number| ("evergate.generation", number.into())));
    if let Some(code) = record.error_code {
        attributes.push(("rpc.response.status_code", code.to_string().into()));
    }
    attributes.extend(failure.map(|kind| ("error.type", Value::Text(kind))));
    attributes
}

/// What a failed call failed of. One that its caller gave up did not fail.
fn failure(record: &CallRecord, tool_failed: bool) -> Option<Cow<'static, str>> {
    match (record.outcome, record.error_code) {
        (CallOutcome::Answered, Some(code)) => Some(code.to_string().into()),
        (CallOutcome::Answered, None) if tool_failed => Some("tool_error".into()),
        (CallOutcome::Answered, None) | (CallOutcome::Cancelled, _) => None,
        (outcome, _) => Some(outcome.as_str().into()),
    }
}

fn child(
    of: &TraceParent,
    name: &'static str,
    kind: Kind,
    (began, ended): (SystemTime, SystemTime),
) -> Span {
    Span {
        trace: of.trace,
        id: new_span(),
        parent: Some(of.span),
        state: None,
        name: name.into(),
        kind,
        began,
        ended,
        attributes: Vec::new(),
        events: Vec::new(),
        links: Vec::new(),
        error: None,
    }
}

fn text(text: &str) -> Value {
    text.to_owned().into()
}

/// Ids are not zero.
fn new_trace() -> TraceId {
    TraceId(fastrand::u128(1..).to_be_bytes())
}

fn new_span() -> SpanId {
    SpanId(fastrand::u64(1..).to_be_bytes())
}
