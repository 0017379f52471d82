//! What of a server's settings is secret: by its name, by its look, by its place.
//!
//! A secret that is shown is a leak, and a word that is hidden everywhere makes errors unreadable, so what is plainly no secret
//! is not taken for one whatever its name says.

use std::borrow::Cow;

use url::Url;

/// Secrets of one server.
#[derive(Default)]
pub(super) struct Found(Vec<String>);

/// Words that the name of a secret has in it.
const TELLING: &[&str] = &[
    "key",
    "apikey",
    "sslkey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authkey",
    "passphrase",
    "pass",
    "pwd",
    "auth",
    "authorization",
    "bearer",
    "credential",
    "credentials",
    "cookie",
    "session",
    "private",
    "jwt",
    "pat",
];
/// How others of them end.
const ENDINGS: &[&str] = &["token", "secret", "password", "passwd"];
/// Users that are called the same everywhere: that is in every other error, and tells nobody anything.
const EVERYBODY: &[&str] =
    &["postgres", "mysql", "root", "admin", "user", "guest", "default", "sa"];
/// Names that end so tell where a secret is, or something about it.
const ABOUT: &[&str] = &[
    "path",
    "file",
    "dir",
    "url",
    "uri",
    "type",
    "mode",
    "name",
    "host",
    "port",
    "enabled",
    "timeout",
    "method",
    "scheme",
    "ttl",
    "count",
    "limit",
    "source",
    "mechanism",
];
/// How well-known tokens begin.
const BEGINNINGS: &[&str] =
    &["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xox", "AKIA", "eyJ", "ntn_", "hf_"];

/// Where nothing but the value tells what it is, shorter ones are none.
const SHORTEST_UNNAMED: usize = 8;
/// So long, and of letters and digits in disorder.
const SHORTEST_RANDOM: usize = 20;

// === impl Found ===

impl Found {
    pub(super) fn variable(&mut self, name: &str, value: &str) {
        if is_secret(name, value) || !is_plain(value) {
            self.add(value);
        }
        self.pieces(value);
    }

    pub(super) fn header(&mut self, name: &str, value: &str) {
        if is_telling(name) || !is_plain(value) {
            self.add(value);
        }
    }

    pub(super) fn arguments<'a>(&mut self, args: impl Iterator<Item = Cow<'a, str>>) {
        let mut awaited = None;
        for arg in args {
            let is_option = arg.starts_with('-');
            if awaited.take().is_some_and(|name: String| !is_option && is_secret(&name, &arg)) {
                self.add(&arg);
            }
            // `--header "Authorization: Bearer …"`.
            if let Some((name, value)) = arg.split_once(':')
                && !value.starts_with("//")
                && is_secret(name, value.trim())
            {
                self.add(value.trim());
            }
            let value = arg.split_once('=').map_or(&*arg, |(_, value)| value);
            if looks_secret(value) {
                self.add(value);
            }
            self.pieces(&arg);
            awaited = (is_option && !arg.contains('=')).then(|| arg.into_owned());
        }
    }

    /// As they are written in it, and as they are meant.
    pub(super) fn url(&mut self, url: &Url) {
        let query = url.query().unwrap_or_default().split('&');
        // What `?format=json` says is in every other error.
        let is_word = |text: &str| text.len() < SHORTEST_UNNAMED && is_plain_word(text);
        let values = query
            .map(|pair| pair.split_once('=').unwrap_or(("", pair)))
            .filter(|(name, value)| is_secret(name, value) || !is_word(value))
            .map(|(_, value)| value);
        let password = url.password().unwrap_or_default();
        let user = if EVERYBODY.contains(&url.username()) { "" } else { url.username() };
        let written = values.chain([user, password]).filter(|text| !text.is_empty());
        let written: Vec<String> = written.map(str::to_owned).collect();
        for text in written {
            // Every text is the value of a form without names.
            let form = format!("={text}");
            for (_, meant) in url::form_urlencoded::parse(form.as_bytes()) {
                self.add(&meant);
            }
            self.add(&text);
        }
    }

    /// What is left without a scheme such as `Bearer`, and line by line, too: what is said is shown line by line.
    fn add(&mut self, value: &str) {
        self.0.extend(with_token(value).map(str::to_owned));
        if value.contains('\n') {
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_UNNAMED);
            self.0.extend(lines.map(str::to_owned));
        }
    }

    /// What is secret in a text that is more than that: `TOKEN=…`, `Server=db;Password=…`, an address.
    fn pieces(&mut self, text: &str) {
        for piece in text.split([';', ',', ' ', '&']) {
            if let Some((before, value)) = piece.rsplit_once('=')
                && is_secret(before.rsplit('=').next().unwrap_or_default(), value)
            {
                self.add(value);
            }
        }
        let Some(scheme) = text.find("://") else { return };
        let start = text[..scheme].rfind('=').map_or(0, |equals| equals + 1);
        if let Ok(url) = Url::parse(&text[start..]) {
            self.url(&url);
        }
    }

    pub(super) fn into_values(self) -> Vec<String> {
        self.0
    }
}

/// A value, and what of it is left without a scheme such as `Bearer`.
pub(super) fn with_token(value: &str) -> impl Iterator<Item = &str> {
    let token = value.split_once(' ').filter(|(scheme, _)| is_plain_word(scheme));
    [value].into_iter().chain(token.map(|(_, token)| token.trim()))
}

fn is_secret(name: &str, value: &str) -> bool {
    is_telling(name) && !matches!(value, "true" | "false" | "yes" | "none" | "null")
}

fn is_telling(name: &str) -> bool {
    let words = words(name);
    let is_about = words.last().is_some_and(|last| ABOUT.contains(&last.as_str()));
    let tells = |word: &String| {
        TELLING.contains(&word.as_str()) || ENDINGS.iter().any(|end| word.ends_with(end))
    };
    !is_about && words.iter().any(tells)
}

/// `GITHUB_TOKEN`, `accessToken` and `--api-key` have two each.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (was_lower && c.is_ascii_uppercase()) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Whatever its name: a token of a well-known kind, or letters and digits in disorder.
fn looks_secret(value: &str) -> bool {
    let is_begun = BEGINNINGS.iter().any(|beginning| value.starts_with(beginning));
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let others = value.len() - letters - digits;
    let is_random = value.len() >= SHORTEST_RANDOM && letters > 3 && digits > 3 && others < 3;
    (is_begun && value.len() >= SHORTEST_UNNAMED) || is_random
}

/// Words, numbers and paths are what people look for in an error, and no secrets.
fn is_plain(value: &str) -> bool {
    value.len() < SHORTEST_UNNAMED
        || is_plain_word(value)
        || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        || value.starts_with(['/', '.', '~'])
        || is_address(value)
}

fn is_plain_word(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Its secret parts are found apart.
fn is_address(value: &str) -> bool {
    value.contains("://") && Url::parse(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_by_its_words() {
        for name in
            ["GITHUB_TOKEN", "accessToken", "--api-key", "OPENAI_APIKEY", "X-Api-Key", "DB_PASS"]
        {
            assert!(is_telling(name), "{name}");
        }
        for name in ["MAX_TOKENS", "KEYBOARD", "COMPASS", "TOKEN_FILE", "authSource", "OAUTH", ""] {
            assert!(!is_telling(name), "{name}");
        }
    }

    #[test]
    fn a_value_tells_by_its_look() {
        for value in ["ghp_abcdefgh", "0123456789abcdef0123456789abcdef", "sk-proj-abc"] {
            assert!(looks_secret(value), "{value}");
        }
        for value in [
            "@scope/server-everything",
            "sk-x",
            "/usr/lib/node20/server-4711/index.js",
            "2025-11-25",
        ] {
            assert!(!looks_secret(value), "{value}");
        }
    }
}
