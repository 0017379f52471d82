//! One call of a client without a session, over as many requests as it takes.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use evergate_runtime::RawJson;
use futures_util::FutureExt as _;
use http::HeaderMap;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::task::AbortOnDropHandle;

use super::envelope::Envelope;
use super::is_without_handshake;
use super::parked::NotResumed;
use super::results;
use super::rounds::{Answers, Rounds};
use crate::gateway::client::{Client, Scope};
use crate::gateway::error_body::{self, INTERNAL, plain};
use crate::gateway::outlet::Outlet;
use crate::gateway::{Answer, Gateway, RequestContext, params};
use crate::tasks::Tasks;

/// What a call is about. Whoever comes back must come back with the same.
pub(super) type Binding = [u8; 32];

/// Dropped before its end, it is cancelled.
pub(crate) struct StatelessCall {
    /// Where to send what leads up to its answer, over all its requests.
    pub(crate) stream: Outlet,
    pub(super) binding: Binding,
    method: String,
    rounds: Arc<Rounds>,
    running: Running,
}

/// How far a call came.
pub(crate) enum Step {
    Answer(Answer),
    /// Its caller must answer these first.
    Questions(RawJson),
}

enum Running {
    /// Where it is waited for.
    Here(Pin<Box<dyn Future<Output = Answer> + Send>>),
    /// On its own, because nobody waits for it now.
    Apart(AbortOnDropHandle<Answer>),
}

/// Whom a request is for, as its caller says it.
enum Addressee {
    Name(String),
    Uri(String),
    Nobody,
}

/// What concerns rounds in the params of a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoundFields<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(borrow, default)]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

// === impl Gateway ===

impl Gateway {
    /// Begins a call, or goes on with one that waits for its caller. `id` must not be that of another request of the same
    /// client; it need not be the one the client knows.
    pub(crate) fn begin(
        self: &Arc<Self>,
        client: &Arc<Client>,
        id: RawJson,
        (method, params): (String, Option<RawJson>),
        envelope: Envelope,
        stream: Outlet,
        headers: Option<Arc<HeaderMap>>,
    ) -> Result<StatelessCall, RawJson> {
        let fields = params.as_ref().map(|params| serde_json::from_slice(params.as_bytes()));
        let fields: Option<RoundFields<'_>> =
            fields.transpose().map_err(|_| plain(error_body::INVALID_PARAMS, params::NO_OBJECT))?;
        let (mut brought, mut binding) = (Answers::new(), Binding::default());
        let mut foreign = None;
        if let Some(fields) = fields.filter(|_| results::may_ask(&method)) {
            brought = fields.brought();
            binding = fields.binding(client, &method);
            if let Some(state) = fields.request_state.filter(|state| state.get() != "null") {
                let state = params::text(state).unwrap_or_default();
                match self.parked.resume(&state, &binding) {
                    Ok(call) => {
                        let token = params::read(params.as_ref());
                        let token = token.and_then(|fields| fields.progress_token().ok()).flatten();
                        call.rounds.resume(envelope, token, brought);
                        return Ok(call);
                    }
                    // It may be a server's own, which nobody else understands.
                    Err(NotResumed::NotOurs) => foreign = Some(fields.addressee()),
                    Err(error) => return Err(error_body::bad_request_state(&error)),
                }
            }
        }
        let rounds = Arc::new(Rounds::new(envelope, brought));
        let context = RequestContext {
            stream: stream.clone(),
            headers,
            takes_pieces: false,
            rounds: Some(rounds.clone()),
        };
        let (gateway, client, own_method) = (self.clone(), client.clone(), method.clone());
        let calling = async move {
            if let Some(addressee) = foreign
                && let Some(error) = gateway.not_understood(&client, addressee).await
            {
                return Answer::Error(error);
            }
            gateway.request(&client, &id, own_method, params, &context).await
        };
        // A panic ends the call and nothing else.
        let calling = AssertUnwindSafe(calling).catch_unwind().map(|ended| {
            ended.unwrap_or_else(|_| {
                Answer::Error(plain(INTERNAL, "the gateway failed on this request"))
            })
        });
        let running = Running::Here(Box::pin(calling));
        Ok(StatelessCall { stream, binding, method, rounds, running })
    }

    /// Why a note that was not given out here is good for nothing, if it is: a server of an earlier revision would not see
    /// it, and do again what was done before.
    async fn not_understood(
        self: &Arc<Self>,
        client: &Arc<Client>,
        addressee: Addressee,
    ) -> Option<RawJson> {
        let server = match addressee {
            Addressee::Name(name) => {
                self.first_lists(client).await;
                let view = self.view(client);
                let listed = view.merged.tool(&name).or_else(|| view.merged.prompt(&name)).cloned();
                let owner = listed.or_else(|| self.unlisted_owner(client, &name));
                owner.map(|owner| owner.server)
            }
            Addressee::Uri(uri) => self.uri_owner(client, &uri).await,
            Addressee::Nobody => None,
        };
        let not_ours = || Some(error_body::bad_request_state(&NotResumed::NotOurs));
        let Some(server) = server else { return not_ours() };
        let handle = self.server_for(client, &server)?;
        // What it speaks is known while it is connected.
        let mut status = handle.watch_status();
        let found_out = status.wait_for(|status| status.protocol.is_some());
        let wait = self.config().gateway.startup_wait;
        let Ok(status) = tokio::time::timeout(wait, found_out).await else {
            let message = format!("{server} is not connected: nothing was sent, call again later");
            return Some(plain(error_body::NOT_SENT, message));
        };
        let modern = status.protocol.is_some_and(|version| is_without_handshake(version.as_str()));
        if modern { None } else { not_ours() }
    }

    /// What a caller gets for this step. A call that has questions is kept until its caller is back.
    pub(crate) fn answer_of(&self, step: Step, call: StatelessCall) -> Answer {
        let answer = match step {
            Step::Answer(answer) => answer,
            Step::Questions(questions) => {
                return match self.parked.park(call, &self.tasks) {
                    Ok(state) => Answer::Result(input_required(&questions, &state)),
                    Err(error) => Answer::Error(plain(INTERNAL, error.to_string())),
                };
            }
        };
        match answer {
            Answer::Result(result) => Answer::Result(results::complete_of(&call.method, result)),
            Answer::Error(error) => match call.rounds.lacking() {
                // The server could not go on without what the client cannot do.
                Some(lacking) => Answer::Error(error_body::missing_capability(&lacking)),
                None => Answer::Error(results::error_of(error)),
            },
            other => other,
        }
    }
}

fn input_required(questions: &RawJson, state: &str) -> RawJson {
    let text = format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{},\"requestState\":{},\"_meta\":{}}}",
        questions.as_str(),
        json!(state),
        results::our_meta(),
    );
    RawJson::from_valid(text)
}

// === impl StatelessCall ===

impl StatelessCall {
    /// Waits for whatever comes next. Cancel safe.
    pub(crate) async fn step(&mut self) -> Step {
        let answer = async {
            match &mut self.running {
                Running::Here(calling) => calling.await,
                Running::Apart(task) => task.await.unwrap_or(Answer::Cancelled),
            }
        };
        tokio::select! {
            biased;
            answer = answer => Step::Answer(answer.whole().await),
            questions = self.rounds.questions() => Step::Questions(questions),
        }
    }

    /// One that does this, for tests of what becomes of calls.
    #[cfg(test)]
    pub(super) fn doing(
        binding: Binding,
        calling: impl Future<Output = Answer> + Send + 'static,
    ) -> Self {
        let envelope = Envelope { version: String::new(), capabilities: Value::Null, level: None };
        Self {
            stream: Outlet::Log(Arc::new(crate::gateway::event_log::EventLog::of_call())),
            binding,
            method: "tools/call".to_owned(),
            rounds: Arc::new(Rounds::new(envelope, Answers::new())),
            running: Running::Here(Box::pin(calling)),
        }
    }

    /// Goes on without anybody who waits.
    pub(super) fn apart(self, tasks: &Tasks) -> Self {
        self.rounds.park();
        let running = match self.running {
            Running::Here(calling) => Running::Apart(AbortOnDropHandle::new(tasks.spawn(calling))),
            apart @ Running::Apart(_) => apart,
        };
        Self { running, ..self }
    }
}

impl std::fmt::Debug for StatelessCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatelessCall").field("method", &self.method).finish_non_exhaustive()
    }
}

// === impl RoundFields ===

impl RoundFields<'_> {
    /// Answers that came along. Those to questions that nobody asks are no error.
    fn brought(&self) -> Answers {
        let brought = self.input_responses.map(|responses| serde_json::from_str(responses.get()));
        let brought: IndexMap<String, &RawValue> = brought.and_then(Result::ok).unwrap_or_default();
        let raw = |value: &RawValue| RawJson::from_text(value.get().to_owned()).ok();
        brought.into_iter().filter_map(|(key, answer)| Some((key, raw(answer)?))).collect()
    }

    fn addressee(&self) -> Addressee {
        let name = self.name.and_then(params::text).map(|name| Addressee::Name(name.into_owned()));
        let uri = || self.uri.and_then(params::text).map(|uri| Addressee::Uri(uri.into_owned()));
        name.or_else(uri).unwrap_or(Addressee::Nobody)
    }

    /// Whose call it is, and what for.
    fn binding(&self, client: &Client, method: &str) -> Binding {
        let caller = client.caller();
        let scope = match &client.scope {
            Scope::All => None,
            Scope::One(server) => Some(&**server),
        };
        // As JSON, so that no two different sequences look the same.
        let about = json!([
            client.uid,
            caller.name(),
            scope,
            method,
            self.name.and_then(params::text),
            self.uri.and_then(params::text),
            self.arguments,
        ]);
        Sha256::digest(about.to_string()).into()
    }
}
