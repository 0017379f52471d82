//! A server that may want tokens: what it refuses for want of one is asked for again with one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use evergate_runtime::{
    CallBuilder, CallError, CallFailure, Hub, Outcome, RawJson, Reason, ServerCatalog,
    ServerHandle, StateKind, Status,
};
use serde_json::Value;

use crate::oauth::Oauth;

pub(crate) struct Authorized {
    server: ServerHandle,
    oauth: Oauth,
}

/// How a call ended, or why no token was to be had for it.
type Answered = anyhow::Result<Result<RawJson, CallError>>;

/// What cannot be listed without a token needs one for this.
const LISTING: &str = "tools/list";

/// For a new connection to come about. Should it take longer, the next refusal tells.
const REVIVAL: Duration = Duration::from_secs(2);

// === impl Authorized ===

impl Authorized {
    pub(crate) fn new(server: ServerHandle, oauth: Oauth) -> Self {
        Self { server, oauth }
    }

    /// What it offers, once it is listed.
    pub(crate) async fn listed(&mut self, hub: &Hub) -> anyhow::Result<Arc<ServerCatalog>> {
        let name = self.server.name().to_owned();
        let mut catalogs = hub.watch_catalog();
        let mut statuses = self.server.watch_status();
        loop {
            if refused(&statuses.borrow()) && self.oauth.authorize(LISTING).await? {
                self.revive().await;
            }
            tokio::select! {
                listed = catalogs.wait_for(|catalog| catalog.server(&name).is_some()) => {
                    return listed?.server(&name).cloned().context("the server is gone");
                }
                changed = statuses.changed() => { changed.context("the hub is gone")?; }
            }
        }
    }

    pub(crate) async fn call_tool(&mut self, name: &str, arguments: &Value) -> Answered {
        self.call("tools/call", |server| server.call_tool(name, arguments.clone())).await
    }

    pub(crate) async fn request(&mut self, method: &'static str, params: &Value) -> Answered {
        let params = RawJson::from(params.clone());
        self.call(method, |server| server.request(method, Some(params.clone()))).await
    }

    async fn call(
        &mut self,
        method: &str,
        make: impl Fn(&ServerHandle) -> CallBuilder,
    ) -> Answered {
        loop {
            let outcome = make(&self.server).await;
            let refused = outcome.as_ref().is_err_and(may_be_for_want_of_a_token);
            if !refused || !self.oauth.authorize(method).await? {
                return Ok(outcome);
            }
            self.revive().await;
        }
    }

    /// A server that refused us is parked, or about to be: a restart has what is still to come of that ignored.
    async fn revive(&self) {
        let before = self.server.status().generation;
        self.server.restart();
        let _ = self.server.wait_until(REVIVAL, |status| status.generation != before).await;
    }
}

/// A server that refuses to be listed in any other way than this cannot be told from one that has nothing to offer.
fn refused(status: &Status) -> bool {
    status.state == StateKind::PermanentlyFailed && status.reason == Reason::AuthRequired
}

/// Only what cannot have been executed may be asked for again.
fn may_be_for_want_of_a_token(error: &CallError) -> bool {
    match &error.source {
        CallFailure::PermanentlyFailed { reason, .. } => *reason == Reason::AuthRequired,
        _ => error.outcome == Outcome::Rejected,
    }
}
