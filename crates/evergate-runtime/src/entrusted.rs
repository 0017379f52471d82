//! What a server was trusted with: header values, tokens, environment. It may repeat that wherever it speaks, in an error,
//! on standard error, in the body of a refusal, and all of that is shown to people. So it is taken out of whatever is
//! written down about a server. An answer to a caller passes as it is.

mod found;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use found::{Found, with_token};
use http::{HeaderMap, HeaderValue};

use crate::settings::Endpoint;

/// Values that must not be shown. One per slot; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Entrusted(Arc<Values>);

#[derive(Default)]
struct Values {
    /// By the settings.
    given: Vec<String>,
    /// What a source of headers said lately.
    lately: Mutex<VecDeque<HeaderValue>>,
}

/// Shorter ones are no secrets, and would be found in every second word.
const SHORTEST: usize = 4;
/// Enough for a few tokens and their successors; an error comes soon after the request it answers.
const REMEMBERED: usize = 16;

const HIDDEN: &str = "<secret>";

// === impl Entrusted ===

impl Entrusted {
    /// Of a server's settings.
    pub(crate) fn to(endpoint: &Endpoint) -> Self {
        let mut found = Found::default();
        match endpoint {
            Endpoint::Stdio { args, env, .. } => {
                for (name, value) in env {
                    found.variable(&name.to_string_lossy(), &value.to_string_lossy());
                }
                found.arguments(args.iter().map(|arg| arg.to_string_lossy()));
            }
            Endpoint::Http { url, headers, .. } => {
                for (name, value) in headers {
                    if let Some(value) = readable(value) {
                        found.header(name.as_str(), value);
                    }
                }
                found.url(url);
            }
            Endpoint::Memory(_) => {}
        }
        Self(Arc::new(Values { given: found.into_values(), lately: Mutex::default() }))
    }

    /// Takes note of what changes. On the way of every request, where there is something that does.
    pub(crate) fn learn<'a>(&self, values: impl Iterator<Item = &'a HeaderValue>) {
        let mut lately = self.lately();
        for value in values {
            if !lately.contains(value) {
                lately.push_back(value.clone());
            }
        }
        let surplus = lately.len().saturating_sub(REMEMBERED);
        lately.drain(..surplus);
    }

    /// The same, and the headers of one call.
    pub(crate) fn and(&self, headers: &HeaderMap) -> Self {
        let mut given = self.0.given.clone();
        let own = headers.values().filter_map(readable).flat_map(with_token);
        given.extend(own.map(str::to_owned));
        Self(Arc::new(Values { given, lately: Mutex::new(self.lately().clone()) }))
    }

    /// A text without any of it.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.hide_also(text, std::iter::empty())
    }

    /// Nor any of these.
    pub(crate) fn hide_also<'a>(
        &self,
        text: &str,
        others: impl Iterator<Item = &'a str>,
    ) -> String {
        let lately: Vec<HeaderValue> = self.lately().iter().cloned().collect();
        let mut all: Vec<&str> = lately.iter().filter_map(readable).flat_map(with_token).collect();
        let others: Vec<&str> = others.collect();
        all.extend(others.iter().copied().flat_map(with_token));
        all.extend(self.0.given.iter().map(String::as_str));
        let mut found: Vec<String> = Vec::new();
        for value in all.into_iter().filter(|value| value.len() >= SHORTEST) {
            // A text that is JSON has it escaped.
            let escaped = serde_json::Value::from(value).to_string();
            let escaped = &escaped[1..escaped.len() - 1];
            for value in [value, escaped] {
                if text.contains(value) && !found.iter().any(|known| known == value) {
                    found.push(value.to_owned());
                }
            }
        }
        // What contains another goes first.
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        found.iter().fold(text.to_owned(), |text, value| text.replace(value, HIDDEN))
    }

    fn lately(&self) -> MutexGuard<'_, VecDeque<HeaderValue>> {
        self.0.lately.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Entrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.given.len() + self.lately().len())
    }
}

fn readable(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use url::Url;

    use super::*;
    use crate::settings::HttpKind;

    fn child(args: &[&str], env: &[(&str, &str)]) -> Entrusted {
        let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Entrusted::to(&Endpoint::Stdio {
            command: "x".into(),
            args: args.iter().map(Into::into).collect(),
            env: env.collect(),
            cwd: None,
        })
    }

    fn web(url: &str, headers: &[(&'static str, &str)]) -> Entrusted {
        let header = |(name, value): &(&'static str, &str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        Entrusted::to(&Endpoint::Http {
            url: Url::parse(url).unwrap(),
            headers: headers.iter().map(header).collect::<HeaderMap>(),
            source: None,
            kind: HttpKind::Auto,
        })
    }

    #[test]
    fn what_a_child_was_trusted_with_is_not_shown() {
        let env =
            [("GITHUB_TOKEN", "ghp_abc"), ("NODE_ENV", "production"), ("Api_Key", "ghp_abcdef")];
        let line = "production: using ghp_abcdef and ghp_abc";
        assert_eq!(child(&[], &env).hide(line), "production: using <secret> and <secret>");
        let args = ["--api-key", "k-123", "--token=t-456", "--verbose", "path"];
        assert_eq!(child(&args, &[]).hide("k-123 t-456 path"), "<secret> <secret> path");
        let args = ["--header", "Authorization: Bearer abc-123", "X-Api-Key:k-789", "a:b"];
        assert_eq!(child(&args, &[]).hide("abc-123 k-789 a:b"), "<secret> <secret> a:b");
        let args =
            ["-e", "GITHUB_TOKEN=t-456", "--dsn=Server=db;Password=hunter2;", "ghp_abcdefgh"];
        let hidden = child(&args, &[]).hide("t-456 hunter2 ghp_abcdefgh db");
        assert_eq!(hidden, "<secret> <secret> <secret> db");
        let entrusted = child(&[], &[("AUTH_HEADER", "Bearer abc-123")]);
        assert_eq!(entrusted.hide("abc-123 of Bearer abc-123"), "<secret> of <secret>");
    }

    #[test]
    fn what_people_look_for_in_an_error_stays() {
        let env = [
            ("MAX_TOKENS", "8192"),
            ("AUTH_ENABLED", "true"),
            ("KEYCLOAK_REALM", "master"),
            ("MONKEY", "business"),
            ("TOKEN_FILE", "/run/token"),
            ("DATABASE_URL", "postgres://postgres:hunter2@db/app"),
        ];
        let args = ["-y", "@modelcontextprotocol/server-filesystem", "--port=3000"];
        let text = "master postgres on db: max 8192, true, business, /run/token, 3000, \
                    @modelcontextprotocol/server-filesystem";
        let entrusted = child(&args, &env);
        assert_eq!(entrusted.hide(text), text);
        assert_eq!(entrusted.hide("hunter2"), "<secret>");
        let plain = web("http://h/mcp", &[("x-env", "production"), ("x-api-key", "letters")]);
        assert_eq!(plain.hide("production letters"), "production <secret>");
    }

    #[test]
    fn a_secret_of_many_lines_is_not_shown_line_by_line() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\nabc\n-----END PRIVATE KEY-----\n";
        let entrusted = child(&[], &[("PRIVATE_KEY", key)]);
        assert_eq!(entrusted.hide("read MIIEvQIBADAN"), "read <secret>");
        assert_eq!(entrusted.hide("BgkqhkiG9w0B, abc"), "<secret>, abc");
    }

    #[test]
    fn a_value_tells_what_its_name_does_not() {
        let env = [
            ("DATABASE", "postgres://me:hunter22@db/x?sslkey=abcd"),
            ("GH", "ghp_0123456789"),
            ("HOME", "/home/me"),
            ("PORT", "12345678"),
            ("MODE", "fast-1"),
        ];
        let entrusted = child(&["--at=http://h/?t=to+ken"], &env);
        assert_eq!(entrusted.hide("hunter22 abcd ghp_0123456789"), "<secret> <secret> <secret>");
        assert_eq!(entrusted.hide("to ken to+ken"), "<secret> <secret>");
        assert_eq!(entrusted.hide("/home/me 12345678 fast-1"), "/home/me 12345678 fast-1");
    }

    #[test]
    fn what_is_sent_to_a_url_is_not_shown() {
        let headers = [("authorization", "Bearer abc-123"), ("x-key", "quo\"ted")];
        let entrusted = web("http://someone:pass%2Dword@h/?key=qu%65ry&flag", &headers);
        let text = r#"abc-123 "quo\"ted" someone pass-word pass%2Dword query qu%65ry"#;
        let hidden = entrusted.hide(text);
        assert_eq!(hidden.matches(HIDDEN).count(), 7, "{hidden}");
        assert_eq!(entrusted.hide("Bearer abc-123"), "<secret>");
        let spoken = web("http://h/?format=json&id=a1b2&long=abcdefgh", &[]);
        assert_eq!(spoken.hide("json a1b2 abcdefgh"), "json <secret> <secret>");
    }

    #[test]
    fn tokens_that_change_are_known_for_a_while() {
        let entrusted = Entrusted::default();
        let token = |n: usize| HeaderValue::from_str(&format!("Bearer token-{n:03}")).unwrap();
        for n in 0..=REMEMBERED {
            entrusted.learn([token(n), token(n)].iter());
        }
        assert_eq!(entrusted.hide("token-000 token-016"), "token-000 <secret>");
        assert_eq!(entrusted.hide_also("other-1", ["Basic other-1"].into_iter()), "<secret>");
        assert_eq!(format!("{entrusted:?}"), "16 secrets");
        let own =
            HeaderMap::from_iter([(http::header::COOKIE, HeaderValue::from_static("crumbs"))]);
        assert_eq!(entrusted.and(&own).hide("crumbs token-016"), "<secret> <secret>");
    }

    #[test]
    fn what_is_too_short_to_be_a_secret_is_shown() {
        assert_eq!(child(&[], &[("USE_KEYRING", "no")]).hide("no idea"), "no idea");
    }
}
