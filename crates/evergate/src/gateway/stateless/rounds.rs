//! Questions that servers of earlier revisions ask in the middle of a call, collected for a caller who is asked by the result
//! of its request and answers with the next one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evergate_runtime::{Notification, RawJson, RpcError, ServerRequest, wire};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::discover::TASKS;
use super::envelope::Envelope;
use crate::gateway::error_body::{INTERNAL, METHOD_NOT_FOUND};
use crate::gateway::log_level::Level;
use crate::gateway::outlet::Outlet;
use crate::gateway::patience::Patience;
use crate::gateway::{news, params};

/// A server that asks several things at once asks them one after the other. This long after one there will be no more.
const QUIET: Duration = Duration::from_millis(20);
/// Characters of a question's name.
const MAX_KEY: usize = 64;
/// More than any call asks at once.
const MAX_WAITING: usize = 64;

/// What the newest request of a call says of its caller, and what its server wants to know.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Tells the calls of one caller from those of others, as far as callers can be told apart.
    pub(in crate::gateway) caller: u64,
    /// Whether a request of its method may be answered with questions.
    may_ask: bool,
    state: Mutex<State>,
    changed: Notify,
}

/// The call that was to ask is over, or its caller gone.
#[derive(Debug)]
pub(in crate::gateway) struct Ended;

#[derive(Debug)]
struct State {
    capabilities: Value,
    level: Option<Level>,
    /// Whose call it is, once that is known.
    server: Option<Arc<str>>,
    /// How the caller hears of progress, if it wants to.
    patience: Option<Patience>,
    waiting: IndexMap<String, Waiting>,
    /// What the caller brought without having been asked.
    brought: Answers,
    /// What the caller would have to be able to do for a question that was refused for it.
    lacking: Option<Value>,
    /// When the newest of them came, and how many there were.
    newest: Option<Instant>,
    asked: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Somebody waits for the call.
    WaitedFor,
    /// Its caller has gone to answer.
    Parked,
    Over,
}

/// By the names the questions have.
pub(super) type Answers = IndexMap<String, RawJson>;

#[derive(Debug)]
struct Waiting {
    /// Which of all questions it is.
    number: u64,
    method: String,
    params: Option<RawJson>,
    asker: oneshot::Sender<RawJson>,
}

/// As the caller gets it.
#[derive(Serialize)]
struct Question<'a> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<IndexMap<String, &'a RawValue>>,
}

/// Takes a question back that its server no longer wants answered.
struct Asking<'a> {
    rounds: &'a Rounds,
    key: String,
    number: u64,
}

// === impl Rounds ===

impl Rounds {
    pub(super) fn new(caller: u64, may_ask: bool, envelope: Envelope, brought: Answers) -> Self {
        Self {
            caller,
            may_ask,
            state: Mutex::new(State {
                capabilities: envelope.capabilities,
                level: envelope.level,
                server: None,
                patience: None,
                waiting: IndexMap::new(),
                brought,
                lacking: None,
                newest: None,
                asked: 0,
                phase: Phase::WaitedFor,
            }),
            changed: Notify::new(),
        }
    }

    /// The caller is back: with answers, and with whatever it says of itself now.
    pub(super) fn resume(&self, envelope: Envelope, token: Option<RawJson>, answers: Answers) {
        let mut state = self.state();
        state.phase = Phase::WaitedFor;
        state.lacking = None;
        state.capabilities = envelope.capabilities;
        state.level = envelope.level;
        if let Some(patience) = &state.patience {
            patience.renew(token);
        }
        for (key, answer) in answers {
            // What was not asked is nobody's, and what is no answer leaves the question open.
            if is_answer(&answer)
                && let Some(waiting) = state.waiting.shift_remove(&key)
            {
                // It may have given up a moment ago.
                let _ = waiting.asker.send(answer);
            }
        }
    }

    /// Has the caller asked, when it comes to that.
    pub(in crate::gateway) async fn ask(
        &self,
        request: &ServerRequest,
    ) -> Result<Result<RawJson, RpcError>, Ended> {
        let (asking, answer) = match self.begin(request)? {
            Ok(begun) => begun,
            Err(known) => return Ok(known),
        };
        self.changed.notify_waiters();
        let answered = answer.await;
        drop(asking);
        answered.map(Ok).map_err(|_| Ended)
    }

    /// Takes a question up; one that can be answered at once is not asked.
    #[expect(clippy::type_complexity, reason = "one caller, just above")]
    fn begin(
        &self,
        request: &ServerRequest,
    ) -> Result<Result<(Asking<'_>, oneshot::Receiver<RawJson>), Result<RawJson, RpcError>>, Ended>
    {
        let refused = |code, message: &str| Ok(Err(Err(RpcError::with(code, message))));
        let mut state = self.state();
        if state.phase == Phase::Over {
            return Err(Ended);
        }
        if !self.may_ask {
            return refused(METHOD_NOT_FOUND, "nothing can be asked because of such a request");
        }
        match lacking(&state.capabilities, request) {
            Ok(None) => state.lacking = None,
            Ok(lacking) => {
                state.lacking = lacking;
                let message = format!("the client does not offer {}", request.method);
                return refused(METHOD_NOT_FOUND, &message);
            }
            Err(error) => return Ok(Err(Err(error))),
        }
        let mut key = key(request);
        if let Some(answer) = state.brought.shift_remove(&key).filter(is_answer) {
            return Ok(Err(Ok(answer)));
        }
        if state.waiting.len() >= MAX_WAITING {
            return refused(INTERNAL, "too many questions at once");
        }
        if state.waiting.contains_key(&key) {
            let mut numbered = (2..).map(|number| format!("{key}_{number}"));
            let free = numbered.find(|key| !state.waiting.contains_key(key));
            key = free.unwrap_or(key);
        }
        let (asker, answer) = oneshot::channel();
        let (method, params) = (request.method.clone(), request.params.clone());
        state.asked += 1;
        state.newest = Some(Instant::now());
        let number = state.asked;
        state.waiting.insert(key.clone(), Waiting { number, method, params, asker });
        Ok(Ok((Asking { rounds: self, key, number }, answer)))
    }

    /// Waits until there are questions, and all of them are there. Cancel safe.
    pub(super) async fn questions(&self) -> RawJson {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let newest = {
                let state = self.state();
                state.newest.filter(|_| !state.waiting.is_empty())
            };
            let Some(newest) = newest else {
                changed.await;
                continue;
            };
            // By the clock, not by how long somebody waits here: that may begin anew with every message.
            if tokio::time::timeout_at(newest + QUIET, changed).await.is_err()
                && let Some(questions) = self.state().questions()
            {
                return questions;
            }
        }
    }

    /// Its caller has gone to answer, and hears nothing meanwhile.
    pub(super) fn park(&self) {
        let mut state = self.state();
        state.phase = Phase::Parked;
        state.level = None;
        if let Some(patience) = &state.patience {
            patience.renew(None);
        }
    }

    /// Nobody will be asked any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.phase = Phase::Over;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    /// Whether somebody waits for this call who can be asked, and this server has it.
    pub(in crate::gateway) fn is_waited_for(&self, server: &str) -> bool {
        let state = self.state();
        let here = state.server.as_deref() == Some(server);
        self.may_ask && here && state.phase == Phase::WaitedFor
    }

    pub(super) fn server(&self) -> Option<Arc<str>> {
        self.state().server.clone()
    }

    /// What the caller would have to be able to do for the server to get what it asked for.
    pub(super) fn lacking(&self) -> Option<Value> {
        self.state().lacking.clone()
    }

    /// What the caller would have to declare to be told of tasks, if it has not.
    pub(in crate::gateway) fn lacks_tasks(&self) -> Option<Value> {
        let state = self.state();
        let declared = state.capabilities.get("extensions").and_then(|all| all.get(TASKS));
        declared.is_none().then(|| json!({ "extensions": { TASKS: {} } }))
    }

    pub(in crate::gateway) fn level(&self) -> Option<Level> {
        self.state().level
    }

    pub(in crate::gateway) fn goes_to(&self, server: &Arc<str>, patience: Option<&Patience>) {
        let mut state = self.state();
        state.server = Some(server.clone());
        state.patience = patience.cloned();
    }

    /// What a server logs, if the caller asked for it with this call.
    pub(in crate::gateway) fn offer_log(&self, stream: &Outlet, logged: &Notification) {
        let state = self.state();
        let Some(level) = state.level else { return };
        let ours = state.server.as_deref().is_some_and(|server| *server == *logged.server);
        if ours && news::is_at_least(level, logged.params.as_ref()) {
            let params = logged.params.as_ref().map(RawJson::as_bytes);
            stream.offer(wire::notification(&logged.method, params));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// All that wait for an answer, as the caller gets them.
    fn questions(&self) -> Option<RawJson> {
        let all = self.waiting.iter().map(|(key, waiting)| {
            let params = waiting.params.as_ref().and_then(|params| stateless(params).ok());
            (key, Question { method: &waiting.method, params })
        });
        let all: IndexMap<&String, Question<'_>> = all.collect();
        RawJson::from_value(&all).ok().filter(|_| !all.is_empty())
    }
}

/// The params of a question without what has no meaning where nobody can be called back. What is left stays as it was: the
/// order of its fields is that of a form.
fn stateless(params: &RawJson) -> serde_json::Result<IndexMap<String, &RawValue>> {
    let mut params: IndexMap<String, &RawValue> = serde_json::from_slice(params.as_bytes())?;
    params.retain(|name, _| !["_meta", "task", "elicitationId"].contains(&name.as_str()));
    Ok(params)
}

/// What a question is called, among others of its call. It follows from the question alone, so that a caller who knows a tool
/// can bring the answer along; two of a kind are numbered.
fn key(request: &ServerRequest) -> String {
    let params: Value =
        request.params.as_ref().and_then(|params| params.parse().ok()).unwrap_or_default();
    let schema = &params["requestedSchema"];
    let wanted: Vec<&str> = match schema["required"].as_array() {
        Some(required) if !required.is_empty() => {
            required.iter().filter_map(Value::as_str).collect()
        }
        _ => schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| &**name)
            .collect(),
    };
    let key = match request.method.as_str() {
        "elicitation/create" if params["mode"] == "url" => "user_url".to_owned(),
        "elicitation/create" => [&["user"], &wanted[..]].concat().join("_"),
        "roots/list" => "client_roots".to_owned(),
        _ => "model_message".to_owned(),
    };
    let plain = |char: char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' };
    key.chars().map(plain).take(MAX_KEY).collect()
}

fn is_answer(answer: &RawJson) -> bool {
    answer.as_bytes().starts_with(b"{")
}

/// What a client would have to declare to be asked this, if it has not.
fn lacking(declared: &Value, request: &ServerRequest) -> Result<Option<Value>, RpcError> {
    let params = request.params.as_ref().and_then(|params| params::object(params).ok());
    let has = |field: &str| params.as_ref().is_some_and(|params| params.contains_key(field));
    let mode = params.as_ref().and_then(|params| params.get("mode").copied()).map(RawValue::get);
    let (capability, part) = match request.method.as_str() {
        "elicitation/create" if mode == Some("\"url\"") => ("elicitation", Some("url")),
        "elicitation/create" => ("elicitation", Some("form")),
        "sampling/createMessage" if has("tools") || has("toolChoice") => {
            ("sampling", Some("tools"))
        }
        "sampling/createMessage" => ("sampling", None),
        "roots/list" => ("roots", None),
        other => {
            let message = format!("a client of {} cannot be asked {other}", super::VERSION);
            return Err(RpcError::with(METHOD_NOT_FOUND, message));
        }
    };
    let declared = declared.get(capability).and_then(Value::as_object);
    let fits = declared.is_some_and(|declared| match part {
        // To declare no kind means forms.
        Some("form") => declared.contains_key("form") || declared.is_empty(),
        Some(part) => declared.contains_key(part),
        None => true,
    });
    let wanted = match part {
        Some(part) if declared.is_some() || part != "form" => json!({ capability: { part: {} } }),
        _ => json!({ capability: {} }),
    };
    Ok((!fits).then_some(wanted))
}

// === impl Asking ===

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.rounds.state();
        // Another may have its name by now.
        if state.waiting.get(&self.key).is_some_and(|waiting| waiting.number == self.number) {
            state.waiting.shift_remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_keeps_its_order_and_loses_what_cannot_be_meant() {
        let params = r#"{"message":"?","_meta":{"progressToken":1},"requestedSchema":{"z":1.0,"a":{}},"elicitationId":"7"}"#;
        let params = RawJson::from_text(params).unwrap();
        let left = serde_json::to_string(&stateless(&params).unwrap()).unwrap();
        assert_eq!(left, r#"{"message":"?","requestedSchema":{"z":1.0,"a":{}}}"#);
    }
}
