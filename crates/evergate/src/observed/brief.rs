//! What clients choose has a length of their choosing, too. What is kept of it has not.

use std::sync::Arc;

use evergate_runtime::RawJson;

/// Of a name so much is written down, and no method is longer.
pub(crate) const LONGEST_NAME: usize = 256;
/// Arguments above this are not kept: what is recorded is to be read.
const LARGEST_ARGUMENTS: usize = 16 * 1024;

/// A text that is no longer than so many bytes, and what shows that it was.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(longest);
    let mut short = String::with_capacity(end + '…'.len_utf8());
    short.push_str(&text[..end]);
    short.push('…');
    short
}

/// A name as it is recorded.
pub(crate) fn brief(name: &str) -> String {
    shortened(name, LONGEST_NAME)
}

/// The same of one that others have, too.
pub(crate) fn brief_shared(name: &Arc<str>) -> Arc<str> {
    if name.len() <= LONGEST_NAME { name.clone() } else { brief(name).into() }
}

/// Params as they are recorded, `None` if they are too large for that. A copy: they are a part of a request, all of which
/// would stay, and count as held for its client, as long as the record.
pub(crate) fn kept(params: &RawJson) -> Option<RawJson> {
    let text = params.as_bytes();
    (text.len() <= LARGEST_ARGUMENTS).then(|| RawJson::from_valid(text.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_cut_between_characters_and_shows_it() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("longer", 5), "longe…");
        assert_eq!(shortened("aää", 4), "aä…");
        assert_eq!(brief(&"x".repeat(3 << 20)).len(), LONGEST_NAME + '…'.len_utf8());
    }

    #[test]
    fn what_is_kept_of_params_is_a_copy() {
        let whole = bytes::Bytes::from(format!(r#"{{"a":1}}{}"#, " ".repeat(1 << 20)));
        let params = RawJson::from_valid(whole.slice(..7));
        let copy = kept(&params).unwrap();
        assert_eq!(copy.as_str(), params.as_str());
        assert!(!whole.as_ptr_range().contains(&copy.as_bytes().as_ptr()));
        assert!(kept(&RawJson::from_valid("1".repeat(LARGEST_ARGUMENTS + 1))).is_none());
    }
}
