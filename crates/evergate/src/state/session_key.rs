//! `session.key`: one key per line, the first seals and all open. To rotate, put a new line above the old one.

use std::fs;
use std::io;
use std::path::Path;

use super::private_file;
use crate::hex::hex;
use crate::random;

/// As many as the cipher's key has.
const KEY_BYTES: usize = 32;

pub(super) fn read_or_create(path: &Path) -> io::Result<Vec<String>> {
    if !path.try_exists().map_err(|error| at(path, &error))? {
        let key: [u8; KEY_BYTES] = random::bytes().map_err(io::Error::other)?;
        private_file::create_once(path, format!("{}\n", hex(&key)).as_bytes())
            .map_err(|error| at(path, &error))?;
    }
    // Also after making one: another process may have been faster, and both must use the same.
    refuse_if_others_can_read(path)?;
    let text = fs::read_to_string(path).map_err(|error| at(path, &error))?;
    let is_key = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let keys: Vec<String> = text.lines().map(str::trim).filter(is_key).map(str::to_owned).collect();
    if keys.is_empty() {
        let what = format!("{} holds no key: remove it to have one made", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(keys)
}

#[cfg(unix)]
fn refuse_if_others_can_read(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = fs::metadata(path).map_err(|error| at(path, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        let what =
            format!("{path} is open to other users, who could forge sessions: chmod 600 {path}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
fn refuse_if_others_can_read(_: &Path) -> io::Result<()> {
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot use {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn write(path: &Path, text: &str) {
        private_file::replace(path, text.as_bytes()).unwrap();
    }

    #[test]
    fn a_key_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.key");
        let made = read_or_create(&path).unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].len(), 64);
        assert!(made[0].bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(read_or_create(&path).unwrap(), made);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(read_or_create(&other.path().join("session.key")).unwrap(), made);
    }

    #[test]
    fn all_who_start_at_once_have_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = dir.path().join(format!("{round}.key"));
            let together = Barrier::new(8);
            let keys: Vec<_> = thread::scope(|scope| {
                let start = || {
                    together.wait();
                    read_or_create(&path).unwrap()
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]), "round {round}");
        }
    }

    #[test]
    fn lines_are_keys_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.key");
        write(&path, "# rotated in May\n\n  new key \r\n\t\n#old\nold key");
        assert_eq!(read_or_create(&path).unwrap(), ["new key", "old key"]);
    }

    #[test]
    fn a_file_without_keys_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.key");
        write(&path, "# nothing\n");
        let error = read_or_create(&path).unwrap_err();
        assert!(error.to_string().contains("holds no key"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "# nothing\n");
    }

    #[test]
    #[cfg(unix)]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.key");
        write(&path, "the key of the gateway\n");
        for mode in [0o640, 0o604, 0o666, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = read_or_create(&path).unwrap_err();
            assert!(error.to_string().contains("chmod 600"), "{error}");
            assert!(!error.to_string().contains("of the gateway"), "{error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(read_or_create(&path).unwrap(), ["the key of the gateway"]);
    }

    #[test]
    fn errors_name_the_file() {
        let path = Path::new("/nowhere/at/all/session.key");
        let error = read_or_create(path).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all/session.key"), "{error}");
    }
}
