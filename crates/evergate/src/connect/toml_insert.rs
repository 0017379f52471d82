//! One table more in a TOML text that people wrote: at its end, where it changes nothing else.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{CannotChange, Change};
use crate::import::Syntax;

pub(super) fn changed(
    text: &str,
    section: &str,
    name: &str,
    entry: &Value,
) -> Result<Change, CannotChange> {
    let mut document = parse(text)?;
    let servers = &mut document[section];
    if servers.is_null() {
        *servers = json!({});
    }
    let Some(servers) = servers.as_object_mut() else {
        return Err(CannotChange::NotAnObject(section.to_owned()));
    };
    match servers.insert(name.to_owned(), entry.clone()) {
        Some(before) if before == *entry => return Ok(Change::Nothing),
        // Its parts may be anywhere in the file.
        Some(_) => return Err(CannotChange::Taken(name.to_owned())),
        None => {}
    }
    let mut result = text.to_owned();
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    if !result.is_empty() && !result.ends_with('\n') {
        result.push_str(line_end);
    }
    if !result.is_empty() {
        result.push_str(line_end);
    }
    result.push_str(&table(section, name, entry).replace('\n', line_end));
    match parse(&result) {
        Ok(after) if after == document => Ok(Change::Added(result)),
        // An inline table takes no more parts.
        _ => Err(CannotChange::Unclear),
    }
}

/// The entry as a table. Its values are texts and lists of texts, which TOML writes as JSON does.
pub(super) fn table(section: &str, name: &str, entry: &Value) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = if name.chars().all(plain) { name.to_owned() } else { json!(name).to_string() };
    let mut text = format!("[{section}.{name}]\n");
    let first = ["command", "url"];
    let members = entry.as_object().into_iter().flatten();
    let (one, more): (Vec<_>, Vec<_>) = members.partition(|(key, _)| first.contains(&key.as_str()));
    for (key, value) in one.into_iter().chain(more) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

fn parse(text: &str) -> Result<Value, CannotChange> {
    let malformed =
        |(position, message)| CannotChange::Malformed { format: "TOML", position, message };
    Syntax::Toml.parse(text).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Value {
        json!({ "url": "http://127.0.0.1:8080/mcp", "bearer_token_env_var": "KEY" })
    }

    fn change(text: &str) -> Result<Change, CannotChange> {
        changed(text, "mcp_servers", "evergate", &entry())
    }

    #[test]
    fn a_table_is_added_at_the_end() {
        for text in [
            "",
            "model = \"x\"",
            "# c\r\n[mcp_servers.a]\r\ncommand = \"x\"\r\n",
            "[mcp_servers]\n",
        ] {
            let Change::Added(result) = change(text).unwrap() else { panic!("{text}") };
            assert!(result.starts_with(text), "{result}");
            assert_eq!(change(&result).unwrap(), Change::Nothing, "{result}");
        }
        let Change::Added(result) = change("model = \"x\"").unwrap() else { panic!() };
        insta::assert_snapshot!(result, @r#"
        model = "x"

        [mcp_servers.evergate]
        url = "http://127.0.0.1:8080/mcp"
        bearer_token_env_var = "KEY"
        "#);
    }

    #[test]
    fn what_cannot_be_added_to_is_left_alone() {
        let said = |text: &str| change(text).unwrap_err().to_string();
        assert!(said("mcp_servers = { a = { command = \"x\" } }").contains("by hand"));
        assert!(
            said("[mcp_servers.evergate]\nurl = \"x\"")
                .contains("another server called \"evergate\"")
        );
        assert!(said("mcp_servers = 7").contains("expected an object at mcp_servers"));
        assert_eq!(change("a = ").unwrap_err().position(), Some((1, 5)));
    }
}
