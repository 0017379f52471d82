//! Literal secrets of a source become references: the new file names a variable, the old one keeps the value.
//!
//! A secret is known by its name (`GITHUB_TOKEN`, `Authorization`, `?api_key=`, `--password`), by its look (`ghp_…`), or by
//! its place (the password of a URL). Too many variables are a nuisance, a secret in two files is a leak, so in doubt it
//! is one.

use serde_json::{Value, json};

use super::references::{refers, variable_name};
use super::{Asked, Server};

/// A variable that somebody has to set.
pub(crate) struct Variable {
    pub(crate) name: String,
    /// What it must be set to, if a source has that. Never shown.
    value: Option<String>,
    /// Where that is, or who wants it.
    pub(crate) places: Vec<String>,
    /// Everything works without it.
    pub(crate) optional: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Variables(pub(crate) Vec<Variable>);

/// Names that end so are secrets, also where words run together.
const ENDINGS: &[&str] = &[
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "apikey",
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
    "path", "file", "dir", "url", "uri", "type", "mode", "name", "host", "port", "region",
    "enabled", "timeout", "method", "header", "scheme", "ttl", "count", "limit", "prefix",
    "provider", "endpoint", "issuer", "audience",
];
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

/// Takes the secrets out of all servers.
pub(super) fn extract(servers: &mut [Server], variables: &mut Variables) {
    // Names that sources use already are theirs.
    for server in servers.iter() {
        for asked in &server.asked {
            variables.wanted(asked, &format!("{} wants it", server.name));
        }
    }
    for server in servers {
        let mut taken = Vec::new();
        let mut entry = std::mem::take(&mut server.entry);
        let mut context = Context { server, variables, taken: &mut taken };
        for (key, value) in &mut entry {
            match (*key, value) {
                ("env", Value::Object(all)) => {
                    all.iter_mut().for_each(|(name, value)| context.variable(name, value));
                }
                ("headers", Value::Object(all)) => {
                    all.iter_mut().for_each(|(name, value)| context.header(name, value));
                }
                ("args", Value::Array(args)) => context.arguments(args),
                ("url", value) => context.url(value),
                _ => {}
            }
        }
        if let Some(basic) = context.user_of_url(&mut entry) {
            let headers = entry.entry("headers").or_insert_with(|| json!({}));
            headers["Authorization"] = Value::from(basic);
        }
        server.entry = entry;
        server.mapped.extend(taken);
    }
}

struct Context<'a> {
    server: &'a Server,
    variables: &'a mut Variables,
    /// What became of what.
    taken: &'a mut Vec<String>,
}

// === impl Context ===

impl Context<'_> {
    fn variable(&mut self, name: &str, value: &mut Value) {
        let Some(text) = literal(value) else { return };
        if is_secret_name(name) && !is_switch(&text) || looks_secret(&text) {
            *value = Value::from(self.refer(&variable_name(name), &text, &format!("env.{name}")));
        } else if let Some(replaced) = self.password_of_url(&text, &format!("env.{name}")) {
            *value = Value::from(replaced);
        }
    }

    fn header(&mut self, name: &str, value: &mut Value) {
        let Some(text) = literal(value) else { return };
        if !is_secret_name(name) && !looks_secret(&text) {
            return;
        }
        let lower = text.to_ascii_lowercase();
        let scheme =
            SCHEMES.iter().find(|scheme| lower.starts_with(*scheme)).map_or(0, |s| s.len());
        let (before, secret) = text.split_at(scheme);
        let wanted = if name.eq_ignore_ascii_case("authorization") {
            format!("{}_TOKEN", variable_name(&self.server.name))
        } else {
            let plain = name.strip_prefix("X-").or(name.strip_prefix("x-")).unwrap_or(name);
            format!("{}_{}", variable_name(&self.server.name), variable_name(plain))
        };
        let reference = self.refer(&wanted, secret, &format!("headers.{name}"));
        *value = Value::from(format!("{before}{reference}"));
    }

    fn arguments(&mut self, args: &mut [Value]) {
        let mut option: Option<String> = None;
        for (n, value) in args.iter_mut().enumerate() {
            let before = option.take();
            let Some(text) = value.as_str().map(str::to_owned) else { continue };
            let place = format!("args[{n}]");
            if text.starts_with('-') && !text.contains(['=', ' ']) {
                option = Some(text);
                continue;
            }
            if refers(&text) {
                continue;
            }
            // `--token=x`, `TOKEN=x` after docker's `-e`, `Authorization: Bearer x` after `--header`.
            let split = text.split_once('=').map(|(name, secret)| (name, "=", secret));
            let split = split.or_else(|| {
                let (name, secret) = text.split_once(':')?;
                let header = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
                (header && !secret.starts_with("//")).then_some((name, ":", secret))
            });
            if let Some((name, between, secret)) = split
                && is_secret_name(name)
                && !secret.trim().is_empty()
                && !is_switch(secret)
            {
                let lower = secret.to_ascii_lowercase();
                let blank = secret.len() - secret.trim_start().len();
                let scheme = SCHEMES.iter().find(|scheme| lower.trim_start().starts_with(*scheme));
                let (lead, secret) =
                    secret.split_at(blank + scheme.map_or(0, |scheme| scheme.len()));
                // Docker's `-e NAME=value` names the variable itself.
                let is_variable = name == variable_name(name);
                let wanted = name.trim_start_matches('-');
                let wanted = if is_variable { name.to_owned() } else { self.own_name(wanted) };
                let reference = self.refer(&wanted, secret, &place);
                *value = Value::from(format!("{name}{between}{lead}{reference}"));
            } else if before
                .as_deref()
                .is_some_and(|option| is_secret_name(option) && option.len() > 2)
                || looks_secret(&text)
            {
                let name = before.as_deref().unwrap_or("secret").trim_start_matches('-').to_owned();
                *value = Value::from(self.refer(&self.own_name(&name), &text, &place));
            } else if let Some(replaced) = self.password_of_url(&text, &place) {
                *value = Value::from(replaced);
            }
        }
    }

    fn url(&mut self, value: &mut Value) {
        let Some(text) = value.as_str() else { return };
        let (main, query) =
            text.split_once('?').map_or((text, None), |(main, query)| (main, Some(query)));
        let mut parts: Vec<String> = main.split('/').map(str::to_owned).collect();
        // After the scheme, nothing and the host.
        for part in parts.iter_mut().skip(3) {
            if looks_random(part) || looks_secret(part) {
                *part = self.refer(&self.own_name("url_secret"), part, "url, a part of its path");
            }
        }
        let mut whole = parts.join("/");
        let query = query.map(|query| {
            let pairs = query.split('&').map(|pair| match pair.split_once('=') {
                Some((name, secret))
                    if !secret.is_empty()
                        && !refers(secret)
                        && (is_secret_name(name) || looks_secret(secret)) =>
                {
                    let place = format!("url, its parameter {name}");
                    format!("{name}={}", self.refer(&self.own_name(name), secret, &place))
                }
                _ => pair.to_owned(),
            });
            pairs.collect::<Vec<_>>().join("&")
        });
        if let Some(query) = query {
            whole.push('?');
            whole.push_str(&query);
        }
        *value = Value::from(whole);
    }

    /// A user and a password in front of the host become a header, for our loader wants none there.
    fn user_of_url(
        &mut self,
        entry: &mut indexmap::IndexMap<&'static str, Value>,
    ) -> Option<String> {
        let url = entry.get("url")?.as_str()?.to_owned();
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) = authority.rsplit_once('@')?;
        entry.insert("url", Value::from(format!("{scheme}://{host}{path}")));
        let has_own = |headers: &Value| {
            let names = headers.as_object().into_iter().flatten();
            names.into_iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        };
        if entry.get("headers").is_some_and(has_own) {
            return None;
        }
        let place = "url, base64 of the user and password before the host";
        let reference = self.refer(&self.own_name("basic_auth"), user, place);
        Some(format!("Basic {reference}"))
    }

    /// `postgres://user:password@host` and its like.
    fn password_of_url(&mut self, text: &str, place: &str) -> Option<String> {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.split(['/', '?']).next()?;
        let (user, host) = authority.rsplit_once('@')?;
        let (user, password) = user.split_once(':')?;
        if password.is_empty() {
            return None;
        }
        let tail = &rest[authority.len()..];
        let place = format!("{place}, its password");
        let reference = self.refer(&self.own_name("password"), password, &place);
        Some(format!("{scheme}://{user}:{reference}@{host}{tail}"))
    }

    /// A variable that has the server in its name.
    fn own_name(&self, name: &str) -> String {
        let (server, name) = (variable_name(&self.server.name), variable_name(name));
        if name.starts_with(&server) { name } else { format!("{server}_{name}") }
    }

    fn refer(&mut self, wanted: &str, secret: &str, place: &str) -> String {
        let key = place.split([',', '.', '[']).next().unwrap_or_default();
        let source = self.server.renamed.iter().find(|(to, _)| *to == key);
        let at = match source {
            Some((_, from)) => format!("{from}{}", &place[key.len()..]),
            None => place.to_owned(),
        };
        let whole = format!("its value is in {} at {}.{at}", self.server.file, self.server.path);
        let name = self.variables.holding(wanted, &self.server.name, secret, whole);
        self.taken.push(format!("{place}: the secret became ${{{name}}}"));
        format!("${{{name}}}")
    }
}

/// A text that says everything itself.
fn literal(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty() && !refers(text)).map(str::to_owned)
}

fn is_secret_name(name: &str) -> bool {
    let name = variable_name(name).to_ascii_lowercase();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    if words.last().is_some_and(|last| ABOUT.contains(last)) {
        return false;
    }
    words.iter().any(|word| WORDS.contains(word) || ENDINGS.iter().any(|end| word.ends_with(end)))
}

pub(super) fn looks_secret(text: &str) -> bool {
    text.len() >= 16
        && !text.contains(char::is_whitespace)
        && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// Nothing that a person would name so: long, with letters and digits mixed.
fn looks_random(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let letters = text.chars().filter(char::is_ascii_alphabetic).count();
    text.len() >= 20 && digits >= 4 && letters >= 4 && !refers(text)
}

fn is_switch(text: &str) -> bool {
    matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "none"
    )
}

// === impl Variables ===

impl Variables {
    pub(super) fn wanted(&mut self, asked: &Asked, by: &str) {
        let place =
            asked.what.clone().map_or_else(|| by.to_owned(), |what| format!("{by}; {what}"));
        match self.0.iter_mut().find(|known| known.name == asked.variable) {
            Some(known) => {
                known.optional &= asked.optional;
                if !known.places.contains(&place) {
                    known.places.push(place);
                }
            }
            None => self.0.push(Variable {
                name: asked.variable.clone(),
                value: None,
                places: vec![place],
                optional: asked.optional,
            }),
        }
    }

    /// The variable that stands for a secret: one that has it already, or a new one.
    pub(super) fn holding(
        &mut self,
        wanted: &str,
        server: &str,
        secret: &str,
        place: String,
    ) -> String {
        let server = variable_name(server);
        let own = if wanted.starts_with(&server) {
            wanted.to_owned()
        } else {
            format!("{server}_{wanted}")
        };
        let numbered = (2..).map(|n| format!("{own}_{n}"));
        let candidates = [wanted.to_owned(), own.clone()].into_iter().chain(numbered);
        for name in candidates {
            match self.0.iter_mut().find(|known| known.name == name) {
                None => {
                    let (value, places) = (Some(secret.to_owned()), vec![place]);
                    self.0.push(Variable { name: name.clone(), value, places, optional: false });
                    return name;
                }
                Some(known) if known.value.as_deref() == Some(secret) => {
                    known.places.push(place);
                    return name;
                }
                Some(_) => {}
            }
        }
        own
    }
}

// === impl Variable ===

impl Variable {
    /// Whether it is set, and to what the source has.
    pub(crate) fn state(&self, environment: &dyn Fn(&str) -> Option<String>) -> &'static str {
        match (environment(&self.name), &self.value) {
            (None, _) => "not set",
            (Some(now), Some(meant)) if now != *meant => "set, but to something else",
            (Some(_), _) => "set",
        }
    }
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
    }

    #[test]
    fn looks_tell_too() {
        assert!(looks_secret("ghp_0123456789abcdefghij"));
        assert!(!looks_secret("sk-short") && !looks_secret("sk-learn is a package for this"));
        assert!(looks_random("a1b2c3d4e5f6a7b8c9d0e1f2"));
        assert!(!looks_random("model-context-protocol-servers") && !looks_random("2025-11-25"));
    }

    #[test]
    fn one_variable_holds_one_secret() {
        let mut variables = Variables::default();
        let mut hold =
            |server: &str, secret: &str| variables.holding("TOKEN", server, secret, "x".into());
        assert_eq!(hold("a", "1"), "TOKEN");
        assert_eq!(hold("b", "1"), "TOKEN");
        assert_eq!(hold("b", "2"), "B_TOKEN");
        assert_eq!(hold("b", "3"), "B_TOKEN_2");
        let set = |name: &str| (name == "TOKEN").then(|| "9".to_owned());
        assert_eq!(variables.0[0].state(&set), "set, but to something else");
        assert_eq!(variables.0[1].state(&set), "not set");
    }
}
