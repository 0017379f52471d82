//! Text in a header of a request: as it is where that can be read back, else encoded (2026-07-28, SEP-2243).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Text as a header's value.
pub(crate) fn encode(text: &str) -> HeaderValue {
    let written: Cow<'_, str> = if survives(text) {
        text.into()
    } else {
        format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)).into()
    };
    // What survives is visible ASCII with spaces inside, and so is what is encoded.
    HeaderValue::from_str(&written).unwrap_or(HeaderValue::from_static(""))
}

/// The text that was meant; `None` if nothing can have been meant by it.
pub fn decode(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim_matches([' ', '\t']);
    let Some(encoded) = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Some(text.into());
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Whether it comes out of a header as it went in, and is not taken for something encoded.
fn survives(text: &str) -> bool {
    let visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    visible
        && !text.is_empty()
        && text.trim_matches(' ') == text
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_text_stays_plain_and_the_rest_is_encoded() {
        for plain in ["echo", "a b", "us-west1", "file:///a?b=c"] {
            assert_eq!(encode(plain), plain);
        }
        for (text, written) in [
            ("", "=?base64??="),
            (" a", "=?base64?IGE=?="),
            ("a\tb", "=?base64?YQli?="),
            ("Grüße", "=?base64?R3LDvMOfZQ==?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(encode(text), written);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_nothing() {
        for bad in ["=?base64?%?=", "=?base64?/w==?="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode("\ta ").as_deref(), Some("a"));
    }

    proptest! {
        #[test]
        fn whatever_goes_in_comes_out(text in any::<String>()) {
            let value = encode(&text);
            let read = value.to_str().ok().and_then(decode);
            prop_assert_eq!(read.as_deref(), Some(&*text));
        }
    }
}
