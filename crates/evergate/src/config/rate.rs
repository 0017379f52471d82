//! How often: `"60/1m"`.

use std::time::Duration;

use serde_json::Value;

use super::duration;

/// So many in so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// At least one. So many may also come at once.
    pub(crate) requests: u32,
    /// More than nothing, and no more than a day.
    pub(crate) per: Duration,
}

const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn parse(text: &str) -> Result<Rate, String> {
    let wrong = || format!("must be a count and a time, such as \"60/1m\", not {text:?}");
    let (requests, per) = text.split_once('/').ok_or_else(wrong)?;
    let requests = requests.trim().parse().map_err(|_| wrong())?;
    let per = duration::read(&Value::from(per.trim())).map_err(|_| wrong())?;
    if requests == 0 {
        return Err("must allow at least 1 request".to_owned());
    }
    if per.is_zero() || per > LONGEST {
        return Err("its time must be more than zero and at most 24h".to_owned());
    }
    Ok(Rate { requests, per })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_count_and_a_time() {
        let second = Duration::from_secs(1);
        for (text, requests, per) in
            [("60/1m", 60, 60 * second), (" 1 / 10s ", 1, 10 * second), ("5/500ms", 5, second / 2)]
        {
            assert_eq!(parse(text), Ok(Rate { requests, per }), "{text}");
        }
        for wrong in
            ["60", "60/", "/1m", "x/1m", "60/m", "-1/1m", "1.5/1m", "0/1m", "1/0s", "1/25h", ""]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
