//! A client of any revision, for tests that want the same of all of them.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::piped_client::{Piped, Reading};
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
    /// Of either revision, at the pipes of `evergate stdio`.
    Piped(Piped),
}

/// A call that is under way.
pub(crate) struct Begun {
    caller: Caller,
    id: Value,
    /// Where there is a response to wait for.
    task: Option<JoinHandle<()>>,
}

/// What somebody wants to hear of.
pub(crate) struct Following {
    caller: Caller,
    stream: Stream,
    uris: Vec<String>,
    /// Of the request, where it is one.
    id: Option<Value>,
}

enum Stream {
    Events(Box<Events>),
    Reading(Reading),
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
            Self::Piped(client) => checked(client, client.request(method, params).await),
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
            Self::Piped(client) if client.era == Era::Legacy => {
                let params = json!({ "name": tool, "arguments": arguments });
                let (id, mut reading) = client.begin("tools/call", params).await;
                loop {
                    let message = reading.next().await.expect("an answer");
                    let Some(method) = message["method"].as_str() else {
                        if message["id"] == id {
                            return (asked, message);
                        }
                        continue;
                    };
                    if message.get("id").is_some() {
                        client.respond(&message["id"], &answer).await;
                        asked.push((method.to_owned(), message["params"].clone()));
                    }
                }
            }
            Self::Piped(client) => {
                let mut params = json!({ "name": tool, "arguments": arguments });
                loop {
                    let replied =
                        checked(client, client.request("tools/call", params.clone()).await);
                    let result = &replied["result"];
                    if result["resultType"] != "input_required" {
                        return (asked, replied);
                    }
                    let mut answers = json!({});
                    for (key, question) in result["inputRequests"].as_object().unwrap() {
                        let method = question["method"].as_str().unwrap();
                        asked.push((method.to_owned(), question["params"].clone()));
                        answers[key] = answer.clone();
                    }
                    params["inputResponses"] = answers;
                    params["requestState"] = result["requestState"].clone();
                }
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
            Self::Piped(client) => {
                let (id, mut reading) = client.begin(method, params).await;
                let mut notes = Vec::new();
                loop {
                    let message = reading.next().await.expect("an answer");
                    if message["id"] == id {
                        return (notes, checked(client, message));
                    }
                    notes.push(message);
                }
            }
        }
    }

    /// Starts a call that goes on until it is cancelled.
    pub(crate) async fn begin(&self, tool: &str, arguments: Value) -> Begun {
        let caller = self.clone();
        match self.clone() {
            Self::Legacy(session) => {
                let (id, params) = (json!(tool), json!({ "name": tool, "arguments": arguments }));
                let own_id = id.clone();
                let task = tokio::spawn(async move {
                    let mut events = session.request_events(own_id, "tools/call", params).await;
                    while events.message().await.is_some() {}
                });
                Begun { caller, id, task: Some(task) }
            }
            Self::Modern(client) => {
                let call = client.call(tool, arguments);
                let id = call.body["id"].clone();
                let task = tokio::spawn(async move {
                    let mut events = call.open().await;
                    while events.message().await.is_some() {}
                });
                Begun { caller, id, task: Some(task) }
            }
            Self::Piped(client) => {
                let params = json!({ "name": tool, "arguments": arguments });
                let (id, _) = client.begin("tools/call", params).await;
                Begun { caller, id, task: None }
            }
        }
    }

    /// Hears of changed lists, and of these resources.
    pub(crate) async fn follow(&self, uris: &[&str]) -> Following {
        let mut wanted = everything_listed();
        wanted["resourceSubscriptions"] = json!(uris);
        let wanted = json!({ "notifications": wanted });
        let (stream, id) = match self {
            Self::Legacy(session) => (Stream::Events(Box::new(session.listen().await)), None),
            Self::Modern(client) => {
                let draft = client.draft("subscriptions/listen", wanted.clone());
                (Stream::Events(Box::new(draft.open().await)), Some(draft.body["id"].clone()))
            }
            Self::Piped(client) if client.era == Era::Legacy => {
                (Stream::Reading(client.read()), None)
            }
            Self::Piped(client) => {
                let (id, reading) = client.begin("subscriptions/listen", wanted.clone()).await;
                (Stream::Reading(reading), Some(id))
            }
        };
        let uris: Vec<_> = uris.iter().map(|uri| (*uri).to_owned()).collect();
        let mut following = Following { caller: self.clone(), stream, uris, id };
        if following.id.is_some() {
            let acknowledged = following.message().await;
            assert_eq!(acknowledged["params"]["notifications"], wanted["notifications"]);
        } else {
            for uri in &following.uris {
                let answer = self.request("resources/subscribe", json!({ "uri": uri })).await;
                assert!(answer.get("result").is_some(), "{answer}");
            }
        }
        following
    }
}

/// An answer that has what belongs to its revision and nothing else.
fn checked(client: &Piped, answer: Value) -> Value {
    if let Some(result) = answer.get("result") {
        let is_modern = client.era == Era::Modern;
        assert_eq!(result["resultType"].is_string(), is_modern, "{answer}");
        assert!(!is_modern || result["_meta"][SERVER_INFO]["name"].is_string(), "{answer}");
    }
    answer
}

/// Who wants to hear of every list.
pub(crate) fn everything_listed() -> Value {
    json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true })
}

// === impl Begun ===

impl Begun {
    /// Takes the call back, in the way of the client's revision.
    pub(crate) async fn cancel(mut self) {
        let cancelled = json!({ "requestId": self.id });
        match &self.caller {
            Caller::Legacy(session) => {
                session.notify("notifications/cancelled", cancelled).await;
                self.task.take().unwrap().await.unwrap();
            }
            Caller::Modern(_) => {
                let task = self.task.take().unwrap();
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            }
            Caller::Piped(client) => client.notify("notifications/cancelled", cancelled).await,
        }
    }
}

// === impl Following ===

impl Following {
    /// The next news of this kind.
    pub(crate) async fn next_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    async fn message(&mut self) -> Value {
        let message = match &mut self.stream {
            Stream::Events(events) => events.message().await,
            Stream::Reading(reading) => reading.next().await,
        };
        let message = message.expect("the stream ended");
        if let Some(id) = self.id.as_ref().filter(|_| message["method"].is_string()) {
            assert_eq!(message["params"]["_meta"][SUBSCRIPTION], *id, "{message}");
        }
        message
    }

    /// Wants to hear of nothing any more.
    pub(crate) async fn stop(self) {
        match (&self.caller, self.id) {
            // The stream ends, and that says it.
            (Caller::Modern(_), _) => {}
            (Caller::Piped(client), Some(id)) => {
                client.notify("notifications/cancelled", json!({ "requestId": id })).await;
            }
            (caller, _) => {
                for uri in self.uris {
                    caller.request("resources/unsubscribe", json!({ "uri": uri })).await;
                }
            }
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
