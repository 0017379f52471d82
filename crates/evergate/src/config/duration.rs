//! How long: `"45s"`, `"500ms"`, and for a key that other clients have too, their bare numbers.

use std::time::Duration;

use serde_json::Value;

/// A duration, and how it was understood if there was more than one way.
pub(super) struct Understood {
    pub(super) duration: Duration,
    pub(super) note: Option<String>,
}

/// Some clients count in seconds and some in milliseconds. Nobody waits less than a second or more than a quarter of an
/// hour, so the number tells which.
const FIRST_MILLISECONDS: f64 = 1000.0;

/// What the runtime takes at most: longer ones could make a clock overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One of Evergate's own: its unit must be written, a guess could be wrong by a factor of a thousand.
pub(super) fn read(value: &Value) -> Result<Duration, String> {
    match value {
        Value::String(text) => read_text(text),
        Value::Number(number) => Err(format!(
            "{number} has no unit: write a text such as \"45s\", \"500ms\", \"2m\" or \"6h\""
        )),
        _ => Err("must be a duration such as \"45s\"".into()),
    }
}

/// The same where everything is text.
pub(crate) fn read_text(text: &str) -> Result<Duration, String> {
    parse(text).ok_or_else(|| {
        format!("{text:?} is not a duration such as \"45s\", \"500ms\", \"2m\" or \"1h\"")
    })
}

/// One that other clients have too, and write as a bare number.
pub(super) fn read_foreign(value: &Value) -> Result<Understood, String> {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            let (seconds, unit) = if number < FIRST_MILLISECONDS {
                (number, "seconds")
            } else {
                (number / 1000.0, "milliseconds")
            };
            let duration = Duration::try_from_secs_f64(seconds)
                .map_err(|_| format!("{number} is not a duration"))?;
            let note = Some(format!(
                "{number} was understood as {unit}; write \"{seconds}s\" to be clear"
            ));
            Ok(Understood { duration, note })
        }
        value => read(value).map(|duration| Understood { duration, note: None }),
    }
}

fn parse(text: &str) -> Option<Duration> {
    let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text.trim()[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    let number: f64 = digits.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}
