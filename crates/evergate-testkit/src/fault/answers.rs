//! Faults that change the answer itself and nothing else about the exchange.

use serde_json::json;

use crate::fault::Fault;
use crate::jsonrpc::{Outcome, Request, notification};

/// What is sent instead of a non-JSON-RPC line.
pub(crate) const GARBAGE: &str = "this line is not JSON";

/// What is sent in place of `answer`, in order.
pub(crate) fn pieces(fault: Option<&Fault>, request: &Request, answer: String) -> Vec<String> {
    match fault {
        Some(Fault::DuplicateAnswer) => vec![answer.clone(), answer],
        Some(Fault::WrongId) => vec![with_wrong_id(request, &answer)],
        Some(Fault::Garbage) => vec![GARBAGE.into(), answer],
        Some(Fault::Oversized(bytes)) => {
            vec![Outcome::text(&"x".repeat(*bytes)).encode(&request.id)]
        }
        Some(Fault::Batch) => {
            let params = json!({ "level": "info", "data": "beside the answer" });
            vec![format!("[{},{answer}]", notification("notifications/message", &params))]
        }
        _ => vec![answer],
    }
}

/// Replaces the id at the front of an encoded answer; the rest stays as it is.
fn with_wrong_id(request: &Request, answer: &str) -> String {
    let right = format!(r#""id":{},"#, request.id);
    answer.replacen(&right, r#""id":"nobody-asked-with-this-id","#, 1)
}
