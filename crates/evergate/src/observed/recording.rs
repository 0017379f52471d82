//! Keeps account of one call, whichever way it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evergate_runtime::{
    CallError, CallFailure, Generation, Own, PerThread, RawJson, Report, moment,
};
use tokio::time::Instant;

use super::brief::shortened;
use super::{CallRecord, Observed};
use crate::admin::model::CallOutcome;
use crate::front::keys::Caller;
use crate::telemetry::{self, CallTrace, Sending};

/// Of an error, so much.
const LONGEST_ERROR: usize = 1000;

/// What is known of a call before it is made. All of it stays for a while: see [`brief`](super::brief).
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) client: Arc<str>,
    pub(crate) caller: Caller,
    pub(crate) server: Arc<str>,
    pub(crate) method: Cow<'static, str>,
    pub(crate) tool: Option<Arc<str>>,
    pub(crate) request_bytes: usize,
    pub(crate) params: Option<RawJson>,
    /// Tells sessions apart.
    pub(crate) session: Option<[u8; 4]>,
    /// Of a prompt or a resource.
    pub(crate) name: Option<String>,
    pub(crate) trace: Option<Box<CallTrace>>,
    /// How many calls are remembered.
    pub(crate) keep: usize,
}

/// A call under way. Dropped before its end it was given up by its caller.
#[derive(Debug)]
pub(crate) struct Recording {
    observed: Own<Observed>,
    /// Taken at its end.
    beginning: Option<Beginning>,
    at: SystemTime,
    started: Instant,
    /// How long it waited, and where it was.
    pub(crate) report: Report,
    result_bytes: usize,
    /// Since when its result is passed on piece by piece.
    streaming_since: Option<Instant>,
    tool_failed: bool,
}

// === impl Recording ===

impl Recording {
    pub(crate) fn begin(observed: &PerThread<Observed>, beginning: Beginning) -> Self {
        Self {
            observed: observed.own().clone(),
            beginning: Some(beginning),
            at: SystemTime::now(),
            started: moment::now(),
            report: Report::default(),
            result_bytes: 0,
            streaming_since: None,
            tool_failed: false,
        }
    }

    /// How long it has taken so far.
    pub(crate) fn duration(&self) -> Duration {
        moment::now().saturating_duration_since(self.started)
    }

    /// From now on it is its server and its caller that take their time.
    pub(crate) fn streams(&mut self) {
        self.streaming_since = Some(Instant::now());
    }

    /// So much of its result came.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.result_bytes += bytes;
    }

    /// What its result is; looked at only if that is recorded.
    pub(crate) fn look_at(&mut self, result: &RawJson) {
        let trace = self.beginning.as_ref().and_then(|call| call.trace.as_ref());
        if trace.is_some_and(|trace| trace.is_recorded()) {
            self.tool_failed = telemetry::says_it_failed(result);
        }
    }

    /// It brought its result.
    pub(crate) fn answered(mut self) {
        self.end(CallOutcome::Answered, None, None);
    }

    /// It brought none.
    pub(crate) fn failed(&mut self, error: &CallError) {
        let text = shortened(&error.chain(), LONGEST_ERROR);
        let code = match &error.source {
            CallFailure::Rpc(error) => Some(error.code),
            _ => None,
        };
        self.end(CallOutcome::of(error), Some(text), code);
    }

    fn end(&mut self, outcome: CallOutcome, error: Option<String>, error_code: Option<i64>) {
        let Some(call) = self.beginning.take() else { return };
        let Report { generation, waited, upstream, resends, last_sent, last_waited, .. } =
            self.report;
        let streaming = self.streaming_since.map(|since| since.elapsed()).unwrap_or_default();
        let record = CallRecord {
            at: self.at,
            client: call.client,
            caller: call.caller,
            server: call.server,
            method: call.method,
            tool: call.tool,
            outcome,
            error,
            duration: self.duration(),
            waited,
            upstream: upstream + streaming,
            generation,
            resent: resends > 0,
            request_bytes: call.request_bytes,
            result_bytes: self.result_bytes,
            params: call.params,
            session: call.session,
            name: call.name,
            error_code,
            trace: call.trace.as_ref().map(|trace| trace.id()),
        };
        // Nothing that a client chose: whoever reads logs may not be allowed to see that.
        tracing::debug!(
            server = %record.server, outcome = record.outcome.as_str(),
            generation = record.generation.map(Generation::get),
            duration_ms = record.duration.as_secs_f64() * 1000.0, resent = record.resent,
            trace_id = record.trace.map(tracing::field::display), "call"
        );
        if let Some(trace) = call.trace {
            let since_start = |at: Instant| at.saturating_duration_since(self.started);
            let sending = Sending {
                last_sent: last_sent.map(since_start),
                last_waited: last_waited.map(since_start),
                tool_failed: self.tool_failed,
            };
            self.observed.telemetry.call_ended(*trace, &record, sending);
        }
        self.observed.call_ended(record, call.keep);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled, None, None);
    }
}
