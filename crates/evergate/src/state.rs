//! What outlives the process: a directory with the keys of session ids, the last catalogs and the sessions.
//!
//! Only the key is needed to start. The rest makes a restart go unnoticed, so a file that is damaged costs a warning and
//! is written anew. Everything here is for the owner's eyes alone, and every file is replaced as a whole: a reader finds
//! the old one or the new one. All of it blocks, so tasks call it through `spawn_blocking`.

mod catalogs;
mod control;
mod json_file;
mod private_file;
mod session_key;
mod sessions;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use crate::hex::hex;

pub(crate) use catalogs::StoredCatalogs;
pub(crate) use control::{Announced, Control, read as read_controls};
pub(crate) use sessions::{StoredSession, StoredSessions, StoredUid, uid_hex};

/// The state directory.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    path: PathBuf,
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the state directory {}", path.display())]
pub(crate) struct Unusable {
    path: PathBuf,
    source: io::Error,
}

/// Long enough to recognize a file by.
const MAX_STEM_CHARS: usize = 40;
/// Bytes of the hash that tells apart files of the same name.
const HASH_BYTES: usize = 4;

/// A folder, with those above it, that only this user can enter.
pub(crate) fn create_private_directory(path: &std::path::Path) -> io::Result<()> {
    private_file::create_directory(path)
}

/// A new file that only this user can read; one that is there already is an error.
pub(crate) fn create_private(path: &std::path::Path, text: &[u8]) -> io::Result<()> {
    private_file::create_once(path, text)
}

// === impl StateDir ===

impl StateDir {
    /// Opens the directory. If it is not there yet, it is made, for the owner alone.
    pub(crate) fn open(path: impl Into<PathBuf>) -> Result<Self, Unusable> {
        let path = path.into();
        if let Err(source) = private_file::create_directory(&path) {
            return Err(Unusable { path, source });
        }
        private_file::sweep(&path);
        Ok(Self { path })
    }

    /// The keys of session ids, the one that seals first. Makes one if there is none.
    pub(crate) fn session_key_texts(&self) -> io::Result<Vec<String>> {
        session_key::read_or_create(&self.path.join("session.key"))
    }

    /// What servers offered when last seen; empty if that is not known.
    pub(crate) fn load_catalogs(&self) -> StoredCatalogs {
        catalogs::load(&self.path.join(catalogs::FILE))
    }

    /// Keeps what servers offer.
    pub(crate) fn save_catalogs(&self, catalogs: &StoredCatalogs) -> io::Result<()> {
        catalogs::save(&self.path.join(catalogs::FILE), catalogs)
    }

    /// What a session id does not say of its session; empty if that is not known.
    pub(crate) fn load_sessions(&self) -> StoredSessions {
        json_file::load(&self.path.join(sessions::FILE)).unwrap_or_default()
    }

    /// Keeps what session ids do not say.
    pub(crate) fn save_sessions(&self, sessions: &StoredSessions) -> io::Result<()> {
        json_file::save(&self.path.join(sessions::FILE), sessions)
    }
}

/// Where the state of a gateway with these configuration files is kept unless somebody says otherwise. `None` without
/// files, since two gateways that have none must not share their state, and without a home.
pub(crate) fn default_dir(config_files: &[PathBuf]) -> Option<PathBuf> {
    default_dir_in(config_files, &|name| std::env::var_os(name))
}

fn default_dir_in(
    config_files: &[PathBuf],
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let stem = config_files.first()?.file_stem()?.to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let stem: String = stem.chars().take(MAX_STEM_CHARS).map(plain).collect();
    let mut hash = Sha256::new();
    for file in config_files {
        hash.update(std::path::absolute(file).ok()?.as_os_str().as_encoded_bytes());
        hash.update([0]);
    }
    let hash = hex(&hash.finalize()[..HASH_BYTES]);
    Some(home_in(environment)?.join(format!("{stem}-{hash}")))
}

/// The folder in which every gateway of this user has its own, unless somebody says otherwise.
pub(crate) fn home() -> Option<PathBuf> {
    home_in(&|name| std::env::var_os(name))
}

fn home_in(environment: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // XDG base directories: "If an implementation encounters a relative path in any of these variables it should
    // consider the path invalid and ignore it."
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))?;
    Some(base.join("evergate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(
        pairs: &'static [(&'static str, &'static str)],
    ) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    fn dir_of(files: &[&str], pairs: &'static [(&'static str, &'static str)]) -> Option<String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let dir = default_dir_in(&files, &environment(pairs))?;
        Some(dir.to_str().unwrap().to_owned())
    }

    #[test]
    #[cfg(unix)]
    fn the_default_is_in_the_state_home_and_named_after_the_file() {
        let dir =
            dir_of(&["/etc/My Servers.json"], &[("XDG_STATE_HOME", "/state"), ("HOME", "/h")]);
        // The same after an update, or every client would notice it.
        assert_eq!(dir.unwrap(), "/state/evergate/My_Servers-c3ddfc95");
        let home = dir_of(&["/etc/a.json"], &[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]);
        assert!(home.unwrap().starts_with("/h/.local/state/evergate/a-"));
    }

    #[test]
    #[cfg(unix)]
    fn other_files_have_another_directory() {
        const HOME: &[(&str, &str)] = &[("HOME", "/h")];
        let one = dir_of(&["/a/mcp.json"], HOME);
        assert_eq!(one, dir_of(&["/a/mcp.json"], HOME));
        assert_ne!(one, dir_of(&["/b/mcp.json"], HOME));
        assert_ne!(one, dir_of(&["/a/mcp.json", "/a/more.json"], HOME));
        assert_eq!(dir_of(&["mcp.json"], HOME), dir_of(&["./mcp.json"], HOME));
        let long = dir_of(&[&format!("/a/{}.json", "x".repeat(200))], HOME).unwrap();
        assert!(std::path::Path::new(&long).file_name().unwrap().len() < 60);
    }

    #[test]
    fn without_a_file_or_a_home_there_is_none() {
        assert_eq!(dir_of(&[], &[("HOME", "/h")]), None);
        assert_eq!(dir_of(&["/a/mcp.json"], &[]), None);
        assert_eq!(dir_of(&["/a/mcp.json"], &[("HOME", "")]), None);
    }

    #[test]
    #[cfg(unix)]
    fn the_directory_is_made_for_the_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep").join("state");
        let dir = StateDir::open(&path).unwrap();
        assert_eq!(dir.path, path);
        for made in [&path, path.parent().unwrap()] {
            assert_eq!(std::fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
        }
        StateDir::open(&path).unwrap();
    }

    #[test]
    fn what_is_no_directory_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = StateDir::open(file.path()).unwrap_err();
        assert!(error.to_string().contains(file.path().to_str().unwrap()), "{error}");
    }
}
