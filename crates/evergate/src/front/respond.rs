//! An answer as a JSON-RPC message under the client's own id.

use bytes::Bytes;
use evergate_runtime::RawJson;
use serde_json::json;

use super::event_stream::extend_on_one_line;
use crate::gateway::Answer;
use crate::gateway::error_body::{INTERNAL, INVALID_REQUEST, plain};

/// In three pieces, so that a large result is not copied.
pub(super) fn pieces(id: &RawJson, answer: &Answer) -> [Bytes; 3] {
    let (field, payload) = match answer {
        Answer::Result(result) => ("result", result.to_bytes()),
        Answer::Error(error) => ("error", error.to_bytes()),
        Answer::Cancelled => {
            ("error", plain(INVALID_REQUEST, "the request was cancelled").to_bytes())
        }
        // Whoever takes pieces does not come here with them.
        Answer::Pieces(_) => ("error", plain(INTERNAL, "the result is not complete").to_bytes()),
    };
    [head(id, field), payload, Bytes::from_static(b"}")]
}

/// What stands before a result that is still arriving.
pub(super) fn result_head(id: &RawJson) -> Bytes {
    head(id, "result")
}

fn head(id: &RawJson, field: &str) -> Bytes {
    [b"{\"jsonrpc\":\"2.0\",\"id\":", id.as_bytes(), b",\"", field.as_bytes(), b"\":"]
        .concat()
        .into()
}

/// In one piece without line breaks.
pub(super) fn line(id: &RawJson, answer: &Answer) -> Bytes {
    let pieces = pieces(id, answer);
    let mut text = Vec::with_capacity(pieces.iter().map(Bytes::len).sum::<usize>() + 1);
    for piece in pieces {
        extend_on_one_line(&mut text, &piece);
    }
    text.into()
}

/// An error that answers something without an id.
pub(super) fn unattributed(code: i64, message: &str) -> Bytes {
    let error = json!({ "code": code, "message": message });
    json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_pass_as_they_are_and_fit_on_a_line() {
        let id = RawJson::from_text("\"x\"").unwrap();
        let result = RawJson::from_text("{\n  \"n\": 1.0\r\n}").unwrap();
        let answer = Answer::Result(result);
        assert_eq!(
            pieces(&id, &answer).concat(),
            b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\n  \"n\": 1.0\r\n}}"
        );
        assert_eq!(
            line(&id, &answer),
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{   \"n\": 1.0  }}"
        );
    }
}
