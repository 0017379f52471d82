//! Rounds of questions (2026-07-28): a server that needs something of its caller ends the request by saying so, and is asked
//! again with the answers. Earlier revisions ask in the middle of a call; whoever answers does not notice the difference.

use std::time::Duration;

use futures_util::future::try_join_all;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Call;
use crate::connection::{CallTrack, Lease};
use crate::error::{CallError, CallFailure};
use crate::handlers::{Attribution, ServerRequest};
use crate::protocol::{RawJson, RpcError, code, object_fields};
use crate::retry::Outcome;

/// A server that never has enough is stopped here, as its own clients do.
const MAX_ROUNDS: u32 = 10;
/// For a server that wants nothing but to be asked again.
const COME_AGAIN: Duration = Duration::from_millis(250);

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

/// The call's time stands still until this is dropped.
struct StandingStill<'a>(&'a CallTrack);

/// Whether this is a question rather than a result.
pub(super) fn is_question(result: &RawJson) -> bool {
    let text = result.as_str();
    let mut question = false;
    let found = object_fields(text, |name, value| {
        question |= name == "resultType" && &text[value] == "\"input_required\"";
    });
    found.is_some() && question
}

/// The same without what only tells results from questions: earlier revisions have no such field.
pub(super) fn without_type(result: RawJson) -> RawJson {
    let text = result.as_str();
    let (mut before, mut found) = (None, None);
    let mut end = 0;
    let read = object_fields(text, |name, value| {
        if name == "resultType" {
            before = Some(end);
            found = Some(value.clone());
        }
        end = value.end;
    });
    let (Some(()), Some(before), Some(value)) = (read, before, found) else { return result };
    // With the comma before it, or else with the one behind it.
    let (from, to) = if before > 0 {
        (before, value.end)
    } else {
        let start = text.find('"').unwrap_or(value.start);
        let rest = text[value.end..].trim_start();
        let behind = text.len() - rest.len() + usize::from(rest.starts_with(','));
        (start, behind)
    };
    RawJson::from_text([&text[..from], &text[to..]].concat()).unwrap_or(result)
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
    /// The params of the next round, unless the call ends before somebody has answered.
    pub(super) async fn round_after(
        &self,
        lease: &Lease,
        result: &RawJson,
        rounds: &mut u32,
    ) -> Result<RawJson, CallError> {
        let ended = |failure| {
            self.error(Outcome::Unknown, Some(lease.generation()), self.is_harmless(), failure)
        };
        tokio::select! {
            biased;
            next = self.next_round(lease, result, rounds) => next,
            () = self.cancelled() => Err(ended(CallFailure::Cancelled)),
            () = self.clock.expired() => Err(ended(self.timed_out())),
        }
    }

    async fn next_round(
        &self,
        lease: &Lease,
        result: &RawJson,
        rounds: &mut u32,
    ) -> Result<RawJson, CallError> {
        let generation = Some(lease.generation());
        let failed =
            |error| self.error(Outcome::Answered, generation, false, CallFailure::Rpc(error));
        *rounds += 1;
        if *rounds > MAX_ROUNDS {
            let message = "the server asks for more and more";
            return Err(failed(RpcError::with(code::INTERNAL_ERROR, message)));
        }
        let unusable = |_| {
            failed(RpcError::with(
                code::INTERNAL_ERROR,
                "the server asks in a way nobody understands",
            ))
        };
        let wanted: InputRequired = result.parse().map_err(unusable)?;
        let InputRequired { input_requests, request_state } = wanted;
        if input_requests.is_empty() {
            sleep(COME_AGAIN).await;
        }
        // Its time stands still meanwhile: the server is not to blame for how long a human being thinks.
        let standing_still = self.track.as_deref().map(StandingStill::new);
        let asking = input_requests.into_iter().map(|(key, wanted)| self.ask(lease, key, wanted));
        let answers = try_join_all(asking).await;
        drop(standing_still);
        let answers: IndexMap<String, Box<RawValue>> =
            answers.map_err(failed)?.into_iter().collect();
        self.params_with(&answers, request_state.as_deref()).map_err(unusable)
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
            id: serde_json::Value::from(key.as_str()).into(),
            method: wanted.method,
            params: params.transpose().map_err(unusable)?,
            attribution: Attribution::Call,
            progress,
        };
        let own = self.track.as_ref().and_then(|track| track.handlers.clone());
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
        let first = self.params();
        let mut fields: IndexMap<String, &RawValue> =
            serde_json::from_slice(first.as_deref().unwrap_or(b"{}"))?;
        let answers = serde_json::value::to_raw_value(answers)?;
        fields.shift_remove("requestState");
        fields.insert("inputResponses".into(), &answers);
        if let Some(state) = state {
            fields.insert("requestState".into(), state);
        }
        RawJson::from_text(serde_json::to_string(&fields)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_loses_its_type_and_nothing_else() {
        for (text, without) in [
            (r#"{"resultType":"complete","a":1.0}"#, r#"{"a":1.0}"#),
            (r#"{ "a" : 1.0, "resultType" : "complete" }"#, r#"{ "a" : 1.0 }"#),
            (
                r#"{"a":{"resultType":1},"resultType":"complete","b":[ ]}"#,
                r#"{"a":{"resultType":1},"b":[ ]}"#,
            ),
            (r#"{"resultType":"complete"}"#, "{}"),
            (r#"{ "resultType" : "complete" , "b":2}"#, r#"{  "b":2}"#),
            (r#"{"a":1}"#, r#"{"a":1}"#),
        ] {
            let result = RawJson::from_text(text.to_owned()).unwrap();
            assert_eq!(without_type(result).as_str(), without, "{text}");
        }
    }

    #[test]
    fn a_question_is_told_from_a_result() {
        let question = |text: &str| is_question(&RawJson::from_text(text.to_owned()).unwrap());
        assert!(question(r#"{"inputRequests":{},"resultType": "input_required"}"#));
        assert!(!question(
            r#"{"content":[{"resultType":"input_required"}],"resultType":"complete"}"#
        ));
        assert!(!question(r#"{"content":[]}"#));
    }
}
