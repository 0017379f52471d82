//! What a server is told once in revisions with a handshake, and with every request, or by listening, in later ones: kept
//! here, so that whoever says it need not know the difference.

use serde::Deserialize;

use super::{Call, Request};
use crate::connection::Lease;
use crate::protocol::{RawJson, RpcError, code, is_log_level, method};
use crate::transport::Answer;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Told {
    level: Option<String>,
    uri: Option<String>,
}

// === impl Call ===

impl Call {
    /// The answer to a request that the server has no method for. `None` if it is to be sent.
    pub(super) fn keep_here(&self, lease: &Lease) -> Option<Answer> {
        let Request::Other { method, params } = &self.request else { return None };
        let offered = match &**method {
            method::SET_LEVEL => lease.peer().offers.logging,
            method::SUBSCRIBE | method::UNSUBSCRIBE => lease.peer().offers.subscribe,
            _ => return None,
        };
        if !offered {
            let what = format!("the server does not offer {method}");
            return Some(Err(RpcError::with(code::METHOD_NOT_FOUND, what)));
        }
        let told: Told = params.as_ref().and_then(|params| params.parse().ok()).unwrap_or_default();
        let side_state = &self.slot.side_state;
        let kept = match (&**method, told) {
            (method::SET_LEVEL, Told { level: Some(level), .. }) if is_log_level(&level) => {
                side_state.set_log_level(&level);
                true
            }
            // Whoever has it kept already sees to the rest itself.
            (method::SUBSCRIBE, Told { uri: Some(uri), .. })
                if side_state.subscriptions().1.contains(&uri) =>
            {
                true
            }
            (method::SUBSCRIBE, Told { uri: Some(uri), .. }) => {
                let limit = self.slot.settings.max_subscriptions;
                let subscribing = side_state.subscribe(&uri, limit);
                let room = subscribing.is_some();
                if let Some(subscribing) = subscribing {
                    subscribing.succeeded();
                }
                room
            }
            (method::UNSUBSCRIBE, Told { uri: Some(uri), .. }) => {
                side_state.unsubscribe(&uri);
                true
            }
            _ => false,
        };
        let refused = || RpcError::with(code::INVALID_PARAMS, format!("unusable {method}"));
        Some(kept.then(RawJson::empty_object).ok_or_else(refused))
    }
}
