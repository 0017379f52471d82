//! Files that people care for: written as a whole or not at all, through links, with the permissions they had.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::random;

/// Writes a new file for its owner alone. One that is there already is an error and stays as it is.
pub(crate) fn create(path: &Path, text: &str) -> io::Result<()> {
    with_temporary(path, text, None, |temporary| match fs::hard_link(temporary, path) {
        // Not every file system has links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            open_new(path)?.write_all(text.as_bytes())
        }
        done => done,
    })
}

/// Writes a file in place of the one that is there. Where a link is, the file behind it is written.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = match fs::symlink_metadata(path) {
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => return create(path, text),
    };
    let about = fs::metadata(&target)?;
    if !about.is_file() {
        return Err(io::Error::other("is not a file"));
    }
    with_temporary(&target, text, Some(about.permissions()), |temporary| {
        fs::rename(temporary, &target)
    })
}

/// The same, if the file still has the text that the new one was made of. Whatever somebody else wrote meanwhile stays.
pub(crate) fn replace_unchanged(path: &Path, before: &str, text: &str) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    let permissions = fs::metadata(&target)?.permissions();
    with_temporary(&target, text, Some(permissions), |temporary| {
        if fs::read(&target)? != before.as_bytes() {
            let what = "somebody else changed it meanwhile: nothing was changed, try again";
            return Err(io::Error::other(what));
        }
        fs::rename(temporary, &target)
    })
}

/// Writes beside `path`, on the same file system, and leaves nothing there.
fn with_temporary(
    path: &Path,
    text: &str,
    permissions: Option<Permissions>,
    finish: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = open_new(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        // A rename may reach the disk before the content does.
        file.sync_all()
    });
    let done = written.and_then(|()| finish(&temporary));
    // After a rename it is gone, and that is fine.
    let _ = fs::remove_file(&temporary);
    done
}

fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let random: [u8; 8] = random::bytes().map_err(io::Error::other)?;
    let name = path.file_name().ok_or_else(|| io::Error::other("has no name"))?;
    let number = u64::from_ne_bytes(random);
    let mut name = name.to_os_string();
    name.push(format!(".{number:016x}.tmp"));
    Ok(path.with_file_name(name))
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

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_never_takes_the_place_of_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        create(&path, "one").unwrap();
        assert_eq!(create(&path, "two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_replaced_keeps_its_permissions_and_its_link() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(folder.path()), ["file", "link"]);
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "theirs").unwrap();
        replace_unchanged(&path, "as it was", "ours").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        replace_unchanged(&path, "theirs", "ours").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_to_nowhere_and_a_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        replace(&link, "new").unwrap_err();
        replace(folder.path(), "new").unwrap_err();
        assert_eq!(names(folder.path()), ["link"]);
    }
}
