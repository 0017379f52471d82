//! Prompts.

use serde_json::{Value, json};

use super::asking::{Asking, Question};
use super::contents::{embedded, from_user, image, text};
use super::elicitations;
use crate::jsonrpc::Outcome;

pub(super) fn list() -> Vec<Value> {
    let prompt = |name: &str, arguments: &[&str]| {
        let argument = |name: &&str| json!({ "name": name, "description": name, "required": true });
        let arguments: Vec<Value> = arguments.iter().map(argument).collect();
        json!({
            "name": name,
            "description": format!("The fixture {name}"),
            "arguments": arguments,
        })
    };
    vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ]
}

pub(super) async fn get(
    name: &str,
    params: &Value,
    asking: Result<Asking<'_>, Outcome>,
) -> Result<Outcome, Outcome> {
    let argument = |name: &str| params["arguments"][name].as_str().unwrap_or_default();
    let messages = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let said = "Embedded resource content for testing.";
            let resource = embedded(argument("resourceUri"), "text/plain", said);
            vec![resource, text("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        "test_input_required_result_prompt" => {
            let message = "What context should the prompt use?";
            let form = elicitations::texts(&["context"]);
            let question = Question::elicitation("user_context", message, &form);
            let answer = asking?.ask(question).await?;
            let context = answer["content"]["context"].as_str().unwrap_or("no context");
            vec![text(&format!("Prompt with {context}"))]
        }
        super::offer::TOGGLED_PROMPT => vec![text("Here now.")],
        _ => return Err(Outcome::error(-32602, &format!("Unknown prompt: {name}"))),
    };
    let messages: Vec<Value> = messages.iter().map(from_user).collect();
    Ok(Outcome::ok(&json!({ "messages": messages })))
}
