//! A client of any revision, for tests that want the same of all of them.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::kit::next_of;
use crate::stateless_client::{SERVER_INFO, SUBSCRIPTION, Stateless};
use crate::support::{Events, Gateway, Session};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25, with a session.
    Legacy,
    /// 2026-07-28, without.
    Modern,
}

#[derive(Clone)]
pub(crate) enum Caller {
    Legacy(Session),
    Modern(Stateless),
}

/// A call that is under way.
pub(crate) struct Begun {
    caller: Caller,
    id: Value,
    task: JoinHandle<()>,
}

/// What somebody wants to hear of.
pub(crate) struct Following {
    pub(crate) events: Events,
    /// With whom to unsubscribe.
    session: Option<(Session, Vec<String>)>,
    id: Option<Value>,
}

/// Questions a server asked, each with its params.
pub(crate) type Asked = Vec<(String, Value)>;

// === impl Caller ===

impl Caller {
    pub(crate) async fn connect(gateway: &Gateway, era: Era) -> Self {
        match era {
            Era::Legacy => Self::Legacy(gateway.connect().await),
            Era::Modern => Self::Modern(Stateless::of(gateway)),
        }
    }

    /// The whole answer, which has what belongs to its revision and nothing else.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        match self {
            Self::Legacy(session) => {
                let answer = session.request(method, params).await;
                assert_eq!(answer["result"].get("resultType"), None, "{answer}");
                answer
            }
            Self::Modern(client) => client.request(method, params).await.message,
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool that asks something, and answers whatever it asks with this.
    pub(crate) async fn ask(&self, tool: &str, arguments: Value, answer: Value) -> (Asked, Value) {
        let mut asked = Asked::new();
        match self {
            Self::Legacy(session) => {
                let params = json!({ "name": tool, "arguments": arguments });
                let mut events =
                    session.request_events(json!("asking"), "tools/call", params).await;
                loop {
                    let message = events.message().await.expect("an answer");
                    if message["id"] == "asking" {
                        return (asked, message);
                    }
                    if message.get("id").is_some() {
                        session.respond(&message["id"], answer.clone()).await;
                        let method = message["method"].as_str().unwrap();
                        asked.push((method.to_owned(), message["params"].clone()));
                    }
                }
            }
            Self::Modern(client) => {
                let call = client.call(tool, arguments);
                let mut replied = call.send().await;
                while replied.message["result"]["resultType"] == "input_required" {
                    let questions = replied.questions();
                    let mut answers = json!({});
                    for (key, question) in questions["inputRequests"].as_object().unwrap() {
                        let method = question["method"].as_str().unwrap();
                        asked.push((method.to_owned(), question["params"].clone()));
                        answers[key] = answer.clone();
                    }
                    replied = call.answering(&questions, answers).send().await;
                }
                (asked, replied.message)
            }
        }
    }

    /// What comes in the stream of a request before its answer, and that.
    pub(crate) async fn hear(&self, method: &str, params: Value) -> (Vec<Value>, Value) {
        match self {
            Self::Legacy(session) => {
                let mut events = session.request_events(json!("hearing"), method, params).await;
                let mut notes = Vec::new();
                loop {
                    let message = events.message().await.expect("an answer");
                    if message["id"] == "hearing" {
                        return (notes, message);
                    }
                    notes.push(message);
                }
            }
            Self::Modern(client) => {
                let replied = client.request(method, params).await;
                (replied.notes, replied.message)
            }
        }
    }

    /// Starts a call that goes on until it is cancelled.
    pub(crate) fn begin(&self, tool: &str, arguments: Value) -> Begun {
        let caller = self.clone();
        match self.clone() {
            Self::Legacy(session) => {
                let (id, params) = (json!(tool), json!({ "name": tool, "arguments": arguments }));
                let own_id = id.clone();
                let task = tokio::spawn(async move {
                    let mut events = session.request_events(own_id, "tools/call", params).await;
                    while events.message().await.is_some() {}
                });
                Begun { caller, id, task }
            }
            Self::Modern(client) => {
                let call = client.call(tool, arguments);
                let id = call.body["id"].clone();
                let task = tokio::spawn(async move {
                    let mut events = call.open().await;
                    while events.message().await.is_some() {}
                });
                Begun { caller, id, task }
            }
        }
    }

    /// Hears of changed lists, and of these resources.
    pub(crate) async fn follow(&self, uris: &[&str]) -> Following {
        match self {
            Self::Legacy(session) => {
                let events = session.listen().await;
                for uri in uris {
                    let answer = self.request("resources/subscribe", json!({ "uri": uri })).await;
                    assert!(answer.get("result").is_some(), "{answer}");
                }
                let uris = uris.iter().map(|uri| (*uri).to_owned()).collect();
                Following { events, session: Some((session.clone(), uris)), id: None }
            }
            Self::Modern(client) => {
                let mut wanted = everything_listed();
                wanted["resourceSubscriptions"] = json!(uris);
                let draft =
                    client.draft("subscriptions/listen", json!({ "notifications": wanted }));
                let mut events = draft.open().await;
                let acknowledged = events.message().await.unwrap();
                assert_eq!(acknowledged["params"]["notifications"], wanted, "{acknowledged}");
                Following { events, session: None, id: Some(draft.body["id"].clone()) }
            }
        }
    }
}

/// Who wants to hear of every list.
pub(crate) fn everything_listed() -> Value {
    json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true })
}

// === impl Begun ===

impl Begun {
    /// Takes the call back, in the way of the client's revision.
    pub(crate) async fn cancel(self) {
        match &self.caller {
            Caller::Legacy(session) => {
                session.notify("notifications/cancelled", json!({ "requestId": self.id })).await;
                self.task.await.unwrap();
            }
            Caller::Modern(_) => {
                self.task.abort();
                assert!(self.task.await.unwrap_err().is_cancelled());
            }
        }
    }
}

// === impl Following ===

impl Following {
    /// The next news of this kind.
    pub(crate) async fn next_of(&mut self, method: &str) -> Value {
        let message = next_of(&mut self.events, method).await;
        if let Some(id) = &self.id {
            assert_eq!(message["params"]["_meta"][SUBSCRIPTION], *id, "{message}");
        }
        message
    }

    /// Wants to hear of nothing any more.
    pub(crate) async fn stop(self) {
        let Some((session, uris)) = self.session else { return };
        for uri in uris {
            session.request("resources/unsubscribe", json!({ "uri": uri })).await;
        }
    }
}

/// A result without what only one revision has.
pub(crate) fn bare(answer: &Value) -> Value {
    let mut result = answer["result"].clone();
    let fields = result.as_object_mut().unwrap_or_else(|| panic!("no result: {answer}"));
    for field in ["resultType", "ttlMs", "cacheScope"] {
        fields.remove(field);
    }
    if let Some(meta) = fields.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove(SERVER_INFO);
        if meta.is_empty() {
            fields.remove("_meta");
        }
    }
    result
}
