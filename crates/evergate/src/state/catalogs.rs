//! `catalogs.json`: what each server offered when last seen, so that a restarted gateway has no empty lists to show.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use evergate_runtime::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json_file;

/// By server name: a digest of how the server is reached, and its catalog. A catalog counts only as long as the server is
/// reached in the same way.
pub(crate) type StoredCatalogs = BTreeMap<String, (String, RawJson)>;

pub(super) const FILE: &str = "catalogs.json";

#[derive(Serialize)]
struct Written<'a> {
    servers: BTreeMap<&'a str, WrittenServer<'a>>,
}

#[derive(Serialize)]
struct WrittenServer<'a> {
    connection: &'a str,
    catalog: &'a RawJson,
}

#[derive(Deserialize)]
struct Read {
    servers: BTreeMap<String, ReadServer>,
}

#[derive(Deserialize)]
struct ReadServer {
    connection: String,
    catalog: Box<RawValue>,
}

pub(super) fn load(path: &Path) -> StoredCatalogs {
    let Some(Read { servers }) = json_file::load(path) else { return StoredCatalogs::new() };
    let entry = |(name, server): (String, ReadServer)| {
        let catalog = RawJson::from_text(String::from(Box::<str>::from(server.catalog))).ok()?;
        Some((name, (server.connection, catalog)))
    };
    servers.into_iter().filter_map(entry).collect()
}

pub(super) fn save(path: &Path, catalogs: &StoredCatalogs) -> io::Result<()> {
    let servers = catalogs
        .iter()
        .map(|(name, (connection, catalog))| (name.as_str(), WrittenServer { connection, catalog }))
        .collect();
    json_file::save(path, &Written { servers })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::state::StateDir;

    use super::*;

    #[test]
    fn catalogs_come_back_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert!(state.load_catalogs().is_empty());
        let text = r#"{"z": 1, "a":18446744073709551617, "tools":[{"name":"\u0061"}]}"#;
        let catalog = RawJson::from_text(text).unwrap();
        let catalogs = StoredCatalogs::from([
            ("b".to_owned(), ("digest".to_owned(), catalog)),
            ("a \"quoted\"".to_owned(), (String::new(), RawJson::empty_object())),
        ]);
        state.save_catalogs(&catalogs).unwrap();
        assert_eq!(state.load_catalogs(), catalogs);
        let written = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(written.contains(text), "{written}");
        assert!(written.starts_with(r#"{"version":1,"servers":{"#), "{written}");
    }

    #[test]
    fn a_damaged_file_is_no_catalog_and_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        for damaged in ["", "{", r#"{"version":1,"servers":{"a":{"connection":7}}}"#] {
            fs::write(dir.path().join(FILE), damaged).unwrap();
            assert!(state.load_catalogs().is_empty());
        }
        let catalogs =
            StoredCatalogs::from([("a".to_owned(), ("d".to_owned(), RawJson::empty_object()))]);
        state.save_catalogs(&catalogs).unwrap();
        assert_eq!(state.load_catalogs(), catalogs);
    }
}
