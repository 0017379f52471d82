//! Whom a server asks. On a call's own stream that is plain; on a stream that all calls share it does not say, so the
//! calls in flight decide, and where they cannot, nobody is asked in another's place.

use std::sync::Arc;

use super::call_watch::CallWatch;
use crate::handlers::{Attribution, Handlers};

/// A server's request while it is being handled: who answers it, and because of which calls it was made. The time of
/// those calls stands still until this is dropped.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) handlers: Arc<Handlers>,
    pub(super) attribution: Attribution,
    /// The number of the call whose handlers they are.
    pub(super) number: Option<u64>,
    calls: Vec<Arc<CallWatch>>,
}

// === impl Asked ===

impl Asked {
    /// `cause` is the call on whose own stream the request came; `hub` answers what no call can be named for.
    pub(super) fn because_of<'a>(
        cause: Option<&'a Arc<CallWatch>>,
        in_flight: impl Iterator<Item = &'a Arc<CallWatch>>,
        hub: &Arc<Handlers>,
    ) -> Self {
        if let Some(call) = cause {
            return match call.handlers() {
                Some(handlers) => {
                    Self::new(handlers, Attribution::Call, call.number(), vec![call.clone()])
                }
                None => Self::new(hub, Attribution::Nobody, None, Vec::new()),
            };
        }
        let mut calls: Vec<Arc<CallWatch>> = Vec::new();
        for call in in_flight.filter(|call| call.handlers().is_some()) {
            if calls.last().is_some_and(|other| !call.has_same_caller(other)) {
                return Self::new(hub, Attribution::Ambiguous, None, Vec::new());
            }
            calls.push(call.clone());
        }
        // The newest call is the likeliest to be meant; the time of all of them stands still.
        let newest = calls.iter().max_by_key(|call| call.id());
        match newest.and_then(|call| Some((call.handlers()?.clone(), call.number()))) {
            Some((handlers, number)) => {
                Self::new(&handlers, Attribution::OnlyCaller, number, calls)
            }
            None => Self::new(hub, Attribution::Nobody, None, calls),
        }
    }

    fn new(
        handlers: &Arc<Handlers>,
        attribution: Attribution,
        number: Option<u64>,
        calls: Vec<Arc<CallWatch>>,
    ) -> Self {
        for track in calls.iter().filter_map(|call| call.track()) {
            track.asked();
        }
        Self { handlers: handlers.clone(), attribution, number, calls }
    }

    /// Resolves when every call it may be about has ended; never for a request that is about none.
    pub(super) async fn is_moot(&self) {
        if self.calls.is_empty() {
            std::future::pending::<()>().await;
        }
        for call in &self.calls {
            call.ended().await;
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        for track in self.calls.iter().filter_map(|call| call.track()) {
            track.told();
        }
    }
}
