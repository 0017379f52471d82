//! Walks one object of a configuration: takes the keys that are known, and complains about the rest.

use std::fmt;

use serde_json::{Map, Value};

use super::duration::{self, Understood};
use super::variables;

/// Something to say about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Where, as in `mcpServers.docs.url`.
    pub(crate) path: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Nothing starts.
    Error,
    /// It works, though perhaps not as meant.
    Warning,
    /// How something that can be read in two ways was understood.
    Note,
}

/// Reads one object.
pub(crate) struct Reader<'a> {
    object: Option<&'a Map<String, Value>>,
    path: String,
    findings: &'a mut Vec<Finding>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    known: Vec<&'static str>,
    /// The first variable that is not set, and the field that wants it.
    unset: Option<String>,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(
        value: &'a Value,
        path: &str,
        findings: &'a mut Vec<Finding>,
        environment: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let object = value.as_object();
        let mut reader = Self {
            object,
            path: path.into(),
            findings,
            environment,
            known: Vec::new(),
            unset: None,
        };
        if object.is_none() {
            reader.error("", &format!("must be an object, not {}", kind(value)));
        }
        reader
    }

    pub(crate) fn findings(&mut self) -> &mut Vec<Finding> {
        self.findings
    }

    pub(crate) fn error(&mut self, key: &str, message: &str) {
        self.say(Severity::Error, key, message);
    }

    pub(crate) fn is_object(&self) -> bool {
        self.object.is_some()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.object.is_some_and(|object| object.contains_key(key))
    }

    /// A sub-object, as it is.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<&'a Map<String, Value>> {
        let value = self.take(key)?;
        let object = value.as_object();
        if object.is_none() {
            self.error(key, &format!("must be an object, not {}", kind(value)));
        }
        object
    }

    /// Reads a sub-object that is one of Evergate's own: a key it does not know is an error there.
    pub(crate) fn own_section(&mut self, key: &'static str, read: impl FnOnce(&mut Reader<'_>)) {
        let Some(value) = self.take(key) else { return };
        let path = self.at(key);
        let mut section = Reader::new(value, &path, self.findings, self.environment);
        read(&mut section);
        let unset = section.complete(Severity::Error);
        self.unset = self.unset.take().or(unset);
    }

    /// Text with its variables filled in.
    pub(crate) fn string(&mut self, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        self.text(key, value)
    }

    pub(crate) fn strings(&mut self, key: &'static str) -> Vec<String> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let Some(items) = value.as_array() else {
            self.error(key, &format!("must be a list of strings, not {}", kind(value)));
            return Vec::new();
        };
        let numbered = items.iter().enumerate();
        numbered.filter_map(|(n, item)| self.text(&format!("{key}[{n}]"), item)).collect()
    }

    /// Pairs of names and texts. Numbers and booleans count as texts, as they do in an environment.
    pub(crate) fn pairs(&mut self, key: &'static str) -> Vec<(String, String)> {
        let Some(object) = self.section(key) else { return Vec::new() };
        let read = object.iter().filter_map(|(name, value)| {
            let field = format!("{key}.{name}");
            let text = match value {
                Value::Number(number) => Some(number.to_string()),
                Value::Bool(flag) => Some(flag.to_string()),
                value => self.text(&field, value),
            };
            Some((name.clone(), text?))
        });
        read.collect()
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.error(key, &format!("must be true or false, not {}", kind(value)));
        }
        flag
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Option<f64> {
        let value = self.take(key)?;
        let number = value.as_f64();
        if number.is_none() {
            self.error(key, &format!("must be a number, not {}", kind(value)));
        }
        number
    }

    pub(crate) fn integer(&mut self, key: &'static str) -> Option<i64> {
        let value = self.take(key)?;
        let number = value.as_i64();
        if number.is_none() {
            self.error(key, &format!("must be a whole number, not {}", kind(value)));
        }
        number
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let word = self.string(key)?;
        let found = words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            self.error(key, &format!("must be one of {}, not {word:?}", names.join(", ")));
        }
        found
    }

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<std::time::Duration> {
        let value = self.take(key)?;
        match duration::read(value) {
            Ok(Understood { duration, note }) => {
                if let Some(note) = note {
                    self.say(Severity::Note, key, &note);
                }
                Some(duration)
            }
            Err(message) => {
                self.error(key, &message);
                None
            }
        }
    }

    /// Complains about keys nobody asked for, and hands back what kept this object from being complete.
    pub(crate) fn complete(&mut self, severity: Severity) -> Option<String> {
        let object = self.object?;
        for key in object.keys() {
            if self.known.contains(&key.as_str()) {
                continue;
            }
            let hint = match nearest(key, &self.known) {
                Some(near) => format!("; did you mean {near:?}?"),
                None => String::new(),
            };
            self.say(severity, key, &format!("is not a key that is known here{hint}"));
        }
        self.unset.take()
    }

    /// A key that is none of our business.
    pub(crate) fn ignore(&mut self, key: &'static str) {
        self.take(key);
    }

    fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.object?.get(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str, value: &Value) -> Option<String> {
        let Some(text) = value.as_str() else {
            self.error(key, &format!("must be a string, not {}", kind(value)));
            return None;
        };
        match variables::expand(text, self.environment) {
            Ok(text) => Some(text),
            Err(variables::Unset::Variable(name)) => {
                let reason =
                    format!("{}: the environment variable {name} is not set", self.at(key));
                self.unset.get_or_insert(reason);
                None
            }
            Err(variables::Unset::Malformed) => {
                self.error(key, "has a \"${\" that is not closed or names nothing");
                None
            }
        }
    }

    fn say(&mut self, severity: Severity, key: &str, message: &str) {
        let path = self.at(key);
        self.findings.push(Finding { severity, path, message: message.into() });
    }

    fn at(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", "") => "the whole file".to_owned(),
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }
}

/// The known key that a mistyped one is closest to, if it is close at all.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let close = known.iter().map(|candidate| (distance(key, candidate), *candidate));
    close.filter(|(distance, _)| *distance <= 2).min().map(|(_, candidate)| candidate)
}

/// Edits that lead from one word to the other, in letters regardless of case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{severity}: {}: {}", self.path, self.message)
    }
}
