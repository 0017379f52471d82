//! Everybody's ways to write a variable, as `${NAME}`.

use std::path::Path;

use super::Asked;

/// What a client would fill in, and how it writes variables.
#[derive(Clone, Copy)]
pub(super) struct Dialect<'a> {
    /// Who would fill them in, for notes.
    pub(super) client: &'static str,
    /// `${workspaceFolder}`, if the file belongs to one.
    pub(super) workspace: Option<&'a Path>,
    pub(super) home: Option<&'a Path>,
    /// `$NAME` is a variable too.
    pub(super) bare: bool,
}

/// A text with its variables in our spelling.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    pub(super) asked: Vec<Asked>,
}

/// A `${` that is not closed or names nothing: nobody can tell what it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unclosed;

pub(super) fn translate(text: &str, dialect: &Dialect<'_>) -> Result<Translated, Unclosed> {
    let mut translated = Translated { text: String::with_capacity(text.len()), asked: Vec::new() };
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        translated.text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("${") {
            let (inner, tail) = after.split_once('}').ok_or(Unclosed)?;
            one(inner, dialect, &mut translated)?;
            rest = tail;
            continue;
        }
        let name = rest[1..].split(|c: char| !is_word(c)).next().unwrap_or_default();
        if dialect.bare && is_name(name) {
            translated.refer(name, None);
            rest = &rest[1 + name.len()..];
        } else {
            translated.text.push('$');
            rest = &rest[1..];
        }
    }
    translated.text.push_str(rest);
    Ok(translated)
}

/// One `${…}`, without its brackets.
fn one(inner: &str, dialect: &Dialect<'_>, into: &mut Translated) -> Result<(), Unclosed> {
    let path = |path: Option<&Path>| path.map(|path| path.display().to_string());
    let workspace = path(dialect.workspace);
    let known = match inner {
        "workspaceFolder" | "workspaceRoot" => workspace,
        "workspaceFolderBasename" => {
            let name = dialect.workspace.and_then(Path::file_name);
            name.map(|name| name.to_string_lossy().into_owned())
        }
        "userHome" => path(dialect.home),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
        _ => None,
    };
    if let Some(known) = known {
        into.text.push_str(&known);
        return Ok(());
    }
    let plain = inner.strip_prefix("env:").or_else(|| inner.strip_prefix("env.")).unwrap_or(inner);
    let name = plain.split(":-").next().unwrap_or_default();
    if name.is_empty() {
        return Err(Unclosed);
    }
    if is_name(name) && !matches!(inner, "workspaceFolder" | "workspaceRoot" | "userHome") {
        into.refer_with(name, plain, None);
        return Ok(());
    }
    let what = match inner.strip_prefix("input:") {
        Some(id) => format!("{} asks for it as {id:?}", dialect.client),
        None => format!("{} fills it in for ${{{inner}}}", dialect.client),
    };
    into.refer(&variable_name(inner.strip_prefix("input:").unwrap_or(inner)), Some(what));
    Ok(())
}

/// A name for a variable, made of whatever there is.
pub(super) fn variable_name(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut small = false;
    for c in text.chars() {
        // `apiKey` is two words.
        if c.is_ascii_uppercase() && small {
            name.push('_');
        }
        small = c.is_ascii_lowercase();
        name.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    }
    let name = name.trim_matches('_');
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        return format!("MCP_{name}").trim_end_matches('_').to_owned();
    }
    name.to_owned()
}

/// Whether the text leaves something for the environment to fill in.
pub(super) fn refers(text: &str) -> bool {
    text.contains("${")
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

// === impl Translated ===

impl Translated {
    fn refer(&mut self, name: &str, what: Option<String>) {
        self.refer_with(name, name, what);
    }

    fn refer_with(&mut self, name: &str, inner: &str, what: Option<String>) {
        self.text.push_str("${");
        self.text.push_str(inner);
        self.text.push('}');
        let optional = inner.contains(":-");
        self.asked.push(Asked { variable: name.to_owned(), what, optional });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECT: Dialect<'static> =
        Dialect { client: "VS Code", workspace: None, home: None, bare: false };

    fn text(text: &str, dialect: &Dialect<'_>) -> String {
        translate(text, dialect).unwrap().text
    }

    #[test]
    fn every_spelling_becomes_ours() {
        let all = "${A} ${env:B} ${env.C} ${D:-x} ${env:E:-y} $F $";
        assert_eq!(text(all, &DIALECT), "${A} ${B} ${C} ${D:-x} ${E:-y} $F $");
        let bare = Dialect { bare: true, ..DIALECT };
        assert_eq!(text("$F-$1 $$ ü$G_H", &bare), "${F}-$1 $$ ü${G_H}");
    }

    #[test]
    fn folders_are_filled_in_if_they_are_known() {
        let here = Dialect {
            workspace: Some(Path::new("/w/app")),
            home: Some(Path::new("/h")),
            ..DIALECT
        };
        let all = "${workspaceFolder}/x ${workspaceFolderBasename} ${userHome}${/}y";
        assert_eq!(text(all, &here), "/w/app/x app /h/y");
        assert_eq!(text("${workspaceFolder}", &DIALECT), "${WORKSPACE_FOLDER}");
    }

    #[test]
    fn what_only_the_client_knows_becomes_a_variable_to_set() {
        let asked = translate("Bearer ${input:github-token}", &DIALECT).unwrap();
        assert_eq!(asked.text, "Bearer ${GITHUB_TOKEN}");
        let what = asked.asked[0].what.as_deref();
        assert_eq!(what, Some("VS Code asks for it as \"github-token\""));
        assert_eq!(
            text("${command:ext.pick} ${headers.X-Id}", &DIALECT),
            "${COMMAND_EXT_PICK} ${HEADERS_X_ID}"
        );
    }

    #[test]
    fn what_nobody_can_tell_is_refused() {
        for text in ["${", "${A", "a ${}", "${env:}", "${:-x}"] {
            assert_eq!(translate(text, &DIALECT), Err(Unclosed), "{text}");
        }
    }

    #[test]
    fn names_of_variables_are_names() {
        for (text, name) in [
            ("apiKey", "API_KEY"),
            ("my-server.2", "MY_SERVER_2"),
            ("7up", "MCP_7UP"),
            ("", "MCP"),
            ("ü", "MCP"),
        ] {
            assert_eq!(variable_name(text), name);
        }
    }
}
