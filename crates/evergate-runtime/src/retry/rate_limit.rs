//! Does this answer say that the server limits our rate, and until when?
//!
//! The protocol has no word for it. HTTP has a status; everything else is wording, and only failures and results that are
//! errors are looked at for it. Answers pass unchanged whatever is found here.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::protocol::{RawJson, RpcError};

/// An answer that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limited {
    pub(crate) shown_by: ShownBy,
    /// When the server takes calls again, by its own word.
    pub(crate) reset_in: Option<Duration>,
}

/// What showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownBy {
    Status(u16),
    Error,
    ToolResult,
}

/// What the headers of a refusal say about its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    /// Seconds from now.
    In(u64),
    /// Seconds since 1970.
    At(u64),
}

/// An answer that says more than this says something else.
const LONGEST_TEXT: usize = 16 * 1024;

/// Lower case; one is enough.
const WORDINGS: &[&str] = &[
    "rate limit exceeded",
    "rate limit reached",
    "rate limited",
    "rate-limited",
    "rate_limit_exceeded",
    // GitHub's: "API rate limit exceeded for user ID 1", "You have exceeded a secondary rate limit".
    "api rate limit",
    "secondary rate limit",
    "too many requests",
];

/// Lower case; what stands before the time that is left. The first is what go-github writes.
const BEFORE_TIME: &[&str] = &[
    "rate reset in ",
    "resets in ",
    "retry after ",
    "retry-after: ",
    "retry in ",
    "try again in ",
    "wait ",
];

// === impl Reset ===

impl Reset {
    /// `Retry-After`: seconds, or a date.
    pub(crate) fn retry_after(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Self::In(seconds));
        }
        let date = httpdate::parse_http_date(text).ok()?;
        Some(Self::At(date.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs()))
    }

    /// `X-RateLimit-Reset` and its like: seconds, or a time in seconds or milliseconds since 1970. Nobody agreed on which.
    pub(crate) fn rate_limit_reset(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        // Some write fractions.
        let whole = text.split('.').next().unwrap_or_default();
        Some(match whole.parse().ok()? {
            millis @ 100_000_000_000.. => Self::At(millis / 1000),
            seconds @ 1_000_000_000.. => Self::At(seconds),
            seconds => Self::In(seconds),
        })
    }

    fn wait(self, now: SystemTime) -> Duration {
        match self {
            Self::In(seconds) => Duration::from_secs(seconds),
            Self::At(seconds) => {
                let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                Duration::from_secs(seconds).saturating_sub(now)
            }
        }
    }
}

// === impl Limited ===

impl Limited {
    /// A refusal over HTTP.
    pub(crate) fn of_refusal(
        status: u16,
        reset: Option<Reset>,
        body: &[u8],
        now: SystemTime,
    ) -> Option<Self> {
        let body = String::from_utf8_lossy(&body[..body.len().min(LONGEST_TEXT)]).to_lowercase();
        // Some say 403 for it, as for much else.
        if status != 429 && (status != 403 || !is_worded_so(&body)) {
            return None;
        }
        let reset_in = reset.map(|reset| reset.wait(now)).or_else(|| time_in(&body));
        Some(Self { shown_by: ShownBy::Status(status), reset_in })
    }

    /// A JSON-RPC error.
    pub(crate) fn of_error(error: &RpcError) -> Option<Self> {
        let text: String = error.message.chars().take(LONGEST_TEXT).collect();
        let text = text.to_lowercase();
        if error.code != 429 && !is_worded_so(&text) {
            return None;
        }
        let reset_in = time_in(&text).or_else(|| time_in_data(error));
        Some(Self { shown_by: ShownBy::Error, reset_in })
    }

    /// A tool's result. Nearly all are no errors, and cost a search for one word.
    pub(crate) fn of_result(result: &RawJson) -> Option<Self> {
        let json = result.as_bytes();
        if json.len() > LONGEST_TEXT || !may_be_error(json) {
            return None;
        }
        let result: ToolResult = result.parse().ok()?;
        let texts = result.content.iter().filter_map(|block| block.text.as_ref());
        let text = texts.map(|text| text.to_lowercase()).find(|text| is_worded_so(text))?;
        let reset_in = time_in(&text);
        result.is_error.then_some(Self { shown_by: ShownBy::ToolResult, reset_in })
    }
}

#[derive(Deserialize)]
struct ToolResult {
    #[serde(rename = "isError", default)]
    is_error: bool,
    #[serde(default)]
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    text: Option<String>,
}

/// Whether a field says that it is an error. Quotes in texts are escaped, so only a field is found.
fn may_be_error(json: &[u8]) -> bool {
    const FIELD: &[u8] = b"\"isError\"";
    // Made once: to make it takes longer than to search most results.
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(FIELD));
    FINDER.find_iter(json).any(|at| {
        let mut rest = json[at + FIELD.len()..].iter().filter(|byte| !byte.is_ascii_whitespace());
        rest.next() == Some(&b':') && rest.next() == Some(&b't')
    })
}

fn is_worded_so(lower: &str) -> bool {
    let has = |words: &str| lower.contains(words);
    WORDINGS.iter().any(|words| has(words)) || (has("rate limit") && (has("403") || has("429")))
}

/// The time that a text says is left.
fn time_in(lower: &str) -> Option<Duration> {
    BEFORE_TIME.iter().find_map(|words| {
        lower.match_indices(words).find_map(|(at, _)| {
            // "await 5" is another word.
            let is_word = !lower[..at].ends_with(char::is_alphanumeric);
            is_word.then(|| duration_at(&lower[at + words.len()..])).flatten()
        })
    })
}

/// `42`, `42s`, `12m05s`, `1 h 30 m`, `1.5 hours`, `20 seconds`.
fn duration_at(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut seconds: Option<f64> = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = rest[..digits].trim_end_matches('.');
        let ends = number.len() < digits;
        let Ok(number) = number.parse::<f64>() else { break };
        // After a full stop comes another sentence.
        rest = if ends { "" } else { rest[digits..].trim_start() };
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" | "milliseconds" => 0.001,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            // A date, or a time of the day.
            "" if rest.starts_with(['-', ':', '/']) => return None,
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            // "retry after 3 attempts" is no time.
            _ if seconds.is_none() => return None,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or_default() + number * unit);
        rest = rest[letters..].trim_start();
    }
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// What some put into the error's data, Evergate too.
fn time_in_data(error: &RpcError) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Fields {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(alias = "retryAfter", alias = "retry_after_seconds")]
        retry_after: f64,
    }
    let fields: Fields = error.raw.parse().ok()?;
    Duration::try_from_secs_f64(fields.data.retry_after).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn result(json: serde_json::Value) -> RawJson {
        RawJson::from(json)
    }

    fn said(text: &str) -> RawJson {
        result(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
    }

    #[test]
    fn headers_name_a_time_in_many_ways() {
        let cases: [(Option<Reset>, Option<Reset>); 9] = [
            (Reset::retry_after(b"30"), Some(Reset::In(30))),
            (Reset::retry_after(b" 0 "), Some(Reset::In(0))),
            (Reset::retry_after(b"Thu, 01 Jan 1970 00:02:00 GMT"), Some(Reset::At(120))),
            (Reset::retry_after(b"soon"), None),
            (Reset::retry_after(b"-1"), None),
            (Reset::rate_limit_reset(b"59.9"), Some(Reset::In(59))),
            (Reset::rate_limit_reset(b"1700000000"), Some(Reset::At(1_700_000_000))),
            (Reset::rate_limit_reset(b"1700000000123"), Some(Reset::At(1_700_000_000))),
            (Reset::rate_limit_reset(b"\xff"), None),
        ];
        for (read, meant) in cases {
            assert_eq!(read, meant);
        }
        let later = NOW + seconds(100);
        assert_eq!(Reset::At(120).wait(later), seconds(20));
        assert_eq!(Reset::At(90).wait(later), Duration::ZERO);
    }

    #[test]
    fn a_refusal_counts_by_its_status_or_by_its_words_with_403() {
        let reset = |status, reset, body: &str| {
            Limited::of_refusal(status, reset, body.as_bytes(), NOW).map(|found| found.reset_in)
        };
        assert_eq!(reset(429, None, ""), Some(None));
        assert_eq!(reset(429, Some(Reset::In(7)), "try again in 9s"), Some(Some(seconds(7))));
        assert_eq!(reset(429, None, "Try again in 9 seconds."), Some(Some(seconds(9))));
        assert_eq!(reset(403, None, "API rate limit exceeded"), Some(None));
        assert_eq!(reset(403, Some(Reset::In(7)), "forbidden"), None);
        assert_eq!(reset(503, Some(Reset::In(7)), "rate limit exceeded"), None);
        assert_eq!(reset(500, None, "too many requests"), None);
    }

    #[test]
    fn a_tool_result_counts_if_it_is_an_error_and_worded_so() {
        for text in [
            "GET /x: 403 API rate limit exceeded for user ID 1 [rate reset in 12m05s]",
            "You have exceeded a secondary rate limit",
            "429 Too Many Requests",
            "RATE LIMIT EXCEEDED",
            "rate limit: 429",
        ] {
            let found = Limited::of_result(&said(text));
            assert!(found.is_some_and(|found| found.shown_by == ShownBy::ToolResult), "{text}");
        }
        for text in ["not found", "rate limit must be a number", "403 forbidden", ""] {
            assert_eq!(Limited::of_result(&said(text)), None, "{text}");
        }
        let content = json!([{ "type": "text", "text": "rate limit exceeded" }]);
        for fine in [
            json!({ "content": content }),
            json!({ "content": content, "isError": false }),
            json!({ "content": [{ "type": "text", "text": "\"isError\":true rate limit exceeded" }] }),
            json!({ "structuredContent": { "isError": true }, "content": content }),
            json!({ "isError": true, "content": [{ "type": "image", "data": "" }] }),
            json!({ "isError": true }),
            json!([]),
        ] {
            assert_eq!(Limited::of_result(&result(fine.clone())), None, "{fine}");
        }
        let spaced = "{ \"isError\" : true , \"content\":[{\"text\":\"too many requests\"}]}";
        assert!(Limited::of_result(&RawJson::from_text(spaced).unwrap()).is_some());
        let nested = json!({ "structuredContent": { "isError": false }, "isError": true, "content": [{ "text": "too many requests" }] });
        assert!(Limited::of_result(&result(nested)).is_some());
        let long = said(&format!("rate limit exceeded {}", "x".repeat(LONGEST_TEXT)));
        assert_eq!(Limited::of_result(&long), None);
    }

    #[test]
    fn an_error_counts_by_its_code_or_its_words() {
        let error = |json| RpcError::new(RawJson::from(json));
        let worded =
            error(json!({ "code": -32000, "message": "Rate limit exceeded, retry after 5" }));
        assert_eq!(Limited::of_error(&worded).unwrap().reset_in, Some(seconds(5)));
        let coded = error(json!({ "code": 429, "message": "no", "data": { "retryAfter": 2 } }));
        assert_eq!(Limited::of_error(&coded).unwrap().reset_in, Some(seconds(2)));
        assert_eq!(Limited::of_error(&error(json!({ "code": -32602, "message": "rate" }))), None);
    }

    #[test]
    fn times_are_read_as_people_and_libraries_write_them() {
        for (text, meant) in [
            ("rate reset in 42s]", Some(42_000)),
            ("rate reset in 12m05s]", Some(725_000)),
            ("try again in 20 seconds.", Some(20_000)),
            ("retry after 1.5 h", Some(5_400_000)),
            ("retry after 250ms", Some(250)),
            ("please wait 30. then go on", Some(30_000)),
            ("try again in 1 h 30 m", Some(5_400_000)),
            ("await 5; then wait 7 s", Some(7_000)),
            ("try again in 2026-11-16T10:00:00Z", None),
            ("retry after 10:30", None),
            ("retry after 3 attempts", None),
            ("try again in a while", None),
            ("retry after 99999999999999999999999999", None),
            ("retry after ", None),
        ] {
            let meant = meant.map(Duration::from_millis);
            assert_eq!(time_in(text), meant, "{text}");
        }
    }
}
