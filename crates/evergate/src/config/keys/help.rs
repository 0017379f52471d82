//! The table as the help of `evergate check` shows it.

use std::fmt::Write as _;

use super::table::TABLE;
use super::{KeyDoc, Kind};

const HELP_END: &str = "\
Durations: \"45s\", \"500ms\", \"2m\", \"6h\"; a bare number below 1000 is in seconds, from 1000 on in
milliseconds. Sizes: bytes, or \"512KiB\", \"4MiB\". Patterns: * and ?.

${VAR}, ${env:VAR} and ${VAR:-default} are filled in from the environment. A server whose variable
is not set is switched off; the others are not concerned. In the gateway section it is an error.";

/// Where the explanations of the help begin, and where its lines end.
const INDENT: usize = 26;
const WIDTH: usize = 100;

/// What `evergate check --help` says after the options.
pub(crate) fn help() -> String {
    let mut help = String::from("The keys of a configuration:\n");
    for section in sections() {
        let title = if section.is_empty() { "at the top" } else { section };
        let _ = writeln!(help, "\n{title}");
        for key in keys_of(section).filter(|key| key.kind != Kind::Ignored) {
            let mut about = key.about.replace('`', "");
            if let Kind::Choice(words) = key.kind {
                let _ = write!(about, ": {}", words.join(", "));
            }
            if !key.default.is_empty() {
                let _ = write!(about, " ({})", key.default);
            }
            let _ = write!(help, "  {:<width$}", key.name(), width = INDENT - 2);
            wrap(&mut help, &about);
        }
    }
    help + "\n" + HELP_END
}

/// The objects that have keys, in the order of the table.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    for key in TABLE.iter().filter(|key| !key.is_nameless()) {
        if !sections.contains(&key.parent()) {
            sections.push(key.parent());
        }
    }
    sections
}

pub(super) fn keys_of(section: &str) -> impl Iterator<Item = &'static KeyDoc> {
    TABLE.iter().filter(move |key| key.parent() == section && !key.is_nameless())
}

/// Words in lines that are no longer than the screen, each but the first indented.
fn wrap(text: &mut String, words: &str) {
    let mut column = INDENT;
    for (n, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if n > 0 && column + 1 + length > WIDTH {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = INDENT;
        } else if n > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
}
