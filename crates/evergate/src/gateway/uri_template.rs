//! Whether a URI can come from a resource template.
//!
//! This only has to find the server that owns a URI, so it is simpler than RFC 6570: names are not bound, `{x}` stands
//! for one or more characters other than `/`, and every expression with an operator or an explode modifier (`{+x}`,
//! `{/x}`, `{?x,y}`, `{x*}`, …) for anything, even nothing. The server itself still refuses what is not its own.

/// Every piece is tried at every place, so the work grows with both lengths. No real URI is longer.
const MAX_URI_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Literal(&'a str),
    /// One or more characters other than `/`.
    Segment,
    /// Whatever, even nothing.
    Anything,
}

/// Whether `template` could have made `uri`, and how many of its characters are literal: the more, the better the match.
pub(crate) fn matches(template: &str, uri: &str) -> Option<usize> {
    if uri.len() > MAX_URI_BYTES {
        return None;
    }
    let pieces = pieces(template);
    let (uri, rest) = match pieces.split_first() {
        // Nearly every template that does not match differs here already.
        Some((Piece::Literal(text), rest)) => (uri.strip_prefix(text)?, rest),
        _ => (uri, pieces.as_slice()),
    };
    if !covers(rest, uri) {
        return None;
    }
    let literal = |piece: &Piece<'_>| match piece {
        Piece::Literal(text) => text.chars().count(),
        Piece::Segment | Piece::Anything => 0,
    };
    Some(pieces.iter().map(literal).sum())
}

/// Whether the pieces can cover all of `text`. `reached` holds every place where the pieces so far can end, so nothing
/// is ever tried twice.
fn covers(pieces: &[Piece<'_>], text: &str) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for piece in pieces {
        let mut next = vec![false; text.len() + 1];
        match piece {
            Piece::Literal(literal) => {
                for (at, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
                    if text.as_bytes()[at..].starts_with(literal.as_bytes()) {
                        next[at + literal.len()] = true;
                    }
                }
            }
            Piece::Segment => {
                let mut open = false;
                for (at, byte) in text.bytes().enumerate() {
                    open = (open || reached[at]) && byte != b'/';
                    next[at + 1] = open && text.is_char_boundary(at + 1);
                }
            }
            Piece::Anything => {
                let first = reached.iter().position(|reached| *reached).unwrap_or(next.len());
                for (at, next) in next.iter_mut().enumerate().skip(first) {
                    *next = text.is_char_boundary(at);
                }
            }
        }
        reached = next;
    }
    reached[text.len()]
}

/// A brace that is never closed is an ordinary character.
fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((literal, expression, after)) = split_expression(rest) {
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        let simple = expression.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let piece =
            if simple && !expression.contains('*') { Piece::Segment } else { Piece::Anything };
        // Two in a row cover no more than one.
        if piece == Piece::Segment || pieces.last() != Some(&Piece::Anything) {
            pieces.push(piece);
        }
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    pieces
}

fn split_expression(text: &str) -> Option<(&str, &str, &str)> {
    let (literal, rest) = text.split_once('{')?;
    let (expression, after) = rest.split_once('}')?;
    Some((literal, expression, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_stands_for_one_segment() {
        assert_eq!(matches("test://{name}", "test://a"), Some(7));
        assert_eq!(matches("test://{name}", "test://"), None);
        assert_eq!(matches("test://{name}", "test://a/b"), None);
        assert_eq!(matches("test://{name}", "other://a"), None);
        assert_eq!(matches("db://{table}/{id}/row", "db://users/7/row"), Some(10));
        assert_eq!(matches("db://{table}/{id}/row", "db://users/7/rows"), None);
        assert_eq!(matches("x://{a}.{b}", "x://1.2.3"), Some(5));
        assert_eq!(matches("x://{a:3}", "x://abc"), Some(4));
    }

    #[test]
    fn operators_and_explosions_stand_for_anything() {
        for template in ["f:///{+path}", "f:///{path*}", "f:///{/path}", "f:///{?a,b}", "f:///{#x}"]
        {
            assert_eq!(matches(template, "f:///a/b/c?x=1#y"), Some(5), "{template}");
            assert_eq!(matches(template, "f:///"), Some(5), "{template}");
        }
        assert_eq!(matches("f:///{+path}.md", "f:///a/b.md"), Some(8));
        assert_eq!(matches("f:///{+path}.md", "f:///a/b.txt"), None);
        assert_eq!(matches("f:///{+a}{+b}", "f:///x"), Some(5));
    }

    #[test]
    fn without_expressions_it_must_be_equal() {
        assert_eq!(matches("test://a", "test://a"), Some(8));
        assert_eq!(matches("test://a", "test://ab"), None);
        assert_eq!(matches("", ""), Some(0));
        assert_eq!(matches("", "a"), None);
    }

    #[test]
    fn an_open_brace_is_a_character() {
        assert_eq!(matches("test://{a", "test://{a"), Some(9));
        assert_eq!(matches("test://{x}{a", "test://1{a"), Some(9));
        assert_eq!(matches("}", "}"), Some(1));
    }

    #[test]
    fn characters_are_counted_and_never_divided() {
        assert_eq!(matches("ä://{x}", "ä://ö"), Some(4));
        assert_eq!(matches("{x}{y}", "ö"), None);
        assert_eq!(matches("{x}{y}", "öö"), Some(0));
    }

    #[test]
    fn the_longest_uri_and_the_worst_template_end() {
        let uri = "a".repeat(MAX_URI_BYTES);
        let template = format!("{}b", "{x}a".repeat(200));
        assert_eq!(matches(&template, &uri), None);
        assert_eq!(matches("{+x}", &uri), Some(0));
        assert_eq!(matches("{+x}", &format!("{uri}a")), None);
    }

    proptest! {
        #[test]
        fn never_panics(template in ".{0,60}", uri in ".{0,60}") {
            let _ = matches(&template, &uri);
        }

        #[test]
        fn never_panics_on_what_looks_like_templates(
            template in "([a-zé/:?{}+*]|\\{[+/?#]?[a-z]\\*?\\}){0,12}",
            uri in "[a-zé/:?{}+*]{0,20}",
        ) {
            let _ = matches(&template, &uri);
        }

        #[test]
        fn what_was_filled_in_matches(
            parts in proptest::collection::vec(("[a-z:/]{0,5}", "[a-z0-9é]{1,5}"), 0..6),
        ) {
            let template: String = parts.iter().flat_map(|(text, _)| [text.as_str(), "{x}"]).collect();
            let uri: String = parts.iter().flat_map(|(text, value)| [text.as_str(), value]).collect();
            prop_assert!(matches(&template, &uri).is_some());
        }
    }
}
