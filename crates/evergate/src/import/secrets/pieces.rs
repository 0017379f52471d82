//! Where in a text the secrets are.
//!
//! In a URL, and behind a name, a secret has a beginning and an end. In other texts (a line for a shell, JSON, the
//! settings of a connection) only that there is one is certain, so all of the text is taken for it: quotes and escapes
//! are everybody's own, and half a secret is a leak.

use std::ops::Range;

use super::marks::{
    is_identifier, is_scheme, is_secret, is_secret_name, is_secret_option, is_switch, looks_chosen,
    looks_opaque, looks_random, looks_secret, scheme,
};
use super::masked::HOLE;

/// A stretch of a text that nobody else should read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    /// What it is called there.
    pub(super) name: String,
    /// Which part of the text it is, for people.
    pub(super) part: String,
}

/// All of a text is one, for nobody knows where it ends.
const WHOLE_ARGUMENT: &str = ", the whole argument";
/// How keys in files begin, whatever kind they are of.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Of a variable of the environment, or whatever else has a name and a value.
pub(super) fn of_value(name: &str, text: &str) -> Vec<Piece> {
    let opaque = looks_opaque(text) && !is_identifier(name);
    if is_secret(name, text) || looks_secret(text) || opaque || has_password(text) {
        return literal(text, 0, name);
    }
    if looks_opaque(text) { Vec::new() } else { of_text(text, name, "") }
}

pub(super) fn of_header(name: &str, text: &str) -> Vec<Piece> {
    let from = scheme(text);
    if is_secret(name, text) || from > 0 || looks_secret(text) || looks_opaque(text) {
        return literal(text, from, name);
    }
    of_text(text, name, "")
}

/// Of an argument behind an option or another argument.
pub(super) fn of_argument(before: Option<&str>, text: &str) -> Vec<Piece> {
    if let Some(option) = before {
        let is_place = option.len() == 2 && text.contains('/');
        if is_secret_option(option) && !is_place && !is_switch(text) || looks_chosen(option, text) {
            return literal(text, scheme(text), long_name(option));
        }
        // As curl has it; docker has numbers there.
        let is_user = matches!(option, "-u" | "--user" | "--basic" | "--proxy-user");
        let is_number = text.chars().all(|c| c.is_ascii_digit() || c == ':');
        if is_user && !is_number && has_password(&format!("{text}@")) {
            return literal(text, 0, "user_password");
        }
    }
    if let Some((name, from)) = assignment(text) {
        let value = &text[from..];
        let pieces = if text[..from].ends_with(':') {
            of_header(name, value)
        } else if is_one_value(before, name, value) {
            let secret = is_secret(name, value);
            if secret { literal(value, scheme(value), name) } else { of_value(name, value) }
        } else {
            return of_text(text, "argument", WHOLE_ARGUMENT);
        };
        return pieces.into_iter().map(|piece| piece.moved(from)).collect();
    }
    if looks_secret(text) || looks_opaque(text) {
        return literal(text, 0, "secret");
    }
    of_text(text, "argument", WHOLE_ARGUMENT)
}

/// Of an option with its value attached, `-kVALUE`.
pub(super) fn of_option(text: &str) -> Vec<Piece> {
    match text.char_indices().nth(2) {
        Some((at, _)) if looks_secret(&text[at..]) || looks_opaque(&text[at..]) => {
            literal(text, at, "secret")
        }
        _ => Vec::new(),
    }
}

/// Of a program, which is none if it has any.
pub(super) fn of_command(text: &str) -> Vec<Piece> {
    of_text(text, "command", ", the whole command")
}

/// Of a URL, apart from the user before its host.
pub(super) fn of_url(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if let Some((_, host, end)) = next_url(text, 0) {
        let after = text[host..end].find(['/', '?', '#', ';']).map_or(end, |at| host + at);
        below_host(text, after..end, &mut pieces);
    }
    pieces
}

/// Whether an argument names what comes behind it.
pub(super) fn is_option(before: Option<&str>, text: &str) -> bool {
    if !text.starts_with('-') || text.contains(['=', ' ', ':', HOLE]) {
        return false;
    }
    // Tokens begin with anything, so behind an option that wants one only what is plainly another option is not it.
    let flag = |c: char| c.is_ascii_lowercase() || c == '-';
    let plain = text.len() <= 2 || text.starts_with("--") && text.chars().all(flag);
    plain || !before.is_some_and(is_secret_option)
}

/// Whether what stands before something says that a secret follows.
pub(super) fn announces(before: &str) -> bool {
    let is_apart = before.ends_with(' ');
    let last = before.trim_end().rsplit([' ', '"', '\'', '=', ':']).next().unwrap_or_default();
    if is_apart && is_scheme(last) {
        return true;
    }
    let before = before.trim_end_matches([' ', '"', '\'']);
    let Some(named) = before.strip_suffix(['=', ':']) else { return false };
    let named = named.trim_end_matches([' ', '"', '\'']);
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    is_secret_name(named.rsplit(word).next().unwrap_or_default())
}

fn of_text(text: &str, name: &str, part: &str) -> Vec<Piece> {
    if let Some((_, host, end)) = next_url(text, 0)
        && end == text.len()
        && is_only_named(text)
    {
        return in_url(text, host, end);
    }
    let mut found = scan(text);
    found.extend(text.match_indices(PRIVATE_KEY).map(|(at, key)| at..at + key.len()));
    let mut at = 0;
    while let Some((_, host, end)) = next_url(text, at) {
        found.extend(in_url(text, host, end).into_iter().map(|piece| piece.range));
        at = end;
    }
    let taken = |run: &Range<usize>| found.iter().any(|f| f.start < run.end && run.start < f.end);
    let runs: Vec<_> = runs(text, 0).into_iter().filter(taken).collect();
    let piece = |range: Range<usize>| {
        let part = if range.len() == text.len() { part } else { ", beside its variables" };
        Piece { range, name: name.to_owned(), part: part.to_owned() }
    };
    runs.into_iter().map(piece).collect()
}

/// Everything from there on that is not left to variables.
fn literal(text: &str, from: usize, name: &str) -> Vec<Piece> {
    let has_holes = text.contains(HOLE);
    let says_something = |run: &Range<usize>| {
        let run = &text[run.clone()];
        let mut words = run.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
        // `Authorization: Bearer ${X}` has no secret beside the variable.
        !has_holes || words.any(|word| !is_secret_name(word) && !is_scheme(word))
    };
    let part = if has_holes { ", beside its variables" } else { "" };
    let piece = |range| Piece { range, name: name.to_owned(), part: part.to_owned() };
    runs(text, from).into_iter().filter(says_something).map(piece).collect()
}

/// The stretches between variables.
fn runs(text: &str, from: usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut at = from;
    for run in text[from..].split(HOLE) {
        if run.chars().any(|c| !c.is_whitespace()) {
            runs.push(at..at + run.len());
        }
        at += run.len() + HOLE.len_utf8();
    }
    runs
}

/// The first URL from there on: where it and its host begin, and where it ends.
fn next_url(text: &str, from: usize) -> Option<(usize, usize, usize)> {
    let at = from + text.get(from..)?.find("://")?;
    let in_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    let scheme = text[from..at].chars().rev().take_while(|c| in_scheme(*c)).count();
    let host = at + 3;
    let ends = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
    let end = text[host..].find(ends).map_or(text.len(), |end| host + end);
    Some((at - scheme, host, end))
}

/// Nothing but a URL, `name=URL` or `jdbc:URL`.
fn is_only_named(text: &str) -> bool {
    let Some((start, _, _)) = next_url(text, 0) else { return false };
    let name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let before = &text[..start];
    before.is_empty() || before.strip_suffix(['=', ':']).is_some_and(|b| b.chars().all(name))
}

fn in_url(text: &str, host: usize, end: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let after = text[host..end].find(['/', '?', '#', ';']).map_or(end, |at| host + at);
    if let Some(at) = text[host..after].rfind('@') {
        let user = &text[host..host + at];
        let (name, password) = user.split_once(':').map_or((user, None), |(n, p)| (n, Some(p)));
        if looks_secret(name) || looks_random(name) {
            push(text, host..host + name.len(), "token", ", its user", &mut pieces);
        }
        if password.is_some() {
            let password = host + name.len() + 1..host + at;
            push(text, password, "password", ", its password", &mut pieces);
        }
    }
    below_host(text, after..end, &mut pieces);
    pieces
}

/// Path and parameters.
fn below_host(text: &str, range: Range<usize>, pieces: &mut Vec<Piece>) {
    let path = text[range.clone()].find(['?', '#', ';']).map_or(range.end, |at| range.start + at);
    let mut at = range.start;
    for part in text[at..path].split('/') {
        // A commit that a package is fetched at.
        let (name, pin) = part.split_once('@').unwrap_or((part, ""));
        let is_pin = !pin.is_empty() && pin.chars().all(|c| c.is_ascii_hexdigit());
        let looked_at = if is_pin { name } else { part };
        if looks_random(looked_at) || looks_secret(looked_at) {
            let name = "url_secret";
            push(text, at..at + looked_at.len(), name, ", a part of its path", pieces);
        }
        at += part.len() + 1;
    }
    let mut at = path;
    for pair in text[path..range.end].split(['?', '&', '#', ';']) {
        if let Some((name, value)) = pair.split_once('=') {
            let random = looks_random(value) && !is_identifier(name);
            if is_secret(name, value) || looks_secret(value) || random {
                let part = format!(", its parameter {name}");
                push(text, at + name.len() + 1..at + pair.len(), name, &part, pieces);
            }
        }
        at += pair.len() + 1;
    }
}

fn push(text: &str, range: Range<usize>, name: &str, part: &str, pieces: &mut Vec<Piece>) {
    for run in runs(&text[range.clone()], 0) {
        let range = range.start + run.start..range.start + run.end;
        pieces.push(Piece { range, name: name.to_owned(), part: part.to_owned() });
    }
}

/// Secrets in a text of which nothing is known: behind a name, behind a scheme, or known by their look.
fn scan(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // A name that was not followed by anything yet; a secret that must come now; one that may.
    let (mut named, mut expected, mut possible) = (false, false, false);
    for mut token in tokens(text) {
        if text[token.clone()].contains("://") {
            if expected {
                found.push(token);
            }
            (named, expected, possible) = (false, false, false);
            continue;
        }
        if named && text[token.clone()].starts_with(['=', ':']) {
            expected = true;
            token.start += 1;
        }
        let word = &text[token.clone()];
        named = false;
        if expected || possible {
            if word.is_empty() || word == "=" || word == ":" || is_scheme(word) {
                continue;
            }
            let other = word.starts_with("--") && is_option(Some("--token"), word);
            let seen = expected || word.contains(|c: char| c.is_ascii_digit() || c == '=');
            (expected, possible) = (false, false);
            if !other {
                if seen && is_literal(word) && !is_switch(word) {
                    found.push(token);
                }
                continue;
            }
        }
        if let Some((name, from)) = assignment(word) {
            let value = &word[from..];
            if is_secret_name(name) && (value.is_empty() || is_scheme(value)) {
                expected = true;
            } else if is_literal(value) && is_secret(name, value)
                || looks_secret(value)
                || looks_opaque(value) && !is_identifier(name)
            {
                found.push(token.start + from..token.end);
            }
            continue;
        }
        let lower = word.to_ascii_lowercase();
        expected = lower == "bearer" || word.starts_with('-') && is_secret_option(word);
        possible = lower == "basic";
        named = !expected && is_secret_name(word);
        if looks_secret(word) || looks_opaque(word) {
            found.push(token);
        }
    }
    found
}

/// What is between blanks, quotes and brackets.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let between = |c: char| c.is_whitespace() || "\"'`;,{}()[]<>|&\\".contains(c);
    let mut at = 0;
    let mut tokens = Vec::new();
    for word in text.split(between) {
        if !word.is_empty() {
            tokens.push(at..at + word.len());
        }
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    tokens
}

/// `NAME=value`, `--name=value` or `Name: value`: the name, and where the value begins.
fn assignment(text: &str) -> Option<(&str, usize)> {
    let at = text.find(['=', ':'])?;
    let name = &text[..at];
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = !name.is_empty() && name.chars().all(word) && !text[at..].starts_with("://");
    is_name.then_some((name, at + 1))
}

/// The value goes on to the end: no shell takes the argument apart.
fn is_one_value(before: Option<&str>, name: &str, value: &str) -> bool {
    name.starts_with('-')
        || !value.contains(char::is_whitespace)
        || matches!(before, Some("-e" | "--env"))
}

/// `user:password@host`, as drivers of databases write it.
fn has_password(text: &str) -> bool {
    let Some((user, host)) = text.split_once('@') else { return false };
    let plain = |c: char| !c.is_whitespace() && !"/\"'{}".contains(c);
    let Some((user, password)) = user.split_once(':') else { return false };
    let is_user = !user.is_empty() && user != "npm" && user != "jsr" && user.chars().all(plain);
    is_user && is_literal(password) && password.chars().all(plain) && !host.starts_with("sha256:")
}

fn long_name(option: &str) -> &str {
    match option {
        "-k" => "key",
        "-p" => "password",
        "-t" => "token",
        "-a" => "auth",
        option => option,
    }
}

fn is_literal(text: &str) -> bool {
    text.chars().any(|c| c != HOLE && !c.is_whitespace())
}

// === impl Piece ===

impl Piece {
    fn moved(mut self, by: usize) -> Self {
        self.range = self.range.start + by..self.range.end + by;
        self
    }
}

#[cfg(test)]
mod tests;
