//! The last lines a child wrote to its standard error. They are shown to people, so what the child was trusted with and
//! might repeat there is taken out.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};

use super::line_splitter::Line;

/// The last lines, across restarts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Tail>>);

#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
    /// Of all lines ever, those that were dropped included.
    count: u64,
}

/// Values that must not be shown.
#[derive(Clone, Default)]
pub(crate) struct Entrusted(Vec<String>);

const TAIL_LINES: usize = 50;
const TAIL_LINE_BYTES: usize = 500;

/// What the name of a secret has in it.
const TELLING: &[&str] =
    &["token", "key", "secret", "passw", "auth", "credential", "cookie", "session", "private"];

/// Shorter ones are no secrets, and would be found in every second word.
const SHORTEST: usize = 4;

// === impl Entrusted ===

impl Entrusted {
    /// By the names of variables and options.
    pub(crate) fn of(args: &[OsString], env: &[(OsString, OsString)]) -> Self {
        let mut values: Vec<String> = Vec::new();
        let mut add = |value: &OsStr| {
            let value = value.to_string_lossy();
            if value.len() >= SHORTEST {
                values.push(value.into_owned());
            }
        };
        for (name, value) in env {
            if is_telling(&name.to_string_lossy()) {
                add(value);
            }
        }
        let mut awaited = false;
        for arg in args {
            let text = arg.to_string_lossy();
            match text.split_once('=') {
                Some((option, value)) if option.starts_with('-') && is_telling(option) => {
                    add(OsStr::new(value));
                }
                _ if awaited && !text.starts_with('-') => add(arg),
                _ => {}
            }
            awaited = text.starts_with('-') && !text.contains('=') && is_telling(&text);
        }
        // What contains another goes first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    fn hide(&self, line: &str) -> String {
        let hide = |line: String, secret: &String| line.replace(secret, "<secret>");
        self.0.iter().fold(line.to_owned(), hide)
    }
}

impl std::fmt::Debug for Entrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

fn is_telling(name: &str) -> bool {
    let name = name.to_lowercase();
    TELLING.iter().any(|word| name.contains(word))
}

// === impl StderrTail ===

impl StderrTail {
    /// The lines, and how many there ever were.
    pub(crate) fn lines(&self) -> (Vec<String>, u64) {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (tail.lines.iter().cloned().collect(), tail.count)
    }

    pub(crate) fn keep(&self, line: &Line, entrusted: &Entrusted) {
        let line = match line {
            Line::Message(text) => entrusted.hide(&String::from_utf8_lossy(text)),
            Line::Oversized(_) => "(a line too long to keep)".to_owned(),
        };
        let end = line.floor_char_boundary(TAIL_LINE_BYTES);
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.lines.len() == TAIL_LINES {
            tail.lines.pop_front();
        }
        tail.lines.push_back(line[..end].to_owned());
        tail.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(args: &[&str], env: &[(&str, &str)], line: &str) -> String {
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        let env: Vec<(OsString, OsString)> =
            env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let tail = StderrTail::default();
        let text = bytes::Bytes::copy_from_slice(line.as_bytes());
        tail.keep(&Line::Message(text), &Entrusted::of(&args, &env));
        tail.lines().0.remove(0)
    }

    #[test]
    fn what_a_child_was_trusted_with_is_not_shown() {
        let env =
            [("GITHUB_TOKEN", "ghp_abc"), ("NODE_ENV", "production"), ("Api_Key", "ghp_abcdef")];
        let line = "production: using ghp_abcdef and ghp_abc";
        assert_eq!(hidden(&[], &env, line), "production: using <secret> and <secret>");
        let args = ["--api-key", "k-123", "--token=t-456", "--verbose", "path"];
        assert_eq!(hidden(&args, &[], "k-123 t-456 path"), "<secret> <secret> path");
    }

    #[test]
    fn what_is_too_short_to_be_a_secret_is_shown() {
        assert_eq!(hidden(&[], &[("USE_KEYRING", "no")], "no idea"), "no idea");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = hidden(&[], &[], &"ä".repeat(TAIL_LINE_BYTES));
        assert_eq!(line.len(), TAIL_LINE_BYTES);
        let odd = hidden(&[], &[], &format!("x{}", "ä".repeat(TAIL_LINE_BYTES)));
        assert_eq!(odd.len(), TAIL_LINE_BYTES - 1);
    }

    #[test]
    fn the_newest_lines_are_kept_and_all_are_counted() {
        let tail = StderrTail::default();
        for n in 0..TAIL_LINES + 3 {
            tail.keep(&Line::Message(n.to_string().into()), &Entrusted::default());
        }
        let (lines, count) = tail.lines();
        assert_eq!(
            (lines.len(), lines[0].as_str(), count),
            (TAIL_LINES, "3", TAIL_LINES as u64 + 3)
        );
    }
}
