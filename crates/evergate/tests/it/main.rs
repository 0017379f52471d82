//! The built binary, run the way a user runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so")]

mod commands;
mod completions;
mod connecting;
mod deploy;
mod docs;
mod doctoring;
mod examples;
mod importing;
mod man;
mod reference;
#[cfg(unix)]
mod serving;

use std::process::{Command, Output};

pub(crate) fn evergate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(args).env_remove("RUST_LOG").output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The commands that are not hidden, in the order in which the help has them.
pub(crate) fn commands() -> Vec<String> {
    let help = stdout(&evergate(&["--help"]));
    let (_, listed) = help.split_once("\nCommands:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    let names = listed.lines().filter_map(|line| {
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        line.split_whitespace().next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

/// Times, process ids and how many attempts a random backoff took are left out; everything else is as users see it.
#[test]
fn the_demonstration_shows_what_became_of_every_call() {
    let output = evergate(&["demo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = stdout(&output);
    insta::with_settings!({ filters => [
        (r" +\d+\.\d\d s ", "  0.00 s "),
        (r"after \d+ ms", "after 0 ms"),
        (r"kill -9 \d+", "kill -9 PID"),
        (r"generation \d+", "generation N"),
    ]}, {
        insta::assert_snapshot!(in_order_of_server(&text));
    });
}

/// Two servers connect at the same time: the order of their first lines is theirs to choose.
fn in_order_of_server(text: &str) -> String {
    let (start, rest) = text.split_once("\n\n").unwrap();
    let mut lines: Vec<&str> = start.lines().collect();
    lines[1..].sort_by_key(|line| line.split_once(" s ").map(|(_, what)| what.to_owned()));
    format!("{}\n\n{rest}", lines.join("\n"))
}

#[test]
fn help_teaches_and_bad_usage_is_64() {
    let help = evergate(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    insta::assert_snapshot!(stdout(&help));
    let wrong = evergate(&["sing"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("unrecognized subcommand 'sing'"));
}
