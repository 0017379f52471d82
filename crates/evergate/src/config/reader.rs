//! Walks one object of a configuration: takes the keys that are known, and complains about the rest.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::finding::{Finding, Severity};
use super::pattern::Pattern;
use super::rate::{self, Rate};
use super::{duration, size, spelling, variables};

/// What is not in a document but decides how it is read.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    /// Relative paths start here: where the file is.
    pub(crate) folder: &'a Path,
    /// The file, if findings must say which one.
    pub(crate) file: Option<&'a str>,
}

/// What reading left behind.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) findings: Vec<Finding>,
    /// Every key that was looked up, `*` in the place of names: the table of keys is compared with it.
    #[cfg(test)]
    pub(crate) asked: std::collections::BTreeSet<String>,
}

/// Reads one object.
pub(crate) struct Reader<'a> {
    object: Option<&'a Map<String, Value>>,
    path: String,
    /// The path with `*` in the place of names.
    place: String,
    notes: &'a mut Notes,
    around: Surroundings<'a>,
    /// The keys that were asked for.
    known: Vec<&'static str>,
    unset_variables: Unset,
}

/// About as many as a server is asked for, so that the list need not grow.
const MOST_KEYS: usize = 40;

/// What a variable that is not set does.
enum Unset {
    /// It is an error: this section is needed as it is.
    Refused,
    /// It switches off what is being read: the first one, and the field that wants it.
    Noted(Option<String>),
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Reads a document from its top. Whether it is an object is for the caller to say, once.
    pub(crate) fn top(document: &'a Value, notes: &'a mut Notes, around: Surroundings<'a>) -> Self {
        Self {
            object: document.as_object(),
            path: String::new(),
            place: String::new(),
            notes,
            around,
            known: Vec::new(),
            unset_variables: Unset::Noted(None),
        }
    }

    /// Reads one object in another; says so if it is none.
    fn inner<'b>(
        &'b mut self,
        key: &str,
        place: &str,
        value: &'b Value,
        unset_variables: Unset,
    ) -> Option<Reader<'b>> {
        let Some(object) = value.as_object() else {
            self.error(key, &format!("must be an object, not {}", kind(value)));
            return None;
        };
        Some(Reader {
            object: Some(object),
            path: self.at(key),
            place: join(&self.place, place),
            notes: self.notes,
            around: self.around,
            known: Vec::with_capacity(MOST_KEYS),
            unset_variables,
        })
    }

    pub(crate) fn error(&mut self, key: &str, message: &str) {
        self.say(Severity::Error, key, message);
    }

    pub(crate) fn warning(&mut self, key: &str, message: &str) {
        self.say(Severity::Warning, key, message);
    }

    pub(crate) fn note(&mut self, key: &str, message: &str) {
        self.say(Severity::Note, key, message);
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.object.is_some_and(|object| object.contains_key(key))
    }

    pub(crate) fn around(&self) -> Surroundings<'a> {
        self.around
    }

    pub(crate) fn object(&self) -> Option<&'a Map<String, Value>> {
        self.object
    }

    /// From here on a variable that is not set is an error.
    pub(crate) fn refuse_unset_variables(&mut self) {
        self.unset_variables = Unset::Refused;
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
    pub(crate) fn own_section<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        let value = self.take(key)?;
        self.nested(key, key, value, read)
    }

    /// The same for a value that was taken already: `key` says where it is, `place` that with `*` instead of names.
    pub(crate) fn nested<T>(
        &mut self,
        key: &str,
        place: &str,
        value: &Value,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        let inherited = match &self.unset_variables {
            Unset::Refused => Unset::Refused,
            Unset::Noted(_) => Unset::Noted(None),
        };
        let mut section = self.inner(key, place, value, inherited)?;
        let result = read(&mut section);
        let unset = section.complete(Severity::Error);
        if let (Unset::Noted(first), Some(unset)) = (&mut self.unset_variables, unset) {
            first.get_or_insert(unset);
        }
        Some(result)
    }

    /// Reads one object that other clients write too: the keys they put there are only worth a warning.
    pub(crate) fn foreign<T>(
        &mut self,
        key: &str,
        place: &str,
        value: &Value,
        read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut entry = self.inner(key, place, value, Unset::Noted(None))?;
        read(&mut entry)
    }

    /// Text with its variables filled in.
    pub(crate) fn string(&mut self, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        self.text(key, value)
    }

    /// A path; a relative one starts at the folder of the file.
    pub(crate) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let text = self.string(key)?;
        if text.is_empty() {
            self.error(key, "must not be empty");
            return None;
        }
        Some(self.around.folder.join(text))
    }

    pub(crate) fn strings(&mut self, key: &'static str) -> Option<Vec<String>> {
        let value = self.take(key)?;
        let Some(items) = value.as_array() else {
            self.error(key, &format!("must be a list of strings, not {}", kind(value)));
            return None;
        };
        let numbered = items.iter().enumerate();
        Some(numbered.filter_map(|(n, item)| self.text(&format!("{key}[{n}]"), item)).collect())
    }

    pub(crate) fn patterns(&mut self, key: &'static str) -> Option<Vec<Pattern>> {
        let texts = self.strings(key)?;
        if texts.iter().any(String::is_empty) {
            self.error(key, "has an empty pattern, which matches nothing");
        }
        Some(texts.iter().map(|text| Pattern::new(text)).collect())
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

    /// How many. Whether it may be none is for the caller to say.
    pub(crate) fn count(&mut self, key: &'static str) -> Option<usize> {
        let number = self.integer(key)?;
        let count = usize::try_from(number).ok();
        if count.is_none() {
            self.error(key, &format!("must be at least 1, not {number}"));
        }
        count
    }

    /// How many bytes. Whether it may be none is for the caller to say.
    pub(crate) fn size(&mut self, key: &'static str) -> Option<usize> {
        let value = self.take(key)?;
        size::read(value).map_err(|message| self.error(key, &message)).ok()
    }

    /// So many in so long.
    pub(crate) fn rate(&mut self, key: &'static str) -> Option<Rate> {
        let text = self.string(key)?;
        rate::parse(&text).map_err(|message| self.error(key, &message)).ok()
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

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let value = self.take(key)?;
        duration::read(value).map_err(|message| self.error(key, &message)).ok()
    }

    /// A duration that other clients have too; a note says how their bare number was understood.
    pub(crate) fn foreign_duration(&mut self, key: &'static str) -> Option<Duration> {
        let value = self.take(key)?;
        match duration::read_foreign(value) {
            Ok(understood) => {
                if let Some(note) = understood.note {
                    self.note(key, &note);
                }
                Some(understood.duration)
            }
            Err(message) => {
                self.error(key, &message);
                None
            }
        }
    }

    /// A duration that may be neither nothing nor so long that clocks overflow.
    pub(crate) fn positive(&mut self, key: &'static str) -> Option<Duration> {
        let duration = self.duration(key)?;
        if duration.is_zero() {
            self.error(key, "must be more than zero");
        } else if duration > duration::LONGEST {
            self.error(key, "must not be more than a year");
        }
        Some(duration)
    }

    /// Complains about keys nobody asked for, and hands back what kept this object from being complete.
    pub(crate) fn complete(&mut self, severity: Severity) -> Option<String> {
        for key in self.object?.keys() {
            if self.known.contains(&key.as_str()) {
                continue;
            }
            let hint = match spelling::nearest(key, self.known.iter().copied()) {
                Some(near) => format!("; did you mean {near:?}?"),
                None => String::new(),
            };
            self.say(severity, key, &format!("is not a key that is known here{hint}"));
        }
        match &mut self.unset_variables {
            Unset::Refused => None,
            Unset::Noted(first) => first.take(),
        }
    }

    /// A value as it is, for keys that may be written in more than one way.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        // One that is asked for twice is there twice: to look first costs more, and of servers there may be hundreds.
        self.known.push(key);
        #[cfg(test)]
        self.notes.asked.insert(join(&self.place, key));
        self.object?.get(key).filter(|value| !value.is_null())
    }

    /// One text with its variables filled in.
    pub(crate) fn text(&mut self, key: &str, value: &Value) -> Option<String> {
        let Some(text) = value.as_str() else {
            self.error(key, &format!("must be a string, not {}", kind(value)));
            return None;
        };
        match variables::expand(text, self.around.environment) {
            Ok(text) => Some(text),
            Err(variables::Unset::Variable(name)) => {
                let message = format!("the environment variable {name} is not set");
                let path = self.at(key);
                match &mut self.unset_variables {
                    Unset::Refused => self.error(key, &message),
                    Unset::Noted(first) => {
                        first.get_or_insert_with(|| format!("{path}: {message}"));
                    }
                }
                None
            }
            Err(variables::Unset::Malformed) => {
                self.error(key, "has a \"${\" that is not closed or names nothing");
                None
            }
        }
    }

    fn say(&mut self, severity: Severity, key: &str, message: &str) {
        let (file, path) = (self.around.file.map(str::to_owned), self.at(key));
        let message = message.to_owned();
        self.notes.findings.push(Finding { severity, file, path, message });
    }

    fn at(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", "") => "the whole file".to_owned(),
            (path, key) => join(path, key),
        }
    }
}

fn join(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) => [path, ".", key].concat(),
    }
}

/// What a value is, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
