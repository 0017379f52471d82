//! Walks one object of a source: takes the keys that are known, and notes what is not as it should be.

use std::fmt;

use serde_json::{Map, Value};

/// Where something is in a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Item(usize),
}

/// Something of the wrong kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) path: Path,
    pub(crate) expected: String,
}

/// One object, while it is read.
pub(super) struct Entry<'a> {
    object: &'a Map<String, Value>,
    pub(super) path: Path,
    taken: Vec<&'a str>,
}

// === impl Path ===

impl Path {
    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    pub(crate) fn item(&self, item: usize) -> Self {
        self.with(Step::Item(item))
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if n == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Item(item) => write!(f, "[{item}]")?,
            }
        }
        Ok(())
    }
}

// === impl Entry ===

impl<'a> Entry<'a> {
    /// An object; a problem if it is something else.
    pub(super) fn new(value: &'a Value, path: Path, problems: &mut Vec<Problem>) -> Option<Self> {
        let Some(object) = value.as_object() else {
            problems.push(Problem::new(path, "an object", value));
            return None;
        };
        Some(Self { object, path, taken: Vec::new() })
    }

    /// A value as it is, for what may be written in more than one way.
    pub(super) fn take(&mut self, key: &'a str) -> Option<&'a Value> {
        self.taken.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, key: &'a str, problems: &mut Vec<Problem>) -> Option<&'a str> {
        let value = self.take(key)?;
        self.expect(key, value, "a string", value.as_str(), problems)
    }

    pub(super) fn flag(&mut self, key: &'a str, problems: &mut Vec<Problem>) -> Option<bool> {
        let value = self.take(key)?;
        self.expect(key, value, "true or false", value.as_bool(), problems)
    }

    pub(super) fn number(&mut self, key: &'a str, problems: &mut Vec<Problem>) -> Option<f64> {
        let value = self.take(key)?;
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        self.expect(key, value, "a number that is not negative", number, problems)
    }

    pub(super) fn texts(
        &mut self,
        key: &'a str,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<&'a str>> {
        let value = self.take(key)?;
        let items = self.expect(key, value, "a list of strings", value.as_array(), problems)?;
        let mut texts = Vec::with_capacity(items.len());
        for (n, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push(text),
                None => problems.push(Problem::new(self.path.key(key).item(n), "a string", item)),
            }
        }
        Some(texts)
    }

    /// Names and texts. Numbers and flags count as texts, as they do in an environment; null is as good as absent.
    pub(super) fn pairs(
        &mut self,
        key: &'a str,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<(&'a str, String)>> {
        let value = self.take(key)?;
        let object =
            self.expect(key, value, "an object of strings by name", value.as_object(), problems)?;
        let mut pairs = Vec::with_capacity(object.len());
        for (name, value) in object {
            match value {
                Value::String(text) => pairs.push((name.as_str(), text.clone())),
                Value::Number(_) | Value::Bool(_) => pairs.push((name, value.to_string())),
                Value::Null => {}
                _ => {
                    let path = self.path.key(key).key(name);
                    problems.push(Problem::new(path, "a string", value));
                }
            }
        }
        Some(pairs)
    }

    pub(super) fn section(&mut self, key: &'a str, problems: &mut Vec<Problem>) -> Option<Self> {
        let value = self.take(key)?;
        Entry::new(value, self.path.key(key), problems)
    }

    /// What is in it, by name.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value, Path)> + use<'a> {
        let path = self.path.clone();
        self.object.iter().map(move |(name, value)| (name.as_str(), value, path.key(name)))
    }

    /// The keys nobody took.
    pub(super) fn rest(&self) -> Vec<&'a str> {
        let names = self.object.iter().filter(|(_, value)| !value.is_null());
        let names = names.map(|(name, _)| name.as_str());
        names.filter(|name| !self.taken.contains(name)).collect()
    }

    fn expect<T>(
        &self,
        key: &str,
        value: &Value,
        expected: &str,
        found: Option<T>,
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        if found.is_none() {
            problems.push(Problem::new(self.path.key(key), expected, value));
        }
        found
    }
}

// === impl Problem ===

impl Problem {
    pub(super) fn new(path: Path, expected: &str, found: &Value) -> Self {
        Self { path, expected: format!("expected {expected}, found {}", kind(found)) }
    }
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
