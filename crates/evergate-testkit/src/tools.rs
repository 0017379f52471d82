//! The built-in tools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Server;
use crate::conformance::is_as_severe;
use crate::jsonrpc::{Outcome, Request, notification};
use crate::server::modern::{self, Envelope, MODERN};
use crate::session::{Session, Sink};

/// Tools that speak before they answer, so that HTTP must answer with a stream.
const STREAMING: [&str; 5] = ["progress", "sample", "elicit", "roots", "log"];

const NAMES: [&str; 15] = [
    "echo",
    "bump",
    "read",
    "again",
    "slow",
    "progress",
    "hold",
    "big",
    "fail",
    "rpc_error",
    "sample",
    "elicit",
    "roots",
    "log",
    "raw",
];

pub(crate) fn needs_stream(request: &Request) -> bool {
    request.tool().is_some_and(|tool| STREAMING.contains(&tool))
}

pub(crate) fn is_built_in(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The tool objects, as `tools/list` shows them.
pub(crate) fn built_in() -> Vec<Value> {
    let annotations = |name: &str| match name {
        "read" => json!({ "readOnlyHint": true }),
        "again" => json!({ "idempotentHint": true }),
        _ => Value::Null,
    };
    NAMES.iter().map(|name| describe(name, annotations(name))).collect()
}

/// A tool object that takes any arguments.
pub(crate) fn describe(name: &str, annotations: Value) -> Value {
    let mut tool = json!({
        "name": name,
        "description": format!("The scripted tool {name}"),
        "inputSchema": { "type": "object", "additionalProperties": true },
    });
    if !annotations.is_null() {
        tool["annotations"] = annotations;
    }
    tool
}

/// Runs a built-in tool. Cancelling drops this future.
pub(crate) async fn run(
    server: &Server,
    session: &Session,
    sink: &Sink,
    name: &str,
    params: &Value,
) -> Outcome {
    let modern = session.protocol() == MODERN;
    let ask = async |method: &str, asked: Value| {
        if modern {
            modern::ask(params, method, asked)
        } else {
            ask(server, sink, method, asked).await
        }
    };
    let arguments = &params["arguments"];
    let number = |key: &str| arguments[key].as_u64().unwrap_or_default();
    match name {
        "echo" => Outcome::text(arguments["text"].as_str().unwrap_or_default()),
        "bump" => Outcome::text(&server.bump().to_string()),
        "read" | "again" => Outcome::text(name),
        "slow" => {
            tokio::time::sleep(Duration::from_millis(number("ms"))).await;
            Outcome::text("slow but done")
        }
        "progress" => progress(sink, params, number("steps"), number("ms")).await,
        "hold" => {
            server.held().await;
            Outcome::text("released")
        }
        "big" => {
            let bytes = usize::try_from(number("bytes")).unwrap_or_default();
            Outcome::text(&"x".repeat(bytes))
        }
        "fail" => Outcome::ok(&json!({
            "content": [{ "type": "text", "text": "this tool always fails" }],
            "isError": true,
        })),
        "rpc_error" => Outcome::Error(
            // `hint` is in no specification: clients must let it pass.
            r#"{"code":-32050,"message":"scripted error","data":{"why":"asked to"},"hint":"extra"}"#
                .into(),
        ),
        "sample" => {
            let message = json!({ "role": "user", "content": { "type": "text", "text": "Say hi" } });
            let asked = json!({ "messages": [message], "maxTokens": 16 });
            ask("sampling/createMessage", asked).await
        }
        "elicit" => {
            let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
            let asked = json!({ "message": "Who are you?", "requestedSchema": schema });
            let outcome = ask("elicitation/create", asked).await;
            // Once it knows.
            if !modern || params["inputResponses"]["answer"].is_object() {
                match arguments["then"].as_str() {
                    Some("hold") => server.held().await,
                    Some("progress") => drop(progress(sink, params, 2, 10).await),
                    _ => {}
                }
            }
            outcome
        }
        "roots" => ask("roots/list", Value::Null).await,
        "log" => {
            let said = json!({ "level": "info", "logger": "testkit", "data": "from the tool log" });
            let said = arguments.get("params").unwrap_or(&said);
            let method = arguments["method"].as_str().unwrap_or("notifications/message");
            let level = said["level"].as_str().unwrap_or_default();
            let wanted = if method != "notifications/message" {
                true
            } else if modern {
                Envelope::of(params).log_level().is_some_and(|wanted| is_as_severe(level, wanted))
            } else {
                // Without a word from the client it is the server that chooses.
                let wanted = server.state().tally.log_level.clone();
                wanted.is_none_or(|wanted| is_as_severe(level, &wanted))
            };
            if wanted {
                sink.send(notification(method, said));
            }
            Outcome::text("logged")
        }
        "raw" => Outcome::Result(arguments["json"].as_str().unwrap_or("{}").into()),
        _ => Outcome::error(-32602, &format!("Unknown tool: {name}")),
    }
}

async fn progress(sink: &Sink, params: &Value, steps: u64, ms: u64) -> Outcome {
    let token = &params["_meta"]["progressToken"];
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        if !token.is_null() {
            let params = json!({ "progressToken": token, "progress": step, "total": steps });
            sink.send(notification("notifications/progress", &params));
        }
    }
    Outcome::text("all steps done")
}

/// Asks the client something on the call's own stream and returns what came back as text.
async fn ask(server: &Server, sink: &Sink, method: &str, params: Value) -> Outcome {
    match server.ask_on(sink, method, &params).await {
        Ok(response) => Outcome::text(&response.to_string()),
        Err(_) => Outcome::error(-32603, "this call has no stream to ask the client on"),
    }
}
