//! Who hears of what in revision 2026-07-28: one request that is answered only in the end, and in between what changed.

use serde_json::{Value, json};

use crate::jsonrpc::{self, Outcome, Request};
use crate::server::{Server, State};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A `subscriptions/listen` that is open.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    /// As the client wrote it.
    pub(crate) id: String,
    /// What it asked for, as far as the server offers it.
    honoured: Value,
}

/// How a server ends what a client listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenEnd {
    /// With the result of the request.
    Answered,
    /// With `notifications/cancelled`, which lines allow for this only. On HTTP the stream ends without a word.
    Cancelled,
}

// === impl Listen ===

impl Listen {
    pub(crate) fn new(request: &Request, state: &State) -> Self {
        let offered = &state.discover()["capabilities"];
        let asked = &request.params["notifications"];
        let mut honoured = json!({});
        for (list, field) in [
            ("tools", "toolsListChanged"),
            ("prompts", "promptsListChanged"),
            ("resources", "resourcesListChanged"),
        ] {
            if asked[field] == true && offered[list]["listChanged"] == true {
                honoured[field] = true.into();
            }
        }
        for field in ["resourceSubscriptions", "taskIds"] {
            let any = asked[field].as_array().is_some_and(|asked| !asked.is_empty());
            if any && (field == "taskIds" || offered["resources"]["subscribe"] == true) {
                honoured[field] = asked[field].clone();
            }
        }
        Self { id: request.id.clone(), honoured }
    }

    pub(crate) fn honours_nothing(&self) -> bool {
        self.honoured.as_object().is_none_or(serde_json::Map::is_empty)
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &str> {
        let wanted = self.honoured["resourceSubscriptions"].as_array();
        wanted.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether a notification is for it.
    pub(crate) fn hears(&self, method: &str, params: &Value) -> bool {
        match method {
            "notifications/tools/list_changed" => self.honoured["toolsListChanged"] == true,
            "notifications/prompts/list_changed" => self.honoured["promptsListChanged"] == true,
            "notifications/resources/list_changed" => self.honoured["resourcesListChanged"] == true,
            "notifications/resources/updated" => self.resources().any(|uri| params["uri"] == uri),
            // What else tests send is theirs to judge.
            _ => true,
        }
    }

    /// The first message of it.
    pub(crate) fn acknowledgement(&self) -> String {
        let params = json!({ "notifications": self.honoured });
        self.told("notifications/subscriptions/acknowledged", params)
    }

    /// A notification of it.
    pub(crate) fn told(&self, method: &str, mut params: Value) -> String {
        if params.is_null() {
            params = json!({});
        }
        params["_meta"][SUBSCRIPTION] = self.subscription_id();
        jsonrpc::notification(method, &params)
    }

    /// The last message of it.
    pub(crate) fn answer(&self) -> String {
        let meta = json!({ SUBSCRIPTION: self.subscription_id() });
        Outcome::ok(&json!({ "resultType": "complete", "_meta": meta })).encode(&self.id)
    }

    fn subscription_id(&self) -> Value {
        serde_json::from_str(&self.id).unwrap_or_default()
    }
}

// === impl Server ===

impl Server {
    /// Ends everything that clients listen on without a handshake. Their connections stay.
    pub fn end_listens(&self, how: ListenEnd) {
        for session in self.sessions() {
            let Some(sink) = session.listening() else { continue };
            for listen in session.listens() {
                match how {
                    ListenEnd::Answered => drop(sink.answer(listen.answer())),
                    ListenEnd::Cancelled => {
                        let params = json!({ "requestId": listen.subscription_id() });
                        sink.send(jsonrpc::notification("notifications/cancelled", &params));
                    }
                }
                self.update(|_| session.unlisten(&listen.id));
            }
        }
    }
}
