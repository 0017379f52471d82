//! The names under which clients know the tools and prompts of many servers.
//!
//! A public name must be unique among all servers, the same after every restart, and short enough for the model APIs
//! that refuse more than 64 characters. Finding out who owns a name is left to [`super::merged`], which remembers the
//! names it gave: none is ever taken apart again.

use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// How public names are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The server's name, a separator, the tool's own name.
    Prefix {
        /// What stands between the two.
        separator: String,
    },
    /// The tool's own name, as it is.
    Bare,
}

/// What the model APIs of the large vendors accept.
const MAX_CHARS: usize = 64;
/// Enough that a thousand long names clash once in ten thousand installations.
const HASH_DIGITS: usize = 8;

// === impl Naming ===

impl Naming {
    /// Prefix mode.
    pub(crate) fn prefix(separator: impl Into<String>) -> Self {
        Self::Prefix { separator: separator.into() }
    }
}

/// The name under which clients know what `server` calls `own`.
pub(crate) fn public_name(naming: &Naming, server: &str, own: &str) -> String {
    let Naming::Prefix { separator } = naming else { return own.to_owned() };
    let mut name = String::with_capacity(server.len() + separator.len() + own.len());
    name.extend(server.chars().map(|c| if is_plain(c) { c } else { '_' }));
    name.push_str(separator);
    name.push_str(own);
    shorten(&mut name, server, own);
    name
}

/// What a server would call the tool that clients know by this name, were it that server's. Cut names cannot be told.
pub(crate) fn own_name<'a>(naming: &Naming, server: &str, public: &'a str) -> Option<&'a str> {
    let Naming::Prefix { .. } = naming else { return Some(public) };
    let prefix = public_name(naming, server, "");
    public.strip_prefix(&prefix).filter(|own| !own.is_empty())
}

/// Whether a public name may stand for a longer one.
pub(crate) fn may_be_cut(public: &str) -> bool {
    public.chars().nth(MAX_CHARS - 1).is_some()
}

/// What every client accepts in a name.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Keeps a name within the budget; the hash keeps apart what cutting made equal.
fn shorten(name: &mut String, server: &str, own: &str) {
    if name.chars().nth(MAX_CHARS).is_none() {
        return;
    }
    let kept = MAX_CHARS - HASH_DIGITS - 1;
    if let Some((end, _)) = name.char_indices().nth(kept) {
        name.truncate(end);
    }
    name.push('_');
    let hash = Sha256::new().chain_update(server).chain_update([0]).chain_update(own).finalize();
    name.push_str(&hex(&hash[..HASH_DIGITS / 2]));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn prefixed(server: &str, own: &str) -> String {
        public_name(&Naming::prefix("__"), server, own)
    }

    #[test]
    fn a_prefix_is_the_server_and_the_separator() {
        assert_eq!(prefixed("files", "read"), "files__read");
        assert_eq!(public_name(&Naming::prefix("."), "files", "read"), "files.read");
        assert_eq!(public_name(&Naming::prefix(""), "files", "read"), "filesread");
    }

    #[test]
    fn only_the_servers_name_is_made_plain() {
        assert_eq!(prefixed("my files/ä", "read all!"), "my_files____read all!");
        assert_eq!(prefixed("a.b-c_d9", "x"), "a.b-c_d9__x");
    }

    #[test]
    fn bare_names_stay_as_they_are() {
        let long = "x".repeat(100);
        assert_eq!(public_name(&Naming::Bare, "files", &long), long);
        assert_eq!(public_name(&Naming::Bare, "files", "read all"), "read all");
    }

    #[test]
    fn sixty_four_characters_are_not_cut_and_sixty_five_are() {
        let fits = "x".repeat(64 - "s__".len());
        assert_eq!(prefixed("s", &fits), format!("s__{fits}"));
        let cut = prefixed("s", &format!("{fits}x"));
        assert_eq!(cut.len(), 64);
        assert!(cut.starts_with("s__xxx"));
    }

    /// The names are in the memories of agents: a release must not change them.
    #[test]
    fn long_names_never_change() {
        let name = prefixed("a-server-with-a-long-name", &"a_tool_with_a_long_name_".repeat(2));
        assert_eq!(name, "a-server-with-a-long-name__a_tool_with_a_long_name_a_to_61307092");
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        let own = "ä".repeat(61);
        assert_eq!(prefixed("s", &own), format!("s__{own}"));
        assert_eq!(prefixed("s", &"ä".repeat(62)).chars().count(), 64);
    }

    proptest! {
        #[test]
        fn within_the_budget_and_stable(server in ".{0,80}", own in ".{0,80}", separator in "[_.-]{0,3}") {
            let naming = Naming::prefix(separator);
            let name = public_name(&naming, &server, &own);
            prop_assert!(name.chars().count() <= 64);
            prop_assert_eq!(&name, &public_name(&naming, &server, &own));
        }

        #[test]
        fn long_names_that_differ_late_stay_different(
            server in "[a-z]{1,70}",
            owns in proptest::collection::hash_set("[a-z]{50,55}[a-z]{1,40}", 1..30),
        ) {
            let names: HashSet<String> = owns.iter().map(|own| prefixed(&server, own)).collect();
            prop_assert_eq!(names.len(), owns.len());
        }

        #[test]
        fn long_names_of_different_servers_stay_different(
            servers in proptest::collection::hash_set("[a-z]{56}[ -~]{1,20}", 1..20),
        ) {
            let names: HashSet<String> = servers.iter().map(|server| prefixed(server, "x")).collect();
            prop_assert_eq!(names.len(), servers.len());
        }
    }
}
