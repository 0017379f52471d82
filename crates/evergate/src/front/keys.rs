//! Who calls: API keys and what their holders may use.
//!
//! Without keys everybody is the same anonymous caller, who may do everything. How long a comparison takes must tell
//! nothing about a key, so hashes are compared, in constant time, and always all of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sha2::{Digest as _, Sha256};
use wildmatch::WildMatch;

use super::bucket::Bucket;
use super::request::Headers;
use crate::config::{Rate, Scopes};

/// One key as it is configured.
#[derive(Clone)]
pub(crate) struct KeyEntry {
    /// Whom it is for; shown in logs.
    pub(crate) name: String,
    /// What the caller sends.
    pub(crate) secret: String,
    /// Globs of the servers it opens; `None` for all.
    pub(crate) servers: Option<Vec<String>>,
    /// Globs of the public names of the tools it opens; `None` for all.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) scopes: Scopes,
    /// How often its holder may have something sent to servers; `None` for as often as it likes.
    pub(crate) rate_limit: Option<Rate>,
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    keys: Vec<Key>,
}

/// The number of the anonymous caller's rights: nobody else's.
pub(crate) const ANONYMOUS: u64 = 0;

/// Who calls. Cheap to clone; the default is the anonymous caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller(Option<Arc<Rights>>);

/// Why a caller is not let in: HTTP 401 in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// No key came along.
    #[error("an API key is required: send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`")]
    Missing,
    /// A key came along, but it opens nothing.
    #[error("the API key is not known here")]
    Wrong,
}

struct Key {
    digest: [u8; 32],
    rights: Arc<Rights>,
}

#[derive(Debug)]
struct Rights {
    /// Different for all that ever were in this process: what was derived from one is not good for another.
    number: u64,
    name: String,
    servers: Option<Vec<WildMatch>>,
    tools: Option<Vec<WildMatch>>,
    scopes: Scopes,
    bucket: Option<Arc<Bucket>>,
}

const AUTHORIZATION: &str = "authorization";
const API_KEY: &str = "x-api-key";
const BEARER: &[u8] = b"bearer";

// === impl Keyring ===

impl Keyring {
    /// Of two entries with the same secret the first counts. An empty secret opens nothing.
    pub(crate) fn new(entries: impl IntoIterator<Item = KeyEntry>) -> Self {
        let globs =
            |patterns: Vec<String>| patterns.iter().map(|glob| WildMatch::new(glob)).collect();
        let key = |entry: KeyEntry| Key {
            digest: Sha256::digest(&entry.secret).into(),
            rights: Arc::new(Rights {
                number: next_number(),
                name: entry.name,
                servers: entry.servers.map(globs),
                tools: entry.tools.map(globs),
                scopes: entry.scopes,
                bucket: entry.rate_limit.map(|rate| Arc::new(Bucket::new(rate))),
            }),
        };
        Self { keys: entries.into_iter().map(key).collect() }
    }

    /// With one more, for whoever may read this process's own files. Where there are no keys none is needed.
    pub(crate) fn with_local(mut self, secret: &str) -> Self {
        if !self.keys.is_empty() {
            let scopes = Scopes { admin: true, ..Scopes::default() };
            let local = Self::new([KeyEntry {
                name: "local".to_owned(),
                secret: secret.to_owned(),
                servers: None,
                tools: None,
                scopes,
                rate_limit: None,
            }]);
            self.keys.extend(local.keys);
        }
        self
    }

    /// Goes on counting where another left off, for keys of the same name and rate: a reload gives nobody anything back.
    pub(crate) fn succeed(&mut self, before: &Self) {
        for key in &mut self.keys {
            // Nobody else has them yet.
            let Some(rights) = Arc::get_mut(&mut key.rights) else { continue };
            let same = before.keys.iter().find(|old| old.rights.name == rights.name);
            if let (Some(new), Some(old)) =
                (&rights.bucket, same.and_then(|old| old.rights.bucket.as_ref()))
                && new.rate() == old.rate()
            {
                rights.bucket = Some(old.clone());
            }
        }
    }

    /// Who sent these headers. More than one key may come along, for example one meant for a server behind the gateway:
    /// the first that is known here counts.
    pub(crate) fn identify(&self, headers: &Headers) -> Result<Caller, Denied> {
        if self.keys.is_empty() {
            return Ok(Caller::default());
        }
        let mut denied = Denied::Missing;
        for secret in presented(headers) {
            if let Some(rights) = self.find(secret) {
                return Ok(Caller(Some(rights)));
            }
            denied = Denied::Wrong;
        }
        Err(denied)
    }

    /// The holder of the key of this name, as of now; somebody who may use nothing if there is no such key any more.
    pub(crate) fn holder(&self, name: &str) -> Caller {
        let known = self.keys.iter().find(|key| key.rights.name == name);
        let nothing = || Rights {
            number: next_number(),
            name: name.to_owned(),
            servers: Some(Vec::new()),
            tools: Some(Vec::new()),
            scopes: Scopes::default(),
            bucket: None,
        };
        Caller(Some(known.map_or_else(|| Arc::new(nothing()), |key| key.rights.clone())))
    }

    /// Takes the gateway's own keys out: they are no server's business.
    pub(crate) fn hide(&self, headers: &mut Headers) {
        if self.keys.is_empty() {
            return;
        }
        headers.retain(AUTHORIZATION, |value| self.find(bearer(value)).is_none());
        headers.retain(API_KEY, |value| self.find(value.trim_ascii()).is_none());
    }

    fn find(&self, secret: &[u8]) -> Option<Arc<Rights>> {
        let digest = Sha256::digest(secret);
        let mut found = None;
        for key in &self.keys {
            let equal = verify_slices_are_equal(&key.digest, &digest).is_ok();
            if equal && found.is_none() {
                found = Some(key.rights.clone());
            }
        }
        found
    }
}

/// Every secret that came along, none of them empty.
fn presented(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    let authorization = headers.get_all(AUTHORIZATION).map(bearer);
    let api_key = headers.get_all(API_KEY).map(<[u8]>::trim_ascii);
    authorization.chain(api_key).filter(|secret| !secret.is_empty())
}

/// The secret in an `Authorization` header.
fn bearer(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value.split_at_checked(BEARER.len()) {
        // "Bearer" alone is a bearer of nothing, "Bearerx" a key that begins so.
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(BEARER) => match rest.first() {
            None | Some(b' ' | b'\t') => rest.trim_ascii_start(),
            Some(_) => value,
        },
        _ => value,
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

// === impl Caller ===

impl Caller {
    /// Whoever asks where no keys are configured.
    pub(crate) fn anonymous() -> Self {
        Self(None)
    }

    /// The name of the key; `None` for the anonymous caller.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|rights| rights.name.as_str())
    }

    /// Tells these rights from all others; the anonymous caller's are always the same.
    pub(crate) fn rights(&self) -> u64 {
        self.0.as_ref().map_or(ANONYMOUS, |rights| rights.number)
    }

    /// Whether the caller may use servers at all.
    pub(crate) fn may_use_mcp(&self) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.scopes.mcp)
    }

    /// Whether the caller may know everything of the gateway, and steer it.
    pub(crate) fn is_admin(&self) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.scopes.admin)
    }

    /// Whether the caller may see the metrics.
    pub(crate) fn may_see_metrics(&self) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.scopes.admin || rights.scopes.metrics)
    }

    /// The caller is about to have something sent to a server. If that would be too often, how long until it is not.
    pub(crate) fn spend(&self) -> Result<(), Duration> {
        match self.0.as_ref().and_then(|rights| rights.bucket.as_ref()) {
            Some(bucket) => bucket.take(),
            None => Ok(()),
        }
    }

    /// Whether the caller may know of a server and use it.
    pub(crate) fn may_use_server(&self, server: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| allows(rights.servers.as_deref(), server))
    }

    /// Whether the caller may know of a tool and use it, by its public name.
    pub(crate) fn may_use_tool(&self, public: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| allows(rights.tools.as_deref(), public))
    }
}

fn allows(globs: Option<&[WildMatch]>, name: &str) -> bool {
    globs.is_none_or(|globs| globs.iter().any(|glob| glob.matches(name)))
}

// === impl KeyEntry ===

impl fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

// === impl Key ===

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.rights.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, secret: &str) -> KeyEntry {
        KeyEntry {
            name: name.into(),
            secret: secret.into(),
            servers: None,
            tools: None,
            scopes: Scopes { mcp: true, ..Scopes::default() },
            rate_limit: None,
        }
    }

    fn ring() -> Keyring {
        Keyring::new([entry("alice", "alice-secret"), entry("bob", "bob secret ä")])
    }

    fn headers(pairs: &[(&'static str, &str)]) -> Headers {
        pairs.iter().copied().collect()
    }

    fn who(pairs: &[(&'static str, &str)]) -> Result<Option<String>, Denied> {
        ring().identify(&headers(pairs)).map(|caller| caller.name().map(str::to_owned))
    }

    #[test]
    fn without_keys_everybody_is_anonymous_and_may_do_everything() {
        let ring = Keyring::default();
        for pairs in [&[][..], &[("authorization", "Bearer whatever")]] {
            let caller = ring.identify(&headers(pairs)).unwrap();
            assert_eq!(caller.name(), None);
            assert!(caller.may_use_server("any") && caller.may_use_tool("any"));
        }
    }

    #[test]
    fn a_key_may_come_in_three_ways() {
        let alice = Ok(Some("alice".to_owned()));
        for value in ["Bearer alice-secret", "bearer alice-secret", "BEARER \t alice-secret "] {
            assert_eq!(who(&[("authorization", value)]), alice, "{value}");
        }
        assert_eq!(who(&[("authorization", "alice-secret")]), alice);
        assert_eq!(who(&[("x-api-key", "alice-secret")]), alice);
        assert_eq!(who(&[("x-api-key", "bob secret ä")]), Ok(Some("bob".into())));
    }

    #[test]
    fn no_key_is_missing_and_another_key_is_wrong() {
        assert_eq!(who(&[]), Err(Denied::Missing));
        for nothing in ["", "  ", "Bearer", "Bearer  "] {
            assert_eq!(who(&[("authorization", nothing)]), Err(Denied::Missing), "{nothing:?}");
        }
        for wrong in [
            "Bearer alice",
            "Bearer alice-secret2",
            "Bearer Alice-secret",
            "Beareralice-secret",
            "Basic alice-secret",
            "Bearer alice-secret,",
            "Bearer Bearer alice-secret",
        ] {
            assert_eq!(who(&[("authorization", wrong)]), Err(Denied::Wrong), "{wrong}");
        }
        assert_eq!(who(&[("x-api-key", "Bearer alice-secret")]), Err(Denied::Wrong));
    }

    #[test]
    fn a_key_for_somebody_else_may_come_along() {
        let both = [("authorization", "Bearer of-another"), ("x-api-key", "alice-secret")];
        assert_eq!(who(&both), Ok(Some("alice".into())));
        let two = [("authorization", "Bearer of-another"), ("authorization", "alice-secret")];
        assert_eq!(who(&two), Ok(Some("alice".into())));
    }

    #[test]
    fn a_key_goes_no_further_wherever_it_stands_and_others_do() {
        for name in ["authorization", "x-api-key"] {
            let mut headers = headers(&[
                (name, "of-another"),
                (name, "alice-secret"),
                (name, "of-a-third"),
                (name, "bob secret ä"),
                ("accept", "alice-secret"),
            ]);
            ring().hide(&mut headers);
            let left: Vec<_> = headers.get_all(name).collect();
            assert_eq!(left, [&b"of-another"[..], b"of-a-third"], "{name}");
            assert_eq!(headers.text("accept"), Some("alice-secret"));
        }
        let mut alone = headers(&[("authorization", "Bearer alice-secret")]);
        ring().hide(&mut alone);
        assert_eq!(alone.get("authorization"), None);
    }

    #[test]
    fn an_empty_secret_opens_nothing() {
        let ring = Keyring::new([entry("nobody", "")]);
        for pairs in [&[][..], &[("authorization", "Bearer ")], &[("x-api-key", "")]] {
            assert_eq!(ring.identify(&headers(pairs)).unwrap_err(), Denied::Missing);
        }
    }

    #[test]
    fn the_first_of_two_equal_secrets_counts() {
        let ring = Keyring::new([entry("first", "same"), entry("second", "same")]);
        let caller = ring.identify(&headers(&[("x-api-key", "same")])).unwrap();
        assert_eq!(caller.name(), Some("first"));
    }

    #[test]
    fn rights_are_globs_and_an_empty_list_is_nothing() {
        let limited = KeyEntry {
            servers: Some(vec!["docs".into(), "team-*".into()]),
            tools: Some(vec!["docs__*".into(), "team-a__read".into()]),
            ..entry("limited", "s1")
        };
        let locked =
            KeyEntry { servers: Some(vec![]), tools: Some(vec![]), ..entry("locked", "s2") };
        let ring = Keyring::new([limited, locked]);
        let limited = ring.identify(&headers(&[("x-api-key", "s1")])).unwrap();
        assert!(limited.may_use_server("docs") && limited.may_use_server("team-a"));
        assert!(!limited.may_use_server("docs2") && !limited.may_use_server(""));
        assert!(limited.may_use_tool("docs__search") && limited.may_use_tool("team-a__read"));
        assert!(!limited.may_use_tool("team-a__write") && !limited.may_use_tool("xdocs__search"));
        let locked = ring.identify(&headers(&[("x-api-key", "s2")])).unwrap();
        assert!(!locked.may_use_server("docs") && !locked.may_use_tool("docs__search"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_goes_on_counting_for_keys_that_did_not_change() {
        let limited = |name: &str, requests| {
            let per = Duration::from_secs(60);
            KeyEntry { rate_limit: Some(Rate { requests, per }), ..entry(name, name) }
        };
        let caller =
            |ring: &Keyring, name: &str| ring.identify(&headers(&[("x-api-key", name)])).unwrap();
        let before = Keyring::new([limited("same", 1), limited("other", 1), entry("free", "free")]);
        for name in ["same", "other", "free"] {
            assert_eq!(caller(&before, name).spend(), Ok(()));
        }
        let entries = [limited("same", 1), limited("other", 2), limited("free", 1)];
        let mut after = Keyring::new(entries);
        after.succeed(&before);
        assert!(caller(&after, "same").spend().is_err());
        assert_eq!(caller(&after, "other").spend(), Ok(()));
        assert_eq!(caller(&after, "free").spend(), Ok(()));
        assert!(caller(&before, "same").spend().is_err());
        assert_eq!(Caller::anonymous().spend(), Ok(()));
    }

    #[test]
    fn secrets_do_not_print() {
        let shown = format!("{:?} {:?}", ring(), entry("alice", "alice-secret"));
        assert!(shown.contains("alice") && !shown.contains("secret"), "{shown}");
    }
}
