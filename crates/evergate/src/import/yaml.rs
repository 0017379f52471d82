//! YAML with the places of its values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Options, Spanned};

use super::entry::{Path, Step};

/// A value that knows where it is.
struct Node {
    kind: Kind,
    at: Location,
}

/// What it consists of; of scalars only the place is of interest.
enum Kind {
    Scalar,
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

struct KindVisitor;

/// The document, or where it is wrong and what was expected.
pub(super) fn parse(text: &str) -> Result<Value, (Option<(usize, usize)>, String)> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        // The rest of the message shows the text around, which may hold a secret.
        let message = error.without_snippet().to_string();
        let message = message.lines().next().unwrap_or_default();
        let message = message.split(" at line ").next().unwrap_or_default();
        (error.location().and_then(place), message.trim_end_matches([':', ' ']).to_owned())
    })
}

/// Line and column of what a path leads to, or of the last thing on its way.
pub(super) fn position(text: &str, path: &Path) -> Option<(usize, usize)> {
    let root: Node = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let mut node = &root;
    for step in path.steps() {
        let next = match (step, &node.kind) {
            (Step::Key(key), Kind::Object(members)) => {
                members.iter().find(|(name, _)| name == key).map(|(_, member)| member)
            }
            (Step::Item(item), Kind::List(items)) => items.get(*item),
            _ => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    place(node.at)
}

/// As the parser has them, but without copies of the text in errors.
fn options() -> Options {
    serde_saphyr::options! { with_snippet: false }
}

fn place(location: Location) -> Option<(usize, usize)> {
    let (line, column) = (location.line(), location.column());
    let known = line > 0 && column > 0;
    known.then(|| (usize::try_from(line).unwrap_or(0), usize::try_from(column).unwrap_or(0)))
}

// === impl Node ===

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Spanned::<Kind>::deserialize(deserializer)?;
        Ok(Self { kind: found.value, at: found.referenced })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Kind::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Kind, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Kind::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_a_place_and_show_nothing_of_the_text() {
        for text in ["a: [hunter2", "a: hunter2\nb: \"hunter2", "a:\n\thunter2: 1", "a: *hunter2"] {
            let (position, message) = parse(text).unwrap_err();
            assert!(position.is_some(), "{text}: {message}");
            assert!(!message.is_empty() && !message.contains("hunter2"), "{text}: {message}");
        }
    }

    #[test]
    fn a_document_that_multiplies_itself_is_refused() {
        let mut text = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 0..9 {
            let (from, to) = (char::from(b'a' + n), char::from(b'b' + n));
            let ten = vec![format!("*{from}"); 10].join(",");
            text = format!("{text}{to}: &{to} [{ten}]\n");
        }
        assert!(parse(&text).is_err());
        assert!(parse(&"[".repeat(5_000)).is_err());
    }
}
