//! What a line says. The names of its fields are documented in `docs/guide/operating.md` and do not change.

use evergate_runtime::{Generation, RawJson};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::admin::model::CallOutcome;
use crate::observed::CallRecord;
use crate::timestamp::rfc3339;

/// One call.
#[derive(Serialize)]
struct Call<'a> {
    time: String,
    event: &'static str,
    /// Whose key it came with; `null` without keys.
    key: Option<&'a str>,
    /// What the client calls itself.
    client: &'a str,
    /// Tells sessions apart; nobody can use one by it.
    session: Option<String>,
    server: &'a str,
    method: &'a str,
    /// Of the tool, the prompt or the resource, as its server calls it; of a URI without its query.
    name: Option<&'a str>,
    outcome: CallOutcome,
    /// Of the JSON-RPC error that the server answered with.
    error_code: Option<i64>,
    duration_ms: f64,
    waited_ms: f64,
    generation: Option<u64>,
    resent: bool,
    request_bytes: usize,
    result_bytes: usize,
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

pub(super) fn of_call(record: &CallRecord) -> Vec<u8> {
    let ms = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let params = record.params.as_ref().map(RawJson::as_bytes);
    let params: Option<Params<'_>> = params.and_then(|params| serde_json::from_slice(params).ok());
    of(&Call {
        time: rfc3339(record.at),
        event: "call",
        key: record.caller.name(),
        client: &record.client,
        session: record.session.map(|uid| format!("{:08x}", u32::from_be_bytes(uid))),
        server: &record.server,
        method: &record.method,
        name: record.tool.as_deref().or(record.name.as_deref()),
        outcome: record.outcome,
        error_code: record.error_code,
        duration_ms: ms(record.duration),
        waited_ms: ms(record.waited),
        generation: record.generation.map(Generation::get),
        resent: record.resent,
        request_bytes: record.request_bytes,
        result_bytes: record.result_bytes,
        trace_id: record.trace.map(|trace| trace.to_string()),
        arguments: params.and_then(|params| params.arguments),
    })
}

/// With its line end. Raw JSON may have line ends of its own, which mean nothing there.
pub(super) fn of<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec());
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}
