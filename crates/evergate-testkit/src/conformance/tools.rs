//! What each tool does.

use serde_json::{Value, json};

use super::asking::{Asking, Question};
use super::contents::{audio, embedded, image, text};
use super::offer::{TOGGLED_PROMPT, TOGGLED_TOOL, tool};
use super::{elicitations, now_and_then, telling};
use crate::jsonrpc::Outcome;
use crate::server::modern::MODERN;
use crate::server::{ListKind, Server};
use crate::session::{Session, Sink};

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) server: &'a Server,
    pub(super) session: &'a Session,
    pub(super) sink: &'a Sink,
    pub(super) name: &'a str,
    pub(super) params: &'a Value,
}

// === impl Call ===

impl Call<'_> {
    /// Runs the tool. What it asks for, and what is wrong with a retry, is an `Err`.
    pub(super) async fn run(self, asking: Result<Asking<'_>, Outcome>) -> Result<Outcome, Outcome> {
        self.server.count_call(self.name, None);
        if let Some(content) = self.content() {
            return Ok(Outcome::ok(&json!({ "content": content })));
        }
        match self.name {
            "test_error_handling" => {
                let said = text("This tool intentionally returns an error for testing");
                return Ok(Outcome::ok(&json!({ "content": [said], "isError": true })));
            }
            "test_tool_with_logging" | "test_logging_tool" => {
                telling::log(self.sink, self.session, self.params).await;
            }
            "test_tool_with_progress" => telling::progress(self.sink, self.params).await,
            "test_reconnection" => {
                telling::pause().await;
                // Nobody could come back for the rest in a revision without sessions.
                if self.session.protocol() != MODERN {
                    self.sink.hang_up();
                }
                telling::pause().await;
            }
            "test_trigger_tool_change" => {
                let toggled = tool(TOGGLED_TOOL, &json!({ "type": "object" }));
                self.server.toggle(ListKind::Tools, toggled);
            }
            "test_trigger_prompt_change" => {
                self.server.toggle(ListKind::Prompts, now_and_then(TOGGLED_PROMPT));
            }
            "test_trigger_resource_change" => self.server.notify_list_changed(ListKind::Resources),
            "test_trigger_resource_update" => {
                self.server.update_resource("test://watched-resource");
            }
            _ => return asked(self.name, asking?).await,
        }
        Ok(Outcome::text(&format!("{} is done.", self.name)))
    }

    /// What the tools answer that only answer.
    fn content(&self) -> Option<Value> {
        Some(match self.name {
            "test_simple_text" => json!([text("This is a simple text response for testing.")]),
            "test_image_content" => json!([image()]),
            "test_audio_content" => json!([audio()]),
            "test_embedded_resource" => {
                let said = "This is an embedded resource content.";
                json!([embedded("test://embedded-resource", "text/plain", said)])
            }
            "test_multiple_content_types" => {
                let uri = "test://mixed-content-resource";
                let data = embedded(uri, "application/json", r#"{"test":"data","value":123}"#);
                json!([text("Multiple content types test:"), image(), data])
            }
            "json_schema_2020_12_tool" => json!([text("Its schema is what matters.")]),
            "test_header_params" => json!([text(&self.params["arguments"].to_string())]),
            TOGGLED_TOOL => json!([text("Here now.")]),
            _ => return None,
        })
    }
}

/// The tools that ask their client for something.
async fn asked(name: &str, mut asking: Asking<'_>) -> Result<Outcome, Outcome> {
    let who = |key, message| Question::elicitation(key, message, &elicitations::texts(&["name"]));
    let confirm =
        || Question::elicitation("confirm", "Please confirm", &elicitations::confirmation());
    let said = match name {
        "test_sampling" => {
            let answer =
                asking.ask(Question::sampling("message", asking.argument("prompt"))).await?;
            format!("LLM response: {}", spoken(&answer))
        }
        "test_elicitation" => {
            let form = elicitations::texts(&["username", "email"]);
            let message = asking.argument("message");
            filled_in(&asking.ask(Question::elicitation("user", message, &form)).await?)
        }
        "test_elicitation_sep1034_defaults" => {
            let form = elicitations::defaults();
            filled_in(&asking.ask(Question::elicitation("user", "Please answer", &form)).await?)
        }
        "test_elicitation_sep1330_enums" => {
            let form = elicitations::choices();
            filled_in(&asking.ask(Question::elicitation("user", "Please choose", &form)).await?)
        }
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            greeting(&asking.ask(who("user_name", "What is your name?")).await?)
        }
        "test_input_required_result_sampling" => {
            let question = Question::sampling("capital_question", "What is the capital of France?");
            spoken(&asking.ask(question).await?)
        }
        "test_missing_capability" => {
            spoken(&asking.ask(Question::sampling("message", "Say something")).await?)
        }
        "test_input_required_result_list_roots" => {
            asking.ask(Question::roots("client_roots")).await?["roots"].to_string()
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            let answer = asking.ask_with_state(confirm()).await?;
            format!("state-ok, {}", filled_in(&answer))
        }
        "test_input_required_result_multiple_inputs" => {
            let greet = Question::sampling("greeting", "Generate a greeting");
            let name = who("user_name", "What is your name?");
            let all = vec![name, greet, Question::roots("client_roots")];
            let answers = asking.ask_all(all, true).await?;
            answers.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
        }
        "test_input_required_result_multi_round" => {
            let name = asking.ask_with_state(who("step1", "Step 1: What is your name?")).await?;
            let message = "Step 2: What is your favorite color?";
            let form = elicitations::texts(&["color"]);
            let question = Question::elicitation("step2", message, &form);
            let color = asking.ask_with_state(question).await?;
            format!("{} You like {}.", greeting(&name), color["content"]["color"])
        }
        "test_input_required_result_capabilities" => {
            // Where nothing says what the client behind a client can do, asking for one thing is the safe choice.
            let most = if asking.is_modern() { 3 } else { 1 };
            let all = [
                ("sampling", Question::sampling("message", "Say something")),
                ("elicitation", confirm()),
                ("roots", Question::roots("client_roots")),
            ];
            let able = all.into_iter().filter(|(needed, _)| asking.declares(needed));
            let questions: Vec<_> = able.map(|(_, question)| question).take(most).collect();
            if questions.is_empty() {
                "You cannot be asked for anything.".to_owned()
            } else {
                let answers = asking.ask_all(questions, true).await?;
                answers.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
            }
        }
        _ => return Err(Outcome::error(-32602, &format!("Unknown tool: {name}"))),
    };
    Ok(Outcome::text(&said))
}

fn greeting(answer: &Value) -> String {
    format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("stranger"))
}

fn spoken(answer: &Value) -> String {
    answer["content"]["text"].as_str().unwrap_or("nothing").to_owned()
}

fn filled_in(answer: &Value) -> String {
    let (action, content) = (answer["action"].as_str().unwrap_or_default(), &answer["content"]);
    format!("Elicitation completed: action={action}, content={content}")
}
