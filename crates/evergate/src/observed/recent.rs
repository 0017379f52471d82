//! The newest calls, in a ring for each thread that makes them.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use evergate_runtime::Sharded;
use serde::Deserialize;
use serde_json::Value;

use super::{CallRecord, unix_ms};
use crate::admin::model::{CallOutcome, CallReport};

/// The calls, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Each with its number, in order.
    rings: Sharded<Mutex<Ring>>,
    /// Of all calls ever.
    count: AtomicU64,
    /// How many are to be kept, as was said last.
    keep: AtomicUsize,
}

type Ring = VecDeque<(u64, CallRecord)>;

/// Which of them somebody wants to see.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) server: Option<String>,
    pub(crate) outcome: Option<CallOutcome>,
    pub(crate) limit: usize,
}

#[derive(Deserialize)]
struct Params {
    arguments: Option<Value>,
}

// === impl Recent ===

impl Recent {
    /// Keeps at most so many.
    pub(super) fn add(&self, record: CallRecord, keep: usize) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.keep.load(Ordering::Relaxed) != keep {
            self.keep.store(keep, Ordering::Relaxed);
        }
        let mut ring = self.rings.own().lock().unwrap_or_else(PoisonError::into_inner);
        ring.push_back((number, record));
        forget_before(&mut ring, (number + 1).saturating_sub(keep as u64));
    }

    /// The newest first.
    pub(crate) fn list(&self, wanted: &Wanted) -> Vec<CallReport> {
        let keep = self.keep.load(Ordering::Relaxed) as u64;
        let first = (self.count.load(Ordering::Relaxed) + 1).saturating_sub(keep);
        let mut found = Vec::new();
        for ring in self.rings.all() {
            let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            // Its thread may have had nothing to do for long.
            forget_before(&mut ring, first);
            let wanted_ones = ring.iter().rev().filter(|(_, call)| {
                wanted.server.as_ref().is_none_or(|server| **server == *call.server)
                    && wanted.outcome.is_none_or(|outcome| outcome == call.outcome)
            });
            found.extend(wanted_ones.take(wanted.limit).map(|(n, call)| call.report(*n)));
        }
        found.sort_unstable_by_key(|call| Reverse(call.n));
        found.truncate(wanted.limit);
        found
    }
}

fn forget_before(ring: &mut Ring, first: u64) {
    while ring.front().is_some_and(|(number, _)| *number < first) {
        ring.pop_front();
    }
}

// === impl CallRecord ===

impl CallRecord {
    fn report(&self, n: u64) -> CallReport {
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
        let params: Option<Params> = self.params.as_ref().and_then(|params| params.parse().ok());
        CallReport {
            n,
            at_unix_ms: unix_ms(self.at),
            client: self.client.to_string(),
            key: self.caller.name().map(str::to_owned),
            server: self.server.to_string(),
            method: self.method.to_string(),
            tool: self.tool.as_deref().map(str::to_owned),
            outcome: self.outcome,
            error: self.error.clone(),
            duration_ms: ms(self.duration),
            waited_ms: ms(self.waited),
            upstream_ms: ms(self.upstream),
            generation: self.generation.map(evergate_runtime::Generation::get),
            resent: self.resent,
            request_bytes: self.request_bytes as u64,
            result_bytes: self.result_bytes as u64,
            arguments: params.and_then(|params| params.arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::front::keys::Caller;

    fn call(server: &str, outcome: CallOutcome) -> CallRecord {
        CallRecord {
            at: SystemTime::now(),
            client: Arc::from("test 1"),
            caller: Caller::anonymous(),
            server: Arc::from(server),
            method: "tools/call".into(),
            tool: Some("echo".into()),
            outcome,
            error: None,
            duration: Duration::from_millis(3),
            waited: Duration::ZERO,
            upstream: Duration::from_millis(2),
            generation: None,
            resent: false,
            request_bytes: 2,
            result_bytes: 3,
            params: None,
            session: None,
            name: None,
            error_code: None,
            trace: None,
        }
    }

    #[test]
    fn only_the_newest_are_kept_and_come_first() {
        let recent = Recent::default();
        for server in ["a", "b", "a", "b"] {
            recent.add(call(server, CallOutcome::Answered), 3);
        }
        let list = |wanted: &Wanted| -> Vec<(u64, String)> {
            recent.list(wanted).into_iter().map(|call| (call.n, call.server)).collect()
        };
        let all = Wanted { limit: 10, ..Wanted::default() };
        let named = |n, server: &str| (n, server.to_owned());
        assert_eq!(list(&all), [named(4, "b"), named(3, "a"), named(2, "b")]);
        let of_b = Wanted { server: Some("b".to_owned()), limit: 1, ..Wanted::default() };
        assert_eq!(list(&of_b), [named(4, "b")]);
        let cancelled = Wanted { outcome: Some(CallOutcome::Cancelled), limit: 9, server: None };
        assert_eq!(list(&cancelled), []);
    }

    #[test]
    fn calls_of_all_threads_are_in_one_order() {
        let recent = Recent::default();
        for _ in 0..20 {
            std::thread::scope(|scope| {
                scope.spawn(|| recent.add(call("a", CallOutcome::Answered), 7));
            });
        }
        let shown = recent.list(&Wanted { limit: 100, ..Wanted::default() });
        let numbers: Vec<u64> = shown.iter().map(|call| call.n).collect();
        assert_eq!(numbers, [20, 19, 18, 17, 16, 15, 14], "no more than are kept");
        let shown = recent.list(&Wanted { limit: 2, ..Wanted::default() });
        assert_eq!(shown.len(), 2);
        let kept: usize = recent.rings.all().map(|ring| ring.lock().unwrap().len()).sum();
        assert_eq!(kept, 7, "and nothing that is not shown, whoever has nothing to do any more");
    }

    #[test]
    fn none_are_kept_if_none_are_wanted() {
        let recent = Recent::default();
        recent.add(call("a", CallOutcome::Unknown), 0);
        assert!(recent.list(&Wanted { limit: 1, ..Wanted::default() }).is_empty());
    }

    #[test]
    fn arguments_are_shown_if_they_were_kept() {
        let recent = Recent::default();
        let params = serde_json::json!({ "name": "echo", "arguments": { "text": "x" } });
        for params in [Some(params.into()), None] {
            recent.add(CallRecord { params, ..call("a", CallOutcome::Answered) }, 9);
        }
        let shown = recent.list(&Wanted { limit: 9, ..Wanted::default() });
        assert_eq!(shown[0].arguments, None);
        assert_eq!(shown[1].arguments, Some(serde_json::json!({ "text": "x" })));
    }
}
