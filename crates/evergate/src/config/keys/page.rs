//! The table as a page, `docs/reference/config.md`. Only a test writes it, and compares it afterwards.

use std::fmt::Write as _;

use super::Kind;
use super::help::{keys_of, sections};

/// Begins the page; what follows is made from the table.
const INTRODUCTION: &str = "\
# Configuration

<!-- generated from crates/evergate/src/config/keys/table.rs; a test says how to write it again -->

A configuration is a JSON or TOML file with an `mcpServers` section, as Claude Code, Cursor and other MCP clients have it,
and an optional `gateway` section. JSON may have `//` and `/* */` comments and trailing commas. `evergate check` says how
a file is understood; `evergate schema` prints its JSON Schema, which is [evergate.schema.json](evergate.schema.json).
There are [examples](../../examples/configs).

- `${VAR}`, `${env:VAR}` and `${VAR:-default}` are filled in from the environment, in texts. A server whose variable is
  not set is switched off; the others are not concerned. In the `gateway` section it is an error.
- Durations are texts such as `\"45s\"`, `\"500ms\"`, `\"2m\"`, `\"6h\"`. A bare number is an error, except in a
  server's `timeout`, which other clients have too: there it is in seconds below 1000 and in milliseconds from 1000 on,
  because those clients differ.
- Sizes are numbers of bytes, or texts such as `\"512KiB\"` and `\"4MiB\"`.
- In patterns `*` stands for anything and `?` for one character.
- Relative paths in `bearer_token_file`, `key_file`, `file` and `payload_dir` start at the folder of the file.
- A key that is not known is an error in `gateway`, `lifecycle` and `tools`, and a warning elsewhere, because other
  clients have keys of their own.
- `--config` may be given more than once, and `--config-stdin` reads one more document from standard input. Each may
  bring servers, one of them the `gateway` section; nothing may be said twice.
";

/// `docs/reference/config.md`.
pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in sections() {
        let title = if section.is_empty() { "At the top" } else { section };
        // Writing to a string cannot fail, also below.
        let _ = write!(
            page,
            "\n## {}\n\n| key | value | default | |\n|---|---|---|---|\n",
            code(title)
        );
        for key in keys_of(section) {
            let default =
                if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
            let _ = writeln!(
                page,
                "| `{}` | {} | {default} | {} |",
                key.name(),
                words(key.kind),
                key.about
            );
        }
    }
    page
}

fn code(title: &str) -> String {
    if title.contains(' ') { title.to_owned() } else { format!("`{title}`") }
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// In words, for people.
fn words(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".into(),
        Kind::Path => "path".into(),
        Kind::Flag => "true or false".into(),
        Kind::Integer => "whole number".into(),
        Kind::Count => "number, at least 1".into(),
        Kind::Number => "number".into(),
        Kind::Duration => "duration".into(),
        Kind::DurationOrNumber => "duration or number".into(),
        Kind::DurationOrNever => "duration or `never`".into(),
        Kind::Size => "size".into(),
        Kind::Rate => "count/duration".into(),
        Kind::Texts => "list of texts".into(),
        Kind::Patterns => "list of patterns".into(),
        Kind::Pairs => "object of texts".into(),
        Kind::Choice(words) => listed(words),
        Kind::Choices(words) => format!("list of {}", listed(words)),
        Kind::Section | Kind::Foreign | Kind::Map => "object".into(),
        Kind::List => "list of objects".into(),
        Kind::PatternsOrSection => "list of patterns, or object".into(),
        Kind::Secrets => "text, `{ file }`, or list of those".into(),
        Kind::Ignored => "anything".into(),
    }
}
