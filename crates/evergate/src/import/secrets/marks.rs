//! How a secret is known: by what it is called, and by how it looks.

use crate::import::references::variable_name;

/// Names that end so are secrets, also where words run together.
const ENDINGS: &[&str] = &[
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authkey",
    "credential",
    "credentials",
];
/// Words that make a name one of a secret.
const WORDS: &[&str] = &[
    "key",
    "keys",
    "pat",
    "pwd",
    "pass",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "jwt",
    "dsn",
    "sig",
    "signature",
];
/// A name that ends so is about a secret, but not one.
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
    "region",
    "enabled",
    "timeout",
    "method",
    "scheme",
    "ttl",
    "count",
    "limit",
    "prefix",
    "provider",
    "endpoint",
    "issuer",
    "audience",
    "source",
    "mechanism",
];
/// Options that begin so switch something, and have no value.
const SWITCHES: &[&str] = &["no", "disable", "enable", "skip", "without", "allow", "require"];
/// How well-known tokens begin.
const BEGINNINGS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "tvly-",
    "figd_",
    "dop_v1_",
    "shpat_",
    "SG.",
];
/// What stands before a token in a header.
const SCHEMES: &[&str] = &["bearer ", "basic ", "token ", "apikey "];
/// Words that do not say whose secret it is.
const COMMON: &[&str] = &[
    "access",
    "api",
    "apikey",
    "argument",
    "auth",
    "authorization",
    "basic",
    "bearer",
    "client",
    "command",
    "cookie",
    "credential",
    "credentials",
    "header",
    "headers",
    "id",
    "jwt",
    "k",
    "key",
    "keys",
    "p",
    "pass",
    "passwd",
    "password",
    "pat",
    "private",
    "pwd",
    "secret",
    "session",
    "sig",
    "signature",
    "t",
    "token",
    "url",
    "user",
    "value",
    "x",
];

pub(super) fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    if words.last().is_some_and(|last| ABOUT.contains(&last.as_str())) {
        return false;
    }
    let secret = |word: &String| {
        WORDS.contains(&word.as_str()) || ENDINGS.iter().any(|end| word.ends_with(end))
    };
    words.iter().any(secret)
}

/// Whether the value of something with this name is a secret.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    // `API_KEY_HEADER` may be a header, or only say which one.
    let of_header = matches!(words(name).last().map(String::as_str), Some("header" | "headers"));
    let is_name = |c: char| c.is_ascii_alphabetic() || c == '-';
    is_secret_name(name) && !is_switch(value) && !(of_header && value.chars().all(is_name))
}

/// Whether an option is followed by a secret. Of the short ones, `-k` is a key more often than not; see
/// [`looks_chosen`] for others.
pub(super) fn is_secret_option(option: &str) -> bool {
    if !option.starts_with("--") && option.len() == 2 {
        return option == "-k";
    }
    let first = words(option).into_iter().next().unwrap_or_default();
    is_secret_name(option) && !SWITCHES.contains(&first.as_str())
}

/// Says nothing about whose it is, so that the server's name belongs before it.
pub(super) fn is_common(name: &str) -> bool {
    words(name).iter().all(|word| COMMON.contains(&word.as_str()))
}

/// Identifies something, and is mostly no secret however it looks.
pub(super) fn is_identifier(name: &str) -> bool {
    matches!(words(name).last().map(String::as_str), Some("id" | "ids"))
}

pub(in crate::import) fn looks_secret(text: &str) -> bool {
    text.len() >= 16
        && !text.contains(char::is_whitespace)
        && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// Nothing that a person would name so: long, with letters and digits mixed.
pub(super) fn looks_random(text: &str) -> bool {
    let (letters, digits) = counts(text);
    text.len() >= 20 && digits >= 4 && letters >= 4
}

/// The same for what may be a version or a file too: one long word of that kind, or a UUID.
pub(super) fn looks_opaque(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+".contains(c);
    if !text.chars().all(plain) {
        return false;
    }
    let parts: Vec<&str> = text.split(['-', '_', '=', '+']).collect();
    let is_hex = parts.iter().all(|part| part.chars().all(|c| c.is_ascii_hexdigit()));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    is_hex && lengths == [8, 4, 4, 4, 12]
        || parts.iter().any(|part| {
            let (letters, digits) = counts(part);
            part.len() >= 16 && digits >= 3 && letters >= 3
        })
}

/// What could be a password or a token, where `-p` and `-t` may be a port and a type as well.
pub(super) fn looks_chosen(option: &str, text: &str) -> bool {
    let (letters, digits) = counts(text);
    let is_place = text.contains(['/', '.', ':', '@', '=']);
    matches!(option, "-p" | "-t" | "-a")
        && text.len() >= 8
        && letters > 0
        && digits > 0
        && !is_place
}

/// How much of the text says only what kind of secret follows.
pub(super) fn scheme(text: &str) -> usize {
    let blank = text.len() - text.trim_start().len();
    let lower = text.trim_start().to_ascii_lowercase();
    blank + SCHEMES.iter().find(|scheme| lower.starts_with(*scheme)).map_or(0, |s| s.len())
}

/// One of those words, alone.
pub(super) fn is_scheme(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    SCHEMES.iter().any(|scheme| scheme.trim_end() == word)
}

pub(super) fn is_switch(text: &str) -> bool {
    matches!(
        text.trim().to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "none"
    )
}

fn counts(text: &str) -> (usize, usize) {
    let letters = text.chars().filter(char::is_ascii_alphabetic).count();
    (letters, text.chars().filter(char::is_ascii_digit).count())
}

fn words(name: &str) -> Vec<String> {
    let name = variable_name(name).to_ascii_lowercase();
    name.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_a_secret() {
        for name in [
            "GITHUB_TOKEN",
            "apiKey",
            "API_KEY",
            "X-API-Key",
            "Authorization",
            "DB_PASSWORD",
            "--auth-token",
            "OPENAIAPIKEY",
            "client_secret",
            "GITHUB_PAT",
            "SENTRY_DSN",
            "cookie",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "KEYBOARD",
            "MONKEY",
            "TOKEN_FILE",
            "AUTH_TYPE",
            "MAX_TOKENS",
            "key_path",
            "Content-Type",
            "--port",
            "COMPASS",
            "AUTHOR",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
        assert!(is_secret("AUTH_HEADER", "abc123") && !is_secret("API_KEY_HEADER", "X-API-Key"));
        assert!(is_secret_option("--token") && is_secret_option("-k"));
        assert!(!is_secret_option("--no-auth") && !is_secret_option("-p"));
    }

    #[test]
    fn looks_tell_too() {
        assert!(looks_secret("ghp_0123456789abcdefghij"));
        assert!(!looks_secret("sk-short") && !looks_secret("sk-learn is a package for this"));
        assert!(looks_random("a1b2c3d4e5f6a7b8c9d0e1f2"));
        assert!(!looks_random("model-context-protocol-servers") && !looks_random("2025-11-25"));
        assert!(looks_opaque("0123456789abcdef0123456789abcdef"));
        assert!(looks_opaque("01234567-89ab-cdef-0123-456789abcdef"));
        for text in [
            "mcp-server-2025-11-25-beta",
            "@scope/server@2025.11.25",
            "/nix/store/0123456789abcdef0123456789abcdef/bin/x",
            "redis:7@sha256:0123456789abcdef0123456789abcdef",
            "streamable-http",
        ] {
            assert!(!looks_opaque(text), "{text}");
        }
        assert!(looks_chosen("-p", "hunter2hunter2") && !looks_chosen("-p", "127.0.0.1:8080"));
        assert!(!looks_chosen("-t", "streamable-http") && !looks_chosen("-m", "gpt-4o-mini"));
    }
}
