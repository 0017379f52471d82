//! One member more in a JSON text that people wrote.

use std::ops::Range;

use serde_json::{Value, json};

use super::entry::Ordered;
use super::{CannotChange, Change};
use crate::import::Syntax;
use crate::json_text;

pub(super) fn changed(
    text: &str,
    section: &str,
    name: &str,
    entry: &Value,
) -> Result<Change, CannotChange> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        let document = json!({ section: { name: entry } });
        let text = serde_json::to_string_pretty(&Ordered(&document)).unwrap_or_default();
        return Ok(Change::Added(text + "\n"));
    }
    let mut document = parse(text)?;
    let unclear = || CannotChange::Unclear;
    let root = json_text::root(text).ok_or_else(unclear)?;
    let Some(top) = document.as_object_mut() else {
        return Err(CannotChange::NotAnObject("the top".to_owned()));
    };
    let servers = top.entry(section).or_insert_with(|| json!({}));
    let Some(servers) = servers.as_object_mut() else {
        return Err(CannotChange::NotAnObject(section.to_owned()));
    };
    let before = servers.insert(name.to_owned(), entry.clone());
    if before.as_ref() == Some(entry) {
        return Ok(Change::Nothing);
    }
    let layout = Layout::of(text, &root);
    let result = match json_text::member(text, &root, section) {
        None => layout.add(text, &root, section, &json!({ name: entry })),
        Some(servers) => match json_text::member(text, &servers, name) {
            None => layout.add(text, &servers, name, entry),
            Some(old) => Some(layout.replace(text, &old, entry)),
        },
    };
    let result = result.ok_or_else(unclear)?;
    // The proof that nothing else was touched.
    if parse(&result)? != document {
        return Err(CannotChange::Unclear);
    }
    Ok(if before.is_some() { Change::Replaced(result) } else { Change::Added(result) })
}

fn parse(text: &str) -> Result<Value, CannotChange> {
    let malformed =
        |(position, message)| CannotChange::Malformed { format: "JSON", position, message };
    Syntax::Json.parse(text).map_err(malformed)
}

/// How the text is laid out.
struct Layout {
    /// What one level more is.
    unit: String,
    line_end: &'static str,
}

// === impl Layout ===

impl Layout {
    fn of(text: &str, root: &Range<usize>) -> Self {
        let members = json_text::members(text, root).unwrap_or_default();
        let unit = members.first().and_then(|(_, at, _)| indent(text, *at));
        let unit = unit.filter(|unit| !unit.is_empty()).unwrap_or("  ");
        Self { unit: unit.to_owned(), line_end: if text.contains("\r\n") { "\r\n" } else { "\n" } }
    }

    /// A member more, behind the others.
    fn add(&self, text: &str, object: &Range<usize>, key: &str, value: &Value) -> Option<String> {
        let members = json_text::members(text, object)?;
        let key = json!(key);
        let Some((_, at, last)) = members.last() else {
            // Comments that are in it stay, behind the new one.
            let base = line_indent(text, object.start);
            let inner = format!("{base}{}", self.unit);
            let (end, rest) = (self.line_end, &text[object.start + 1..]);
            let member = format!("{end}{inner}{key}: {}", self.written(value, &inner));
            let closes = rest.starts_with('}');
            let tail = if closes { format!("{end}{base}") } else { String::new() };
            return Some(format!("{}{member}{tail}{rest}", &text[..=object.start]));
        };
        let Some(inner) = indent(text, *at) else {
            let value = serde_json::to_string(&Ordered(value)).ok()?;
            let (before, after) = text.split_at(last.end);
            return Some(format!("{before}, {key}: {value}{after}"));
        };
        let member = format!("{}{inner}{key}: {}", self.line_end, self.written(value, inner));
        let comma = json_text::comma_after(text, last.end);
        let from = comma.map_or(last.end, |comma| comma + 1);
        // A comment behind the last member belongs to it.
        let line_end = text[from..].find('\n').map_or(text.len(), |at| from + at);
        let line_end = line_end - usize::from(text[..line_end].ends_with('\r') && line_end > from);
        let rest = &text[from..line_end];
        let at = if is_comment(rest) { line_end } else { from };
        let (between, trailing) = (&text[from..at], if comma.is_some() { "," } else { "" });
        let head =
            if comma.is_some() { text[..from].to_owned() } else { format!("{},", &text[..from]) };
        Some(format!("{head}{between}{member}{trailing}{}", &text[at..]))
    }

    fn replace(&self, text: &str, old: &Range<usize>, value: &Value) -> String {
        let value = self.written(value, line_indent(text, old.start));
        format!("{}{value}{}", &text[..old.start], &text[old.end..])
    }

    /// The value over several lines, the first of which is indented already.
    fn written(&self, value: &Value, indent: &str) -> String {
        use serde::Serialize as _;

        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // A value made of texts cannot fail to be written.
        let _ = Ordered(value).serialize(&mut serializer);
        let text = String::from_utf8(bytes).unwrap_or_default();
        text.replace('\n', &format!("{}{indent}", self.line_end))
    }
}

/// The white space before something that begins its line.
fn indent(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n')? + 1;
    let before = &text[start..at];
    before.chars().all(|c| c == ' ' || c == '\t').then_some(before)
}

/// The white space at the beginning of the line that something is on.
fn line_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[start..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Nothing but a comment that ends with its line.
fn is_comment(rest: &str) -> bool {
    let rest = rest.trim();
    rest.starts_with("//")
        || (rest.starts_with("/*") && rest.find("*/") == rest.len().checked_sub(2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> Value {
        json!({ "url": "http://127.0.0.1:8080/mcp" })
    }

    fn added(text: &str) -> String {
        match changed(text, "mcpServers", "evergate", &entry()).unwrap() {
            Change::Added(text) => {
                let again = changed(&text, "mcpServers", "evergate", &entry()).unwrap();
                assert_eq!(again, Change::Nothing, "{text}");
                text
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_finds_its_place_in_every_layout() {
        let texts = [
            "",
            "{}",
            "{ }\n",
            "{\n  // nothing yet\n}\n",
            "{\"a\": 1}",
            "{\"mcpServers\": {\"a\": {}}, \"b\": 2}",
            "{\n\t\"mcpServers\": {}\n}\n",
            "{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" } // the first\n    },\n    // the end\n}\n",
            "{\n  \"mcpServers\": {\n    \"a\": 1, // trailing\n    /* and more */\n  },\n}",
            "// top\r\n{\r\n  \"theme\": \"dark\" /* } */\r\n}\r\n",
        ];
        let results: Vec<String> =
            texts.iter().map(|text| added(text).replace('\r', "␍")).collect();
        insta::assert_snapshot!(results.join("\n=====\n"));
    }

    #[test]
    fn an_entry_that_leads_elsewhere_is_replaced_and_nothing_else() {
        let text = "{ // c\n  \"mcpServers\": {\n    \"evergate\": { /* old */ \"url\": \"x\" }, // d\n  },\n}";
        let Change::Replaced(text) = changed(text, "mcpServers", "evergate", &entry()).unwrap()
        else {
            panic!("not replaced")
        };
        insta::assert_snapshot!(text, @r#"
        { // c
          "mcpServers": {
            "evergate": {
              "url": "http://127.0.0.1:8080/mcp"
            }, // d
          },
        }
        "#);
    }

    #[test]
    fn what_cannot_be_changed_says_why() {
        let refused = |text: &str| changed(text, "mcpServers", "evergate", &entry()).unwrap_err();
        let said = |text: &str| refused(text).to_string();
        assert_eq!(said("{\n\"a\" 1}"), "is not valid JSON: expected `:`");
        assert_eq!(refused("{\n\"a\" 1}").position(), Some((2, 5)));
        assert_eq!(said("[]"), "expected an object at the top");
        assert_eq!(said("{\"mcpServers\": []}"), "expected an object at mcpServers");
        assert!(!said("{\"a\": \"hunter2").contains("hunter2"));
    }

    proptest! {
        #[test]
        fn whatever_is_there_stays(
            keys in prop::collection::btree_set("[a-z{},\"/*]{1,6}", 0..4), pretty: bool, inner: bool, comma: bool
        ) {
            let members: serde_json::Map<String, Value> =
                keys.into_iter().map(|key| (key, json!({ "x": ["//", "}", "\\\""] }))).collect();
            let mut document = if inner { json!({ "mcpServers": members }) } else { Value::Object(members) };
            let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
            let mut text = text.unwrap();
            if comma && text.ends_with("\n}") {
                text.insert(text.len() - 2, ',');
            }
            let result = added(&text);
            document["mcpServers"]["evergate"] = entry();
            prop_assert_eq!(parse(&result).unwrap(), document);
        }
    }
}
