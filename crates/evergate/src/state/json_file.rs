//! Files of one JSON object with a `version`. Losing one is a pity, never a reason not to start.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::private_file;

/// A file of another version was written by another release, and says things this one does not know.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    content: &'a T,
}

/// What is in the file; `None` if there is none, or none that can be read.
pub(super) fn load<T: DeserializeOwned>(path: &Path) -> Option<T> {
    match read(path) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot use what was remembered, starting without it");
            None
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let text = fs::read(path)?;
    let Version { version } = serde_json::from_slice(&text)?;
    if version != VERSION {
        return Err(io::Error::other(format!("its version is {version}, not {VERSION}")));
    }
    Ok(serde_json::from_slice(&text)?)
}

/// Writes the file, all of it or nothing.
pub(super) fn save<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    let text = serde_json::to_vec(&Versioned { version: VERSION, content })?;
    private_file::replace(path, &text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Content {
        numbers: BTreeMap<String, u64>,
    }

    fn load_text(text: &[u8]) -> Option<Content> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        fs::write(&path, text).unwrap();
        load(&path)
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        let content = Content { numbers: BTreeMap::from([("a".into(), 1)]) };
        save(&path, &content).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"version":1,"numbers":{"a":1}}"#);
        assert_eq!(load(&path), Some(content));
    }

    #[test]
    fn what_cannot_be_used_is_left_alone() {
        let whole = br#"{"version":1,"numbers":{"a":1}}"#;
        assert!(load_text(whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(load_text(&whole[..end]), None, "cut at {end}");
        }
        assert_eq!(load_text(br#"{"version":2,"numbers":{"a":1}}"#), None);
        assert_eq!(load_text(br#"{"numbers":{"a":1}}"#), None);
        assert_eq!(load_text(b"\xff\0"), None);
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load::<Content>(&dir.path().join("missing.json")), None);
        assert_eq!(load::<Content>(dir.path()), None, "a directory");
    }
}
