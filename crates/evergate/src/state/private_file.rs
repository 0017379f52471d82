//! Files that only their owner can read, and that are there as a whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::hex;
use crate::random;

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
    let random: [u8; 8] = random::bytes().map_err(io::Error::other)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", hex(&random)));
    Ok(path.with_file_name(name))
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
