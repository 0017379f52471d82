//! `sessions.json`: what a sealed session id cannot say, because it changes or must outlive the session.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::gateway::client::Uid;
use crate::hex::hex;

pub(super) const FILE: &str = "sessions.json";

/// All sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredSessions {
    /// Those that live.
    pub(crate) sessions: BTreeMap<StoredUid, StoredSession>,
    /// Those that were ended, and when, in seconds of Unix time, their ids would have expired anyway.
    pub(crate) ended: BTreeMap<StoredUid, u64>,
}

/// The key of a session: as small as can be here, since a great many that were ended are remembered, and as text in the
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoredUid(pub(crate) Uid);

/// What a client did in its session that has to be done again after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    /// When it was last used, in seconds of Unix time.
    pub(crate) last_seen: u64,
    /// The log level it asked for.
    #[serde(default)]
    pub(crate) level: Option<String>,
    /// The resources it wants to hear of: server and URI.
    #[serde(default)]
    pub(crate) subscriptions: Vec<(String, String)>,
}

// === impl StoredUid ===

impl Serialize for StoredUid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&uid_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for StoredUid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = (text.len() == 32).then(|| u128::from_str_radix(&text, 16).ok()).flatten();
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or_else(|| D::Error::custom("not a session's key"))
    }
}

/// A session's key as text.
pub(crate) fn uid_hex(uid: &[u8; 16]) -> String {
    hex(uid)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::state::StateDir;

    use super::*;

    fn some() -> StoredSessions {
        let session = StoredSession {
            last_seen: 1_760_000_000,
            level: Some("info".into()),
            subscriptions: vec![("files".into(), "file:///a".into())],
        };
        StoredSessions {
            sessions: BTreeMap::from([
                (StoredUid([0xab; 16]), session),
                (StoredUid([1; 16]), StoredSession { last_seen: 1, ..StoredSession::default() }),
            ]),
            ended: BTreeMap::from([(StoredUid([2; 16]), 1_760_000_001)]),
        }
    }

    #[test]
    fn sessions_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.load_sessions(), StoredSessions::default());
        state.save_sessions(&some()).unwrap();
        assert_eq!(state.load_sessions(), some());
    }

    /// A gateway that is updated reads what the one before it wrote.
    #[test]
    fn the_file_looks_like_this() {
        let dir = tempfile::tempdir().unwrap();
        StateDir::open(dir.path()).unwrap().save_sessions(&some()).unwrap();
        assert_eq!(
            fs::read_to_string(dir.path().join(FILE)).unwrap(),
            concat!(
                r#"{"version":1,"sessions":{"#,
                r#""01010101010101010101010101010101":{"last_seen":1,"level":null,"subscriptions":[]},"#,
                r#""abababababababababababababababab":{"last_seen":1760000000,"level":"info","#,
                r#""subscriptions":[["files","file:///a"]]}},"#,
                r#""ended":{"02020202020202020202020202020202":1760000001}}"#
            )
        );
    }

    #[test]
    fn a_damaged_file_is_no_session() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let key = r#"{"version":1,"sessions":{},"ended":{"02":1}}"#;
        for damaged in [key, "", "[]", "{\"version\":1,\"sessions\":[]}", "{\"version\":9}"] {
            fs::write(dir.path().join(FILE), damaged).unwrap();
            assert_eq!(state.load_sessions(), StoredSessions::default(), "{damaged}");
        }
    }
}
