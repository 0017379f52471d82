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
    /// Whether the server has no method for the request.
    pub(super) fn is_kept_here(&self) -> bool {
        let method = self.request.method();
        matches!(method, method::SET_LEVEL | method::SUBSCRIBE | method::UNSUBSCRIBE)
    }

    /// The answer to such a request. A subscription is answered when the server has been told of it, with the server's
    /// own error if it refuses it.
    pub(super) async fn keep_here(&self, lease: &Lease) -> Answer {
        let method = self.request.method();
        let params = match &self.request {
            Request::Other { params, .. } => params.as_ref(),
            _ => None,
        };
        let offers = &lease.peer().offers;
        let offered = if method == method::SET_LEVEL { offers.logging } else { offers.subscribe };
        if !offered {
            let what = format!("the server does not offer {method}");
            return Err(RpcError::with(code::METHOD_NOT_FOUND, what));
        }
        let told: Told = params.and_then(|params| params.parse().ok()).unwrap_or_default();
        let side_state = &self.slot.side_state;
        let kept = match (method, told) {
            (method::SET_LEVEL, Told { level: Some(level), .. }) if is_log_level(&level) => {
                side_state.set_log_level(&level);
                true
            }
            (method::SUBSCRIBE, Told { uri: Some(uri), .. }) => {
                let limit = self.slot.settings.max_subscriptions;
                let subscribing = side_state.subscribe(&uri, limit);
                let room = subscribing.is_some();
                if let Some(subscribing) = subscribing {
                    subscribing.told().await?;
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
        kept.then(RawJson::empty_object).ok_or_else(refused)
    }
}
