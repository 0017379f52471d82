//! Where something is in a text, for people who have to mend it.

use toml::de::{DeTable, DeValue};

use super::document::Syntax;
use super::entry::{Path, Step};
use super::yaml;
use crate::json_text;

/// Line and column of what a path leads to; the last thing on its way that is there, if the rest is not.
pub(super) fn position(text: &str, syntax: Syntax, path: &Path) -> Option<(usize, usize)> {
    match syntax {
        Syntax::Json => {
            let mut found = json_text::root(text)?;
            for step in path.steps() {
                let next = match step {
                    Step::Key(key) => json_text::member(text, &found, key),
                    Step::Item(item) => json_text::item(text, &found, *item),
                };
                let Some(next) = next else { break };
                found = next;
            }
            Some(line_and_column(text, found.start))
        }
        Syntax::Toml => {
            let table = DeTable::parse(text).ok()?;
            let mut start = table.span().start;
            let mut value = DeValue::Table(table.into_inner());
            for step in path.steps() {
                let next = match (step, value) {
                    (Step::Key(key), DeValue::Table(table)) => {
                        table.into_iter().find(|(name, _)| name.get_ref() == key).map(|(_, v)| v)
                    }
                    (Step::Item(item), DeValue::Array(array)) => array.into_iter().nth(*item),
                    _ => None,
                };
                let Some(next) = next else { break };
                start = next.span().start;
                value = next.into_inner();
            }
            Some(line_and_column(text, start))
        }
        Syntax::Yaml => yaml::position(text, path),
    }
}

/// Both from 1 on; the column counts characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_thing_is_found_in_every_syntax() {
        let path = Path::default().key("servers").key("a b").key("args").item(1);
        let json = "{ // \"servers\"\n  \"servers\": {\"a b\": {\"args\": [1, // ,\n 2]}},\n}";
        let toml = "[servers.'a b']\nargs = [1,\n 2]";
        let yaml = "servers:\n  a b:\n    args: [1,\n 2]\n";
        assert_eq!(position(json, Syntax::Json, &path), Some((3, 2)));
        assert_eq!(position(toml, Syntax::Toml, &path), Some((3, 2)));
        assert_eq!(position(yaml, Syntax::Yaml, &path), Some((4, 2)));
    }

    #[test]
    fn what_is_not_there_is_as_far_as_it_goes() {
        let path = Path::default().key("servers").key("nothing");
        assert_eq!(position("{\n\"servers\": 7}", Syntax::Json, &path), Some((2, 12)));
        assert_eq!(position("\nservers = 7", Syntax::Toml, &path), Some((2, 11)));
        assert_eq!(position("servers: 7", Syntax::Yaml, &path), Some((1, 10)));
    }
}
