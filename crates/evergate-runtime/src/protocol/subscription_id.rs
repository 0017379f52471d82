//! What marks the messages of one `subscriptions/listen` (2026-07-28). It means something between us and the server only.

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::RawJson;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// As much of it as nobody escapes.
const TELLTALE: &[u8] = b"subscriptionId";

type Fields<'a> = IndexMap<String, &'a RawValue>;

/// The subscription that a notification with these params belongs to, if it is one of ours.
pub(crate) fn subscription_id(params: &RawJson) -> Option<u64> {
    let fields: Fields<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    let meta: Fields<'_> = serde_json::from_str(fields.get("_meta")?.get()).ok()?;
    // Some servers turn numbers into strings.
    meta.get(SUBSCRIPTION_ID)?.get().trim_matches('"').parse().ok()
}

/// The same params without that mark.
pub(crate) fn without_subscription_id(params: RawJson) -> RawJson {
    if memchr::memmem::find(params.as_bytes(), TELLTALE).is_none() {
        return params;
    }
    stripped(&params).unwrap_or(params)
}

fn stripped(params: &RawJson) -> Option<RawJson> {
    let mut fields: Fields<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    let mut meta: Fields<'_> = serde_json::from_str(fields.get("_meta")?.get()).ok()?;
    meta.shift_remove(SUBSCRIPTION_ID)?;
    let left = serde_json::value::to_raw_value(&meta).ok()?;
    if meta.is_empty() {
        fields.shift_remove("_meta");
    } else {
        fields.insert("_meta".to_owned(), &left);
    }
    RawJson::from_value(&fields).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::from_text(text.to_owned()).unwrap()
    }

    fn left(text: &str) -> String {
        without_subscription_id(raw(text)).as_str().to_owned()
    }

    #[test]
    fn only_the_mark_is_taken_away_and_a_meta_that_held_nothing_else() {
        for (before, after) in [
            (
                r#"{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#,
                r#"{"uri":"a"}"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol\/subscriptionId":"7"},"n":1e400}"#,
                r#"{"n":1e400}"#,
            ),
            (
                r#"{"b":1,"_meta":{"x":[ 1 ],"io.modelcontextprotocol/subscriptionId":7},"a":2}"#,
                r#"{"b":1,"_meta":{"x":[ 1 ]},"a":2}"#,
            ),
        ] {
            assert_eq!(left(before), after);
        }
    }

    #[test]
    fn what_has_no_mark_stays_as_it_is() {
        for text in [r#"{ "uri":"subscriptionId" }"#, r#"{"_meta":{"subscriptionId":1}}"#, "[]"] {
            assert_eq!(left(text), text);
        }
    }

    #[test]
    fn ours_are_numbers() {
        let with = |id: &str| {
            subscription_id(&raw(&format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID}":{id}}}}}"#)))
        };
        assert_eq!((with("7"), with("\"7\""), with("\"x\"")), (Some(7), Some(7), None));
        assert_eq!(subscription_id(&raw("{}")), None);
    }
}
