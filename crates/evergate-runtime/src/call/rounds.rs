//! Rounds of questions (2026-07-28): a server that needs something of its caller ends the request by saying so, and is asked
//! again with the answers. Earlier revisions ask in the middle of a call; whoever answers does not notice the difference.
//!
//! What a server asked, only it understands the answers to: if it is gone, or has forgotten, all that is left is to begin
//! with the first round. That one may be repeated, because whoever ends it with a question expects the same request again.
//! But a round that came with answers may have done something before it asked for more, so after one only what may be
//! sent twice anyway begins again; of anything else nobody knows what has become.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::result_type::{ResultType, without_type};
use super::{Call, Resends};
use crate::connection::{CallTrack, Lease};
use crate::error::{CallError, CallFailure};
use crate::handlers::{Attribution, ServerRequest};
use crate::lifecycle::Generation;
use crate::protocol::{RawJson, RpcError, code, method};
use crate::retry::{Decision, Outcome};
use crate::transport::TransportError;

/// A server that never has enough is stopped here, as its own clients do.
const MAX_ROUNDS: u32 = 10;
/// And one that asks for more than this at once; others may not have more requests under way either.
const MAX_QUESTIONS: usize = 64;
/// A server that comes and goes is not asked from the beginning for ever.
const MAX_RESTARTS: u32 = 2;
/// For a server that wants nothing but to be asked again.
const COME_AGAIN: Duration = Duration::from_millis(250);

/// What a server is asked with after it asked for something itself. Only the one that asked understands it.
pub(super) struct Round {
    pub(super) generation: Generation,
    pub(super) params: RawJson,
}

/// What became of a result.
pub(super) enum Taken {
    /// It is one.
    Result(RawJson),
    /// It was a question, which is answered.
    Round(Round),
    /// It was one, and the server was gone before it was answered.
    Nothing,
}

/// What was repeated so far.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    rounds: u32,
    restarts: u32,
    /// A round with answers was executed, or may have been.
    went_on: bool,
    relisted: bool,
}

/// What a server wants before it goes on.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InputRequired {
    input_requests: IndexMap<String, InputRequest>,
    request_state: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct InputRequest {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// What a caller says of itself in its params, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Declared {
    #[serde(rename = "_meta")]
    meta: DeclaredMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeclaredMeta {
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: DeclaredCapabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeclaredCapabilities {
    extensions: IndexMap<String, IgnoredAny>,
}

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The call's time stands still until this is dropped.
struct StandingStill<'a>(&'a CallTrack);

/// Whether the server does not know its own note any more: another process of it, which only a new beginning helps.
fn is_forgotten(error: &CallError) -> bool {
    #[derive(Deserialize)]
    struct Refused {
        data: Reason,
    }
    #[derive(Deserialize)]
    struct Reason {
        reason: String,
    }
    let CallFailure::Rpc(error) = &error.source else { return false };
    let reason = error.raw.parse::<Refused>().map(|refused| refused.data.reason);
    error.code == code::INVALID_PARAMS
        && reason.is_ok_and(|reason| reason == "invalid_request_state")
}

// === impl StandingStill ===

impl<'a> StandingStill<'a> {
    fn new(track: &'a CallTrack) -> Self {
        track.asked();
        Self(track)
    }
}

impl Drop for StandingStill<'_> {
    fn drop(&mut self) {
        self.0.told();
    }
}

// === impl Call ===

impl Call {
    /// A result of a server without a handshake, as callers of all servers know it.
    pub(super) fn complete(&self, result: RawJson) -> RawJson {
        if self.request.method() == method::PING {
            return RawJson::empty_object();
        }
        without_type(result)
    }

    /// Deals with what is not complete.
    pub(super) async fn take_other(
        &self,
        lease: &Lease,
        kind: ResultType,
        result: RawJson,
        repeats: &mut Repeats,
    ) -> Result<Taken, CallError> {
        let what = match kind {
            ResultType::Complete => return Ok(Taken::Result(result)),
            ResultType::Question => return self.answer_question(lease, &result, repeats).await,
            ResultType::Task if self.takes_tasks() => return Ok(Taken::Result(result)),
            ResultType::Task => "the server made a task of the call, which nobody asked for",
            ResultType::Unknown => "the server answered with a type of result that nobody knows",
        };
        Err(self.unusable(lease, what))
    }

    /// Goes back to the beginning, because nobody is left who would understand the next round.
    pub(super) fn start_again(
        &mut self,
        generation: Generation,
        repeats: &mut Repeats,
    ) -> Result<(), CallError> {
        self.round = None;
        self.may_have_run.store(true, Ordering::Relaxed);
        repeats.restarts += 1;
        let never_sent_twice = Resends { resent: false, renewed: false };
        let may_begin_again = !repeats.went_on
            || self.decide(Outcome::Unknown, never_sent_twice, false) == Decision::Resend;
        if repeats.restarts > MAX_RESTARTS || !may_begin_again {
            let failure = CallFailure::of_transport(TransportError::QuestionForgotten);
            let retryable = self.is_harmless();
            return Err(self.error(Outcome::Unknown, Some(generation), retryable, failure));
        }
        Ok(())
    }

    /// What was sent last was executed, or may have been.
    pub(super) fn note_executed(&self, repeats: &mut Repeats) {
        repeats.went_on |= self.round.is_some();
    }

    /// Whether an error is one that sending it differently takes away.
    pub(super) async fn can_be_mended(
        &mut self,
        lease: &Lease,
        error: &CallError,
        repeats: &mut Repeats,
    ) -> Result<bool, CallError> {
        if self.round.is_some() && is_forgotten(error) && repeats.restarts < MAX_RESTARTS {
            self.start_again(lease.generation(), repeats)?;
            return Ok(true);
        }
        if !repeats.relisted && self.lacks_headers(lease, error) {
            repeats.relisted = true;
            return self.relist(lease).await;
        }
        Ok(false)
    }

    /// The next round, unless the call or the connection ends before somebody has answered.
    async fn answer_question(
        &self,
        lease: &Lease,
        result: &RawJson,
        repeats: &mut Repeats,
    ) -> Result<Taken, CallError> {
        self.note_executed(repeats);
        let ended = |failure| {
            self.error(Outcome::Unknown, Some(lease.generation()), self.is_harmless(), failure)
        };
        tokio::select! {
            biased;
            next = self.next_round(lease, result, repeats) => {
                let round = Round { generation: lease.generation(), params: next? };
                Ok(Taken::Round(round))
            }
            () = self.cancelled() => Err(ended(CallFailure::Cancelled)),
            () = self.clock.expired() => Err(ended(self.timed_out())),
            () = lease.is_cut().cancelled() => Ok(Taken::Nothing),
        }
    }

    async fn next_round(
        &self,
        lease: &Lease,
        result: &RawJson,
        repeats: &mut Repeats,
    ) -> Result<RawJson, CallError> {
        repeats.rounds += 1;
        if repeats.rounds > MAX_ROUNDS {
            return Err(self.unusable(lease, "the server asks for more and more"));
        }
        let nonsense = |_| self.unusable(lease, "the server asks in a way nobody understands");
        let wanted: InputRequired = result.parse().map_err(nonsense)?;
        let InputRequired { input_requests, request_state } = wanted;
        if input_requests.len() > MAX_QUESTIONS {
            return Err(self.unusable(lease, "the server asks for too much at once"));
        }
        if input_requests.is_empty() {
            if request_state.is_none() {
                return Err(
                    self.unusable(lease, "the server wants something and does not say what")
                );
            }
            sleep(COME_AGAIN).await;
        }
        // Its time stands still meanwhile: the server is not to blame for how long a human being thinks.
        let standing_still = self.track().map(|track| StandingStill::new(track));
        let asking = input_requests.into_iter().map(|(key, wanted)| self.ask(lease, key, wanted));
        let answers = try_join_all(asking).await;
        drop(standing_still);
        let answers = answers.map_err(|error| self.answered_with(lease, error))?;
        let answers: IndexMap<String, Box<RawValue>> = answers.into_iter().collect();
        self.params_with(&answers, request_state.as_deref()).map_err(nonsense)
    }

    fn unusable(&self, lease: &Lease, what: &str) -> CallError {
        self.answered_with(lease, RpcError::with(code::INTERNAL_ERROR, what))
    }

    fn answered_with(&self, lease: &Lease, error: RpcError) -> CallError {
        self.error(Outcome::Answered, Some(lease.generation()), false, CallFailure::Rpc(error))
    }

    /// Whether the caller said itself that it knows what to do with a task.
    fn takes_tasks(&self) -> bool {
        let params: Declared = serde_json::from_slice(&self.first_params()).unwrap_or_default();
        params.meta.capabilities.extensions.contains_key(TASKS)
    }

    async fn ask(
        &self,
        lease: &Lease,
        key: String,
        wanted: InputRequest,
    ) -> Result<(String, Box<RawValue>), RpcError> {
        let unusable = |_| RpcError::with(code::INTERNAL_ERROR, "unusable");
        let params =
            wanted.params.map(|params| RawJson::from_text(String::from(Box::<str>::from(params))));
        // Nobody hears how far an answer is: there is no request under way that it could be about.
        let (progress, _) = mpsc::channel(1);
        let request = ServerRequest {
            server: self.slot.name.clone(),
            generation: lease.generation(),
            method: wanted.method,
            params: params.transpose().map_err(unusable)?,
            attribution: Attribution::Call,
            call: self.track().and_then(|track| track.company.number),
            progress,
        };
        let own = self.track().and_then(|track| track.company.handlers.clone());
        let handlers = own.unwrap_or_else(|| lease.inbox().handlers().clone());
        let answer = handlers.handle(request).await?;
        let answer = RawValue::from_string(answer.as_str().to_owned()).map_err(unusable)?;
        Ok((key, answer))
    }

    /// The first params again, with the answers of this round and the server's own note, byte for byte.
    fn params_with(
        &self,
        answers: &IndexMap<String, Box<RawValue>>,
        state: Option<&RawValue>,
    ) -> Result<RawJson, serde_json::Error> {
        let first = self.first_params();
        let mut fields: IndexMap<String, &RawValue> = serde_json::from_slice(&first)?;
        let given = serde_json::value::to_raw_value(answers)?;
        fields.shift_remove("inputResponses");
        fields.shift_remove("requestState");
        if !answers.is_empty() {
            fields.insert("inputResponses".into(), &given);
        }
        if let Some(state) = state {
            fields.insert("requestState".into(), state);
        }
        RawJson::from_text(serde_json::to_string(&fields)?)
    }
}
