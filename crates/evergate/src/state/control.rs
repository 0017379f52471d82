//! `control-PID.json`: how the command line finds the gateways that run with a state directory, and what opens their admin
//! API.
//!
//! Each process has its own file: two may run on one directory, by mistake or because one takes over from the other, and
//! neither must hide the other. The file is there while the gateway runs, and gone after an orderly end. The key in it dies
//! with the process, so a file that a crash left behind opens nothing; whoever reads it asks
//! [`Control::is_of_a_dead_process`] first, and the next gateway sweeps it away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{StateDir, private_file};
use crate::config::Secret;
use crate::hex::hex;
use crate::observed::unix_ms;
use crate::random;

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Control {
    /// Where its admin API is, without a path.
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// What opens it as long as the process lives; in logs it is called `local`.
    pub(crate) key: Secret,
    /// What it was configured from, so that people can tell two of them apart.
    pub(crate) config_files: Vec<String>,
    /// The name it goes by, if it does not listen to that of this machine.
    pub(crate) host: Option<String>,
    /// When it began: of two at one address the later has taken it over.
    pub(crate) since_unix_ms: u64,
}

/// The file, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Announced {
    path: PathBuf,
    control: Control,
}

#[derive(Serialize, Deserialize)]
struct Content {
    url: String,
    pid: u32,
    key: String,
    #[serde(default)]
    config_files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default)]
    since_unix_ms: u64,
}

const PREFIX: &str = "control-";
const SUFFIX: &str = ".json";
/// As many as the keys of session ids have.
const KEY_BYTES: usize = 32;

/// What the directory says of gateways that run, or died without a word: the latest first, none if there is no directory.
/// A file that cannot be used is an error only if no other can.
pub(crate) fn read(directory: &Path) -> io::Result<Vec<Control>> {
    let (mut controls, mut broken) = (Vec::new(), None);
    for path in files(directory)? {
        match read_file(&path) {
            Ok(control) => controls.push(control),
            // It ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => broken = Some(cannot_use(&path, &error)),
        }
    }
    controls.sort_by_key(|control| std::cmp::Reverse(control.since_unix_ms));
    match broken {
        Some(error) if controls.is_empty() => Err(error),
        _ => Ok(controls),
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot_use(directory, &error)),
    };
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_one).collect())
}

fn cannot_use(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot use {}: {error}", path.display()))
}

fn read_file(path: &Path) -> io::Result<Control> {
    let content: Content = serde_json::from_slice(&fs::read(path)?)?;
    let Content { url, pid, key, config_files, host, since_unix_ms } = content;
    let key = Secret::new(&key).map_err(|why| io::Error::other(format!("its key {why}")))?;
    Ok(Control { url, pid, key, config_files, host, since_unix_ms })
}

// === impl Control ===

impl Control {
    /// This process, with a key of its own that nobody knows yet.
    pub(crate) fn new(url: String, config_files: &[PathBuf]) -> io::Result<Self> {
        let key: [u8; KEY_BYTES] = random::bytes().map_err(io::Error::other)?;
        let key = Secret::new(&hex(&key)).map_err(io::Error::other)?;
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        };
        let config_files = config_files.iter().map(absolute).collect();
        let since_unix_ms = unix_ms(SystemTime::now());
        Ok(Self { url, pid: std::process::id(), key, config_files, host: None, since_unix_ms })
    }

    /// Whether it surely does not run any more. A process id may have been given to somebody else since, so the opposite
    /// is not sure.
    #[cfg(unix)]
    pub(crate) fn is_of_a_dead_process(&self) -> bool {
        use rustix::io::Errno;
        use rustix::process::{Pid, test_kill_process};

        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    #[cfg(not(unix))]
    pub(crate) fn is_of_a_dead_process(&self) -> bool {
        false
    }
}

// === impl StateDir ===

impl StateDir {
    /// Tells the command line where this gateway is, until the result is dropped.
    pub(crate) fn announce(&self, control: Control) -> io::Result<Announced> {
        self.look_around(&control);
        let path = self.path.join(format!("{PREFIX}{}{SUFFIX}", control.pid));
        let content = Content {
            url: control.url.clone(),
            pid: control.pid,
            key: control.key.expose().to_owned(),
            config_files: control.config_files.clone(),
            host: control.host.clone(),
            since_unix_ms: control.since_unix_ms,
        };
        private_file::replace(&path, &serde_json::to_vec(&content)?)?;
        Ok(Announced { path, control })
    }

    /// Takes away what the dead left behind, and says who else is alive here.
    fn look_around(&self, control: &Control) {
        for path in files(&self.path).unwrap_or_default() {
            let Ok(other) = read_file(&path) else { continue };
            if other.pid == control.pid {
                continue;
            }
            if other.is_of_a_dead_process() {
                // Somebody else may have been quicker.
                let _ = fs::remove_file(&path);
            } else if other.url != control.url {
                tracing::warn!(
                    pid = other.pid,
                    url = other.url,
                    "another gateway keeps its state in the same folder: give one of them a --state-dir of its own"
                );
            }
        }
    }
}

// === impl Announced ===

impl Drop for Announced {
    fn drop(&mut self) {
        let ours = read_file(&self.path)
            .is_ok_and(|there| (there.pid, &there.key) == (self.control.pid, &self.control.key));
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        (folder, state)
    }

    fn control(url: &str) -> Control {
        Control::new(url.to_owned(), &[PathBuf::from("/etc/servers.json")]).unwrap()
    }

    fn urls(folder: &tempfile::TempDir) -> Vec<String> {
        read(folder.path()).unwrap().into_iter().map(|control| control.url).collect()
    }

    #[test]
    fn it_is_there_while_the_gateway_runs() {
        let (folder, state) = state();
        assert_eq!(read(folder.path()).unwrap(), []);
        let control = control("http://127.0.0.1:1");
        let announced = state.announce(control.clone()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), std::slice::from_ref(&control));
        assert!(!control.is_of_a_dead_process());
        drop(announced);
        assert_eq!(read(folder.path()).unwrap(), []);
        assert_eq!(read(&folder.path().join("none")).unwrap(), []);
    }

    #[test]
    #[cfg(unix)]
    fn gateways_on_one_directory_do_not_hide_each_other() {
        let (folder, state) = state();
        let ours = control("http://127.0.0.1:1");
        // Process 1 is always alive.
        let later =
            Control { pid: 1, since_unix_ms: ours.since_unix_ms + 1, ..control("http://b") };
        let first = state.announce(ours).unwrap();
        let second = state.announce(later.clone()).unwrap();
        assert_eq!(urls(&folder), ["http://b", "http://127.0.0.1:1"], "the latest comes first");
        drop(second);
        assert_eq!(urls(&folder), ["http://127.0.0.1:1"]);
        let second = state.announce(later).unwrap();
        drop(first);
        assert_eq!(urls(&folder), ["http://b"]);
        drop(second);
        assert_eq!(urls(&folder), Vec::<String>::new());
    }

    #[test]
    fn a_gateway_takes_away_only_its_own() {
        let (folder, state) = state();
        let first = state.announce(control("http://127.0.0.1:1")).unwrap();
        let second = state.announce(control("http://127.0.0.1:2")).unwrap();
        drop(first);
        assert_eq!(urls(&folder), ["http://127.0.0.1:2"]);
        drop(second);
        assert_eq!(urls(&folder), Vec::<String>::new());
    }

    #[test]
    #[cfg(unix)]
    fn what_the_dead_left_behind_is_swept_away() {
        let (folder, state) = state();
        let dead = Control { pid: u32::MAX, ..control("http://dead") };
        let _dead = state.announce(dead).unwrap();
        assert_eq!(urls(&folder), ["http://dead"]);
        let _announced = state.announce(control("http://alive")).unwrap();
        assert_eq!(urls(&folder), ["http://alive"]);
    }

    #[test]
    fn every_gateway_has_another_key_and_none_prints() {
        let (one, two) = (control("http://a"), control("http://a"));
        assert_eq!(one.key.expose().len(), 64);
        assert_ne!(one.key, two.key);
        assert!(!format!("{one:?}").contains(one.key.expose()));
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let (folder, state) = state();
        let _announced = state.announce(control("http://a")).unwrap();
        let file = files(folder.path()).unwrap().remove(0);
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_is_gone_is_recognised() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let dead = |pid| Control { pid, ..control("http://a") }.is_of_a_dead_process();
        assert!(dead(pid) && dead(0) && dead(u32::MAX));
        assert!(!dead(1), "somebody else's process is alive");
    }

    #[test]
    fn what_later_versions_add_does_not_matter_and_nonsense_is_named() {
        let (folder, _state) = state();
        let path = folder.path().join("control-1.json");
        let key = "k".repeat(64);
        fs::write(&path, format!(r#"{{"url":"http://a","pid":1,"key":"{key}","more":[1]}}"#))
            .unwrap();
        assert_eq!(read(folder.path()).unwrap()[0].config_files, Vec::<String>::new());
        for text in ["", "[]", r#"{"url":"http://a","pid":1,"key":"hunter2"}"#] {
            fs::write(&path, text).unwrap();
            let error = read(folder.path()).unwrap_err().to_string();
            assert!(error.contains("control-1.json") && !error.contains("hunter2"), "{error}");
        }
    }
}
