//! Keeps account of one call, whichever way it ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evergate_runtime::{CallError, RawJson, Report};
use tokio::time::Instant;

use super::CallRecord;
use super::recent::LONGEST_ERROR;
use crate::admin::model::CallOutcome;
use crate::front::keys::Caller;
use crate::gateway::Gateway;

/// What is known of a call before it is made.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) client: Arc<str>,
    pub(crate) caller: Caller,
    pub(crate) server: Arc<str>,
    pub(crate) method: String,
    pub(crate) tool: Option<String>,
    pub(crate) request_bytes: usize,
    pub(crate) params: Option<RawJson>,
}

/// A call under way. Dropped before its end it was given up by its caller.
#[derive(Debug)]
pub(crate) struct Recording {
    gateway: Arc<Gateway>,
    /// Taken at its end.
    beginning: Option<Beginning>,
    at: SystemTime,
    started: Instant,
    /// How long it waited, and where it was.
    pub(crate) report: Report,
    result_bytes: usize,
}

// === impl Recording ===

impl Recording {
    pub(crate) fn begin(gateway: &Arc<Gateway>, beginning: Beginning) -> Self {
        Self {
            gateway: gateway.clone(),
            beginning: Some(beginning),
            at: SystemTime::now(),
            started: Instant::now(),
            report: Report::default(),
            result_bytes: 0,
        }
    }

    /// How long it has taken so far.
    pub(crate) fn duration(&self) -> Duration {
        self.started.elapsed()
    }

    /// So much of its result came.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.result_bytes += bytes;
    }

    /// It brought its result.
    pub(crate) fn answered(mut self) {
        self.end(CallOutcome::Answered, None);
    }

    /// It brought none.
    pub(crate) fn failed(&mut self, error: &CallError) {
        let mut text = error.chain();
        if text.len() > LONGEST_ERROR {
            text.truncate(text.floor_char_boundary(LONGEST_ERROR));
            text.push('…');
        }
        self.end(CallOutcome::of(error), Some(text));
    }

    fn end(&mut self, outcome: CallOutcome, error: Option<String>) {
        let Some(call) = self.beginning.take() else { return };
        let Report { generation, waited, upstream, resends, .. } = self.report;
        let record = CallRecord {
            at: self.at,
            client: call.client,
            caller: call.caller,
            server: call.server,
            method: call.method,
            tool: call.tool,
            outcome,
            error,
            duration: self.started.elapsed(),
            waited,
            upstream,
            generation,
            resent: resends > 0,
            request_bytes: call.request_bytes,
            result_bytes: self.result_bytes,
            params: call.params,
        };
        let keep = self.gateway.config().gateway.recent_calls;
        self.gateway.observed.call_ended(record, keep);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled, None);
    }
}
