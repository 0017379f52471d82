//! What kind of result a server without a handshake gave: each says so itself (2026-07-28).

use indexmap::IndexMap;
use serde_json::value::RawValue;

use crate::protocol::{RawJson, object_fields};

const FIELD: &str = "resultType";

/// By what it says, or does not say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResultType {
    /// What was asked for.
    Complete,
    /// The server needs something before it goes on.
    Question,
    /// It will be done later, and can be asked for.
    Task,
    /// Of an extension that nobody here knows.
    Unknown,
}

// === impl ResultType ===

impl ResultType {
    pub(super) fn of(result: &RawJson) -> Self {
        let text = result.as_str();
        let mut place = None;
        let found = object_fields(text, |name, value| {
            if name == FIELD {
                place = Some(value);
            }
        });
        match (found, place) {
            (Some(()), Some(place)) => Self::named(&text[place]),
            (Some(()), None) => Self::Complete,
            // Written in an unusual way.
            (None, _) => {
                let fields: Result<IndexMap<String, &RawValue>, _> = serde_json::from_str(text);
                let named =
                    fields.ok().and_then(|fields| Some(Self::named(fields.get(FIELD)?.get())));
                named.unwrap_or(Self::Complete)
            }
        }
    }

    fn named(json: &str) -> Self {
        match json {
            "\"complete\"" | "null" => Self::Complete,
            json => match serde_json::from_str::<String>(json).unwrap_or_default().as_str() {
                "complete" => Self::Complete,
                "input_required" => Self::Question,
                "task" => Self::Task,
                _ => Self::Unknown,
            },
        }
    }
}

/// A result without its type: earlier revisions have no such field.
pub(super) fn without_type(result: RawJson) -> RawJson {
    let text = result.as_str();
    let (mut before, mut found) = (None, None);
    let mut end = 0;
    let read = object_fields(text, |name, value| {
        if name == FIELD {
            before = Some(end);
            found = Some(value.clone());
        }
        end = value.end;
    });
    if read.is_none() {
        let fields: Result<IndexMap<String, &RawValue>, _> = serde_json::from_str(text);
        let Ok(mut fields) = fields else { return result };
        fields.shift_remove(FIELD);
        return RawJson::from_value(&fields).unwrap_or(result);
    }
    let (Some(before), Some(value)) = (before, found) else { return result };
    // With the comma before it, or else with the one behind it.
    let (from, to) = if before > 0 {
        (before, value.end)
    } else {
        let start = text.find('"').unwrap_or(value.start);
        let rest = text[value.end..].trim_start();
        let behind = text.len() - rest.len() + usize::from(rest.starts_with(','));
        (start, behind)
    };
    RawJson::from_valid([&text[..from], &text[to..]].concat())
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
            (r#"{"result\u0054ype":"complete","a":1.0}"#, r#"{"a":1.0}"#),
        ] {
            let result = RawJson::from_text(text.to_owned()).unwrap();
            assert_eq!(without_type(result).as_str(), without, "{text}");
        }
    }

    #[test]
    fn a_question_is_told_from_a_result() {
        let of = |text: &str| ResultType::of(&RawJson::from_text(text.to_owned()).unwrap());
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        for (text, expected) in [
            (r#"{"inputRequests":{},"resultType": "input_required"}"#, ResultType::Question),
            (r#"{"result\u0054ype":"input_required"}"#, ResultType::Question),
            (r#"{"resultType":"input\u005frequired"}"#, ResultType::Question),
            (&format!(r#"{{"a":{deep},"resultType":"input_required"}}"#), ResultType::Question),
            (
                r#"{"content":[{"resultType":"input_required"}],"resultType":"complete"}"#,
                ResultType::Complete,
            ),
            (r#"{"content":[]}"#, ResultType::Complete),
            (r#"{"resultType":null}"#, ResultType::Complete),
            (r#"{"resultType":"task","taskId":"1"}"#, ResultType::Task),
            (r#"{"resultType":"else"}"#, ResultType::Unknown),
            (r#"{"resultType":1}"#, ResultType::Unknown),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
