//! One call of a client without a session, over as many requests as it takes.

use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evergate_runtime::{Own, RawJson};
use futures_util::FutureExt as _;
use http::HeaderMap;
use indexmap::IndexMap;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::task::AbortOnDropHandle;

use super::envelope::Envelope;
use super::is_without_handshake;
use super::parked::{NotParked, NotResumed};
use super::results;
use super::rounds::{Answers, Rounds};
use crate::gateway::client::{Client, Scope};
use crate::gateway::error_body::{self, INTERNAL, plain};
use crate::gateway::outlet::Outlet;
use crate::gateway::{Answer, ClientRequest, Gateway, RequestContext, params};
use crate::tasks::Tasks;

/// What a call is about. Whoever comes back must come back with the same.
pub(super) type Binding = [u8; 32];

/// Dropped before its end, it is cancelled.
pub(crate) struct StatelessCall {
    /// Where to send what leads up to its answer, over all its requests.
    pub(crate) stream: Outlet,
    pub(super) client: Arc<Client>,
    pub(super) rounds: Arc<Rounds>,
    method: Cow<'static, str>,
    /// Of its first request.
    params: Option<RawJson>,
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
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RoundFields<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
}

/// Calls of callers who cannot be told apart are of different callers: what one is asked is none of the others' business.
static NOBODY: AtomicU64 = AtomicU64::new(0);

// === impl Gateway ===

impl Gateway {
    /// Begins a call, or goes on with one that waits for its caller. `id` must not be that of another request of the same
    /// client; it need not be the one the client knows.
    pub(crate) fn begin(
        self: &Arc<Self>,
        client: &Arc<Client>,
        id: RawJson,
        (method, params): (Cow<'static, str>, Option<RawJson>),
        envelope: Envelope,
        stream: Outlet,
        headers: Option<Arc<HeaderMap>>,
    ) -> Result<StatelessCall, RawJson> {
        let may_ask = results::may_ask(&method);
        let mut brought = Answers::new();
        let mut foreign = None;
        // Few requests come back, and those that do not need not be read for it.
        if let Some(params) = params.as_ref().filter(|params| may_ask && comes_back(params)) {
            let fields = RoundFields::of(params)?;
            brought = fields.brought();
            if let Some(state) = fields.request_state.filter(|state| state.get() != "null") {
                let state = params::text(state).unwrap_or_default();
                let binding = fields.binding(client, &method);
                match self.parked.resume(&state, &binding) {
                    Ok(call) => {
                        let token = params::read(Some(params));
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
        let caller =
            client.known_number().unwrap_or_else(|| NOBODY.fetch_add(1, Ordering::Relaxed));
        let rounds = Arc::new(Rounds::new(caller, may_ask, envelope, brought));
        let context = RequestContext {
            stream: stream.clone(),
            headers,
            takes_pieces: false,
            rounds: Some(rounds.clone()),
        };
        let (gateway, own_client) = (self.clone(), client.clone());
        let mut asked =
            ClientRequest { method: method.clone(), params: params.clone(), noted: None };
        let calling = async move {
            if let Some(addressee) = foreign
                && let Some(error) = gateway.not_understood(&own_client, addressee).await
            {
                return Answer::Error(error);
            }
            gateway.request(&Own::new(own_client), &id, &mut asked, &context).await
        };
        // A panic ends the call and nothing else.
        let calling = AssertUnwindSafe(calling).catch_unwind().map(|ended| {
            ended.unwrap_or_else(|_| {
                Answer::Error(plain(INTERNAL, "the gateway failed on this request"))
            })
        });
        let running = Running::Here(Box::pin(calling));
        Ok(StatelessCall { stream, client: client.clone(), rounds, method, params, running })
    }

    /// Why a note that was not given out here is good for nothing, if it is: a server of an earlier revision would not see
    /// it, and do again what was done before.
    async fn not_understood(
        self: &Arc<Self>,
        client: &Arc<Client>,
        addressee: Addressee,
    ) -> Option<RawJson> {
        let server = match addressee {
            Addressee::Name(name) => match self.tool_owner(client, &name).await {
                Some(owner) => Some(owner.server.clone()),
                None => self.prompt_owner(client, &name).await.map(|owner| owner.server),
            },
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
            return Some(error_body::away(&server));
        };
        let modern = status.protocol.is_some_and(|version| is_without_handshake(version.as_str()));
        if modern { None } else { not_ours() }
    }

    /// What a caller gets for this step. A call that has questions is kept until its caller is back.
    pub(crate) fn answer_of(&self, step: Step, call: StatelessCall) -> Answer {
        let answer = match step {
            Step::Answer(answer) => answer,
            Step::Questions(questions) => {
                let server = call.rounds.server().unwrap_or_else(|| "".into());
                let parked = if self.draining.has_begun() {
                    Err(NotParked::Draining)
                } else {
                    self.parked.park(call, &self.tasks)
                };
                return match parked {
                    Ok(state) => Answer::Result(input_required(&questions, &state)),
                    Err(error) => Answer::Error(error_body::gave_up(&server, &error)),
                };
            }
        };
        match answer {
            Answer::Result(result) => Answer::Result(results::complete_of(&call.method, result)),
            Answer::Error(error) => match call.rounds.lacking() {
                // The server could not go on without what the client cannot do.
                Some(lacking) if !error_body::is_our_own(&error) => {
                    Answer::Error(error_body::missing_capability(&lacking))
                }
                _ => Answer::Error(results::error_of(error)),
            },
            other => other,
        }
    }
}

/// Whether a request may bring answers along.
fn comes_back(params: &RawJson) -> bool {
    let has = |field: &[u8]| memmem::find(params.as_bytes(), field).is_some();
    has(b"requestState") || has(b"inputResponses")
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
        client: Client,
        calling: impl Future<Output = Answer> + Send + 'static,
    ) -> Self {
        let envelope = Envelope {
            version: String::new(),
            capabilities: Value::Null,
            client_info: None,
            level: None,
        };
        Self {
            stream: Outlet::Nowhere,
            client: Arc::new(client),
            rounds: Arc::new(Rounds::new(0, true, envelope, Answers::new())),
            method: "tools/call".into(),
            params: None,
            running: Running::Here(Box::pin(calling)),
        }
    }

    /// Goes on without anybody who waits.
    pub(super) fn go_apart(&mut self, tasks: &Tasks) {
        self.rounds.park();
        if let Running::Here(calling) = &mut self.running {
            let calling = std::mem::replace(calling, Box::pin(std::future::pending()));
            self.running = Running::Apart(AbortOnDropHandle::new(tasks.spawn(calling)));
        }
    }

    pub(super) fn binding(&self) -> Binding {
        let params = self.params.as_ref().and_then(|params| RoundFields::of(params).ok());
        params.unwrap_or_default().binding(&self.client, &self.method)
    }
}

impl Drop for StatelessCall {
    fn drop(&mut self) {
        // What it was to ask for others, others must.
        self.rounds.end();
    }
}

impl std::fmt::Debug for StatelessCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatelessCall").field("method", &self.method).finish_non_exhaustive()
    }
}

// === impl RoundFields ===

impl<'a> RoundFields<'a> {
    fn of(params: &'a RawJson) -> Result<Self, RawJson> {
        let read = serde_json::from_slice(params.as_bytes());
        read.map_err(|_| plain(error_body::INVALID_PARAMS, params::NO_OBJECT))
    }

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
        // Read and written again: not everybody writes twice alike.
        let arguments = self.arguments.and_then(|arguments| {
            let read: serde_json::Result<Value> = serde_json::from_str(arguments.get());
            read.ok()
        });
        // As JSON, so that no two different sequences look the same.
        let about = json!([
            client.owner(),
            caller.name(),
            scope,
            method,
            self.name.and_then(params::text),
            self.uri.and_then(params::text),
            arguments,
        ]);
        Sha256::digest(about.to_string()).into()
    }
}
