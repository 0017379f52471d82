//! Asking the client for something, in the manner of its revision.
//!
//! A fixture asks and goes on with the answers, as if it had waited. Up to 2025-11-25 it does wait, for real requests on
//! its own stream. In 2026-07-28 it ends with an `input_required` result, runs from its beginning again with every
//! retry, and finds there what was answered in the rounds before.

use serde_json::{Map, Value, json};

use super::sealed_state;
use crate::jsonrpc::{Outcome, Request};
use crate::server::Server;
use crate::server::modern::{Envelope, MODERN};
use crate::session::{Session, Sink};

/// One thing that a fixture wants of the client.
#[derive(Debug)]
pub(super) struct Question {
    /// What its answer is called in a result; no two in one round are called the same.
    pub(super) key: &'static str,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

#[derive(Debug)]
pub(super) struct Asking<'a> {
    server: &'a Server,
    sink: &'a Sink,
    params: &'a Value,
    /// What the client can be asked for.
    capabilities: Value,
    modern: bool,
    /// The fixture, so that nobody can use its state for another.
    of: String,
    /// The answers of earlier rounds, one object per round.
    answered: Vec<Value>,
    /// What came with this retry; it answers one round.
    fresh: Option<&'a Value>,
    /// The round that is asked next.
    next: usize,
}

// === impl Question ===

impl Question {
    pub(super) fn elicitation(key: &'static str, message: &str, schema: &Value) -> Self {
        let params = json!({ "message": message, "requestedSchema": schema });
        Self { key, method: "elicitation/create", params }
    }

    pub(super) fn sampling(key: &'static str, prompt: &str) -> Self {
        let content = super::contents::text(prompt);
        let params =
            json!({ "messages": [super::contents::from_user(&content)], "maxTokens": 100 });
        Self { key, method: "sampling/createMessage", params }
    }

    pub(super) fn roots(key: &'static str) -> Self {
        Self { key, method: "roots/list", params: json!({}) }
    }

    /// The capability without which a client must not be asked.
    fn needs(&self) -> &'static str {
        match self.method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            _ => "roots",
        }
    }

    /// Whether this can be an answer at all.
    fn takes(&self, answer: &Value) -> bool {
        match self.method {
            "elicitation/create" => answer["action"].is_string(),
            "sampling/createMessage" => !answer["content"].is_null(),
            _ => answer["roots"].is_array(),
        }
    }
}

// === impl Asking ===

impl<'a> Asking<'a> {
    /// Begins the work on a request, which fails with a state that is not ours.
    pub(super) fn begin(
        server: &'a Server,
        session: &Session,
        sink: &'a Sink,
        request: &'a Request,
    ) -> Result<Self, Outcome> {
        let params = &request.params;
        let modern = session.protocol() == MODERN;
        let capabilities = if modern {
            Envelope::of(params).capabilities().clone()
        } else {
            session.client_capabilities()
        };
        let of = format!("{} {}", request.method, params["name"]);
        let state = params.get("requestState").filter(|state| modern && !state.is_null());
        let answered = match state {
            None => Some(Vec::new()),
            Some(state) => state.as_str().and_then(|state| sealed_state::open(&of, state)),
        };
        let Some(answered) = answered else {
            let data = json!({ "reason": "invalid_request_state" });
            let message = "Invalid or expired requestState";
            let error = json!({ "code": -32602, "message": message, "data": data });
            return Err(Outcome::Error(error.to_string()));
        };
        let fresh = params.get("inputResponses").filter(|_| modern);
        Ok(Self { server, sink, params, capabilities, modern, of, answered, fresh, next: 0 })
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern
    }

    pub(super) fn declares(&self, capability: &str) -> bool {
        self.capabilities[capability].is_object()
    }

    /// Asks for one thing.
    pub(super) async fn ask(&mut self, question: Question) -> Result<Value, Outcome> {
        let mut answers = self.ask_all(vec![question], false).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Like [`Asking::ask`], and gives the client a state to bring back.
    pub(super) async fn ask_with_state(&mut self, question: Question) -> Result<Value, Outcome> {
        let mut answers = self.ask_all(vec![question], true).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Asks for everything at once; the answers come in the order of the questions.
    pub(super) async fn ask_all(
        &mut self,
        questions: Vec<Question>,
        with_state: bool,
    ) -> Result<Vec<Value>, Outcome> {
        let missing: Map<String, Value> = questions
            .iter()
            .filter(|question| !self.declares(question.needs()))
            .map(|question| (question.needs().to_owned(), json!({})))
            .collect();
        if !missing.is_empty() {
            let data = json!({ "requiredCapabilities": missing });
            let message = "Missing required client capability";
            let error = json!({ "code": -32021, "message": message, "data": data });
            return Err(Outcome::Error(error.to_string()));
        }
        if self.modern {
            self.ask_by_result(&questions, with_state)
        } else {
            self.ask_by_requests(&questions).await
        }
    }

    fn ask_by_result(
        &mut self,
        questions: &[Question],
        with_state: bool,
    ) -> Result<Vec<Value>, Outcome> {
        let round = self.next;
        self.next += 1;
        if let Some(earlier) = self.answered.get(round) {
            return Ok(questions.iter().map(|question| earlier[question.key].clone()).collect());
        }
        let fresh = self.fresh.take().unwrap_or(&Value::Null);
        let answer = |question: &Question| {
            fresh.get(question.key).filter(|answer| question.takes(answer)).cloned()
        };
        if let Some(answers) = questions.iter().map(answer).collect::<Option<Vec<_>>>() {
            let keys = questions.iter().map(|question| question.key.to_owned());
            self.answered.push(Value::Object(keys.zip(answers.clone()).collect()));
            return Ok(answers);
        }
        let asked: Map<String, Value> = questions
            .iter()
            .map(|Question { key, method, params }| {
                ((*key).to_owned(), json!({ "method": method, "params": params }))
            })
            .collect();
        let mut result = json!({ "resultType": "input_required", "inputRequests": asked });
        if with_state || !self.answered.is_empty() {
            result["requestState"] = sealed_state::seal(&self.of, &self.answered).into();
        }
        Err(Outcome::ok(&result))
    }

    async fn ask_by_requests(&self, questions: &[Question]) -> Result<Vec<Value>, Outcome> {
        // All of them are on their way before the first is waited for.
        let asked: Vec<_> = questions
            .iter()
            .map(|question| self.server.ask_on(self.sink, question.method, &question.params))
            .collect();
        let mut answers = Vec::new();
        for answer in asked {
            let Ok(mut response) = answer.await else {
                return Err(Outcome::error(-32603, "there is no stream to ask the client on"));
            };
            if let Some(error) = response.get("error") {
                return Err(Outcome::Error(error.to_string()));
            }
            answers.push(response["result"].take());
        }
        Ok(answers)
    }

    /// The arguments of the tool or the prompt.
    pub(super) fn argument(&self, name: &str) -> &'a str {
        self.params["arguments"][name].as_str().unwrap_or_default()
    }
}
