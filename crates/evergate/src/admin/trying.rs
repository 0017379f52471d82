//! A tool called by an operator, to see whether it works.

use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{CallFailure, RawJson, Reply};
use serde_json::Value;

use super::model::{CallOutcome, CallTrouble, Problem, ProblemCode, TriedCall, TryCall};
use crate::config::Isolation;
use crate::front::keys::Caller;
use crate::gateway::{Gateway, error_body};
use crate::observed::{Beginning, Recording, brief};

/// An operator waits no longer.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// On the shared connection, as any client's call: it obeys its caller's key, waits, recovers, and is remembered.
pub(crate) async fn call(
    gateway: &Arc<Gateway>,
    name: &str,
    wanted: TryCall,
    by: Caller,
) -> Result<TriedCall, Problem> {
    let config = gateway.config();
    let server = config.servers.get(name);
    let server = server.ok_or_else(|| Problem::unknown_server(name, &config))?;
    if server.isolation == Isolation::PerClient {
        return Err(Problem::conflict(format!(
            "each client has a connection to {name} of its own, and there is none to try it on"
        )));
    }
    let Ok(handle) = gateway.hub().server(name) else {
        return Err(Problem::conflict(format!("{name} is not started")));
    };
    let arguments = match wanted.arguments {
        None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(arguments @ Value::Object(_)) => arguments,
        Some(_) => {
            let message = "arguments must be an object";
            return Err(Problem::new(ProblemCode::BadRequest, message));
        }
    };
    if !gateway.opens(&by, name, &wanted.tool) {
        let message = format!("this key does not open the tool {:?} of {name}", wanted.tool);
        return Err(Problem::new(ProblemCode::Forbidden, message));
    }
    if let Some(entry) = gateway.hub().catalog().server(name)
        && entry.tool(&wanted.tool).is_none()
    {
        let known = entry.tools.iter().map(|tool| tool.key.as_str());
        return Err(Problem::unknown(ProblemCode::UnknownTool, "tool", &wanted.tool, known));
    }
    if let Err(retry_in) = by.spend() {
        let seconds = error_body::whole_seconds(retry_in);
        let message = format!("this key may not call so often: try again in {seconds} s");
        return Err(Problem::new(ProblemCode::RateLimited, message));
    }
    let arguments = RawJson::from(arguments);
    let mut recording = Recording::begin(
        &gateway.observed,
        Beginning {
            client: Arc::from("(operator)"),
            caller: by,
            server: Arc::from(name),
            method: "tools/call".into(),
            tool: Some(brief(&wanted.tool).into()),
            request_bytes: arguments.as_bytes().len(),
            params: None,
            session: None,
            name: None,
            trace: None,
            keep: gateway.config().gateway.recent_calls,
        },
    );
    let mut call = handle.call_tool(&wanted.tool, arguments);
    if let Some(timeout) = wanted.timeout_ms {
        call = call.deadline(Duration::from_millis(timeout).min(LONGEST));
    }
    let result = match call.reported(false, &mut recording.report).await {
        Ok(reply) => Reply::whole(reply).await,
        Err(error) => Err(error),
    };
    let report = recording.report;
    let duration = recording.duration();
    let (outcome, result, error) = match result {
        Ok(result) => {
            recording.received(result.as_bytes().len());
            recording.answered();
            (CallOutcome::Answered, result.parse().ok(), None)
        }
        Err(error) => {
            recording.failed(&error);
            (CallOutcome::of(&error), None, Some(trouble(&error)))
        }
    };
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    Ok(TriedCall {
        outcome,
        result,
        error,
        duration_ms: ms(duration),
        waited_ms: ms(report.waited),
        generation: report.generation.map(evergate_runtime::Generation::get),
        resent: report.resends > 0,
    })
}

/// The server's own words, or ours.
fn trouble(error: &evergate_runtime::CallError) -> CallTrouble {
    if let CallFailure::Rpc(rpc) = &error.source {
        let raw: Value = rpc.raw.parse().unwrap_or_default();
        let data = raw.get("data").cloned();
        return CallTrouble { code: rpc.code, message: rpc.message.clone(), data };
    }
    let body: Value = error_body::of_call(error, None).parse().unwrap_or_default();
    CallTrouble {
        code: body["code"].as_i64().unwrap_or(error_body::INTERNAL),
        message: error.chain(),
        data: body.get("data").cloned(),
    }
}
