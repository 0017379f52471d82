//! An answer as a JSON-RPC message under the client's own id.

use bytes::Bytes;
use evergate_runtime::RawJson;
use serde_json::json;

use super::event_stream::extend_on_one_line;
use crate::gateway::Answer;
use crate::gateway::error_body::{INTERNAL, INVALID_REQUEST, plain};

/// A message, one piece behind the other. Only one of them may be large.
pub(super) type Pieces = [Bytes; 5];
/// Which.
pub(super) const PAYLOAD: usize = 3;

const BEFORE_ID: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
const BEFORE_RESULT: &[u8] = b",\"result\":";
const BEFORE_ERROR: &[u8] = b",\"error\":";

/// In pieces, so that nothing is copied: what is small is put together where it is sent.
pub(super) fn pieces(id: &RawJson, answer: &Answer) -> Pieces {
    let error = |message| (BEFORE_ERROR, message);
    let (before, payload) = match answer {
        Answer::Result(result) => (BEFORE_RESULT, result.to_bytes()),
        Answer::Error(message) => error(message.to_bytes()),
        Answer::Cancelled => error(plain(INVALID_REQUEST, "the request was cancelled").to_bytes()),
        // Whoever takes pieces does not come here with them.
        Answer::Pieces(_) => error(plain(INTERNAL, "the result is not complete").to_bytes()),
    };
    let [opening, before, end] = [BEFORE_ID, before, b"}"].map(Bytes::from_static);
    [opening, id.to_bytes(), before, payload, end]
}

/// What stands before a result that is still arriving.
pub(super) fn result_head(id: &RawJson) -> Bytes {
    [BEFORE_ID, id.as_bytes(), BEFORE_RESULT].concat().into()
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
