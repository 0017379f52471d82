//! Programs on the `PATH`: which one a name leads to, and which one was probably meant.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a name would start; `None` if nothing.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(name, &folders(std::env::var_os("PATH")))
}

/// Programs whose names are almost this one, the nearest first.
pub(crate) fn near(name: &str) -> Vec<String> {
    near_in(name, &folders(std::env::var_os("PATH")))
}

fn folders(path: Option<OsString>) -> Vec<PathBuf> {
    path.map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn find_in(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    if name.contains(['/', '\\']) {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let extensions: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat"] } else { &[""] };
    let candidates = folders.iter().flat_map(|folder| {
        extensions.iter().map(move |extension| folder.join(format!("{name}{extension}")))
    });
    candidates.into_iter().find(|path| is_program(path))
}

fn near_in(name: &str, folders: &[PathBuf]) -> Vec<String> {
    let wanted = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let programs = entries.flatten().filter(|entry| is_program(&entry.path()));
    let names: BTreeSet<String> =
        programs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // A short word has too many neighbours.
    let limit = if wanted.chars().count() <= 5 { 1 } else { 2 };
    let mut close: Vec<(usize, String)> = names
        .into_iter()
        .map(|candidate| (crate::config::distance(wanted, &candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    close.sort();
    close.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn programs_are_found_and_neighbours_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("uvx", 0o755), ("python3", 0o755), ("notes", 0o644)] {
            fs::write(folder.path().join(name), "").unwrap();
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        let folders = [PathBuf::from("/no/such/folder"), folder.path().to_owned()];
        assert_eq!(find_in("uvx", &folders), Some(folder.path().join("uvx")));
        assert_eq!(find_in("notes", &folders), None);
        assert_eq!(find_in("/no/such/program", &folders), None);
        assert_eq!(near_in("uvxx", &folders), ["uvx"]);
        assert_eq!(near_in("/opt/bin/python", &folders), ["python3"]);
        assert!(near_in("node", &folders).is_empty());
    }
}
