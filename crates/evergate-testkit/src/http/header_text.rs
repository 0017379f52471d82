//! Texts in headers, which may be encoded because a header cannot hold every text (2026-07-28).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

/// The text of a header; `None` if it is missing, stands there twice or cannot be decoded.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    decode(value.to_str().ok()?.trim_matches([' ', '\t']))
}

fn decode(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let Some(inner) = inner else { return Some(value.into()) };
    String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_both_ends_is_encoded() {
        assert_eq!(decode("=?base64?SGVsbG8=?=").as_deref(), Some("Hello"));
        assert_eq!(decode("=?base64??=").as_deref(), Some(""));
        for plain in ["SGVsbG8=", "=?base64?SGVsbG8=", "us west 1", ""] {
            assert_eq!(decode(plain).as_deref(), Some(plain));
        }
        for broken in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?="] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
