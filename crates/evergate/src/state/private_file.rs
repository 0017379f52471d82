//! Files that only their owner can read, and that are there as a whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::hex::hex;
use crate::random;

/// Bytes that tell two writers apart.
const RANDOM: usize = 8;
/// Another process may use the directory, and be in the middle of it.
const LONGEST_WRITING: Duration = Duration::from_secs(60);

/// Makes a directory and those above it, unless it is there.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Writes a file in place of the one that may be there.
pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    with_temporary(path, text, |temporary| fs::rename(temporary, path))
}

/// Writes a file unless there is one already. Of several processes that try at once one wins, and the others find its
/// whole file.
pub(super) fn create_once(path: &Path, text: &[u8]) -> io::Result<()> {
    let created = with_temporary(path, text, |temporary| match fs::hard_link(temporary, path) {
        // Not every file system has links. Without them a reader may come between making and writing.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => write_new(path, text),
        done => done,
    });
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Writes beside `path`, on the same file system, and leaves nothing there.
fn with_temporary(
    path: &Path,
    text: &[u8],
    finish: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let done = write_new(&temporary, text).and_then(|()| finish(&temporary));
    // After a rename it is gone, and that is fine.
    let _ = fs::remove_file(&temporary);
    done
}

fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let random: [u8; RANDOM] = random::bytes().map_err(io::Error::other)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", hex(&random)));
    Ok(path.with_file_name(name))
}

/// Removes what processes left behind that were killed while they wrote. Whatever is in the way of that is in nobody's.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > LONGEST_WRITING));
        if is_temporary(&entry.file_name().to_string_lossy()) && is_old {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether [`temporary_beside`] makes such names.
fn is_temporary(name: &str) -> bool {
    let random = name.strip_suffix(".tmp").and_then(|rest| rest.rsplit_once('.'));
    random.is_some_and(|(_, random)| {
        random.len() == 2 * RANDOM && random.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = open_new(path)?;
    file.write_all(text)?;
    // A rename may reach the disk before the content does.
    file.sync_all()
}

fn open_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        fs::read_dir(dir).unwrap().map(name).map(Result::unwrap).collect()
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * LONGEST_WRITING;
        let left = temporary_beside(&dir.path().join("catalogs.json")).unwrap();
        let new = temporary_beside(&dir.path().join("sessions.json")).unwrap();
        let others = ["notes.tmp", "a.0123.tmp", "a.0123456789abcdefg.tmp", "session.key"];
        let others = others.map(|name| dir.path().join(name));
        for path in [&left, &new].into_iter().chain(&others) {
            fs::write(path, "half").unwrap();
        }
        for path in [&left].into_iter().chain(&others) {
            File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        sweep(dir.path());
        assert!(!left.exists() && new.exists(), "{:?}", names(dir.path()));
        assert!(others.iter().all(|path| path.exists()), "{:?}", names(dir.path()));
    }

    #[test]
    fn the_first_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        create_once(&path, b"one").unwrap();
        create_once(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directory");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "x").unwrap();
        replace(&path, b"one").unwrap_err();
        assert_eq!(names(dir.path()), ["directory"]);
        replace(&dir.path().join("missing").join("file"), b"one").unwrap_err();
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        // An old file that was open to all does not pass that on.
        fs::write(&one, "old").unwrap();
        fs::set_permissions(&one, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&one, b"x").unwrap();
        create_once(&two, b"x").unwrap();
        for path in [one, two] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
