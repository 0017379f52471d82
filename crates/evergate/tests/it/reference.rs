//! The command line's reference is what the command line says of itself.

use std::fmt::Write as _;
use std::path::Path;

use crate::{commands, evergate, stdout};

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let mut text = String::from(
        "# Command line\n\n<!-- generated; UPDATE_REFERENCE=1 cargo test -p evergate up_to_date writes it again -->\n",
    );
    let commands = commands();
    for command in std::iter::once("").chain(commands.iter().map(String::as_str)) {
        let args: Vec<&str> =
            [command, "--help"].into_iter().filter(|arg| !arg.is_empty()).collect();
        let help = stdout(&evergate(&args));
        let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        write!(text, "\n## `{}`\n\n```text\n{help}\n```\n", format!("evergate {command}").trim())
            .unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/reference/cli.md is stale: UPDATE_REFERENCE=1 cargo test -p evergate up_to_date"
    );
}
