//! The subscriptions that the client holds open.

use rmcp::model::SubscriptionFilter;
use rmcp::service::{Peer, RoleClient, Subscription};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{Events, event, lock, operations};

/// All of them, and where what they bring is counted.
pub(crate) struct Listening {
    events: Events,
    open: JoinSet<()>,
}

// === impl Listening ===

impl Listening {
    pub(crate) fn new(events: Events) -> Self {
        Self { events, open: JoinSet::new() }
    }

    /// Opens one more, and says what was acknowledged.
    pub(crate) async fn begin(&mut self, peer: &Peer<RoleClient>, filter: &Value) -> Value {
        let filter: SubscriptionFilter = match serde_json::from_value(filter.clone()) {
            Ok(filter) => filter,
            Err(error) => return operations::failed(&error.to_string()),
        };
        match peer.listen(filter).await {
            Ok(subscription) => {
                let acknowledged = json!(subscription.acknowledged());
                self.open.spawn(count(subscription, self.events.clone()));
                json!({ "ok": true, "result": acknowledged })
            }
            Err(error) => operations::refused(error),
        }
    }

    /// Ends all of them.
    pub(crate) async fn end(&mut self) {
        let ended = self.open.len();
        // Dropping a subscription tells the other side.
        self.open.shutdown().await;
        *lock(&self.events).entry("unlistened").or_default() += ended as u64;
    }
}

async fn count(mut subscription: Subscription, events: Events) {
    while let Ok(Some(notification)) = subscription.next().await {
        *lock(&events).entry(event(&notification)).or_default() += 1;
    }
    *lock(&events).entry("listen_ended").or_default() += 1;
}
