//! What a client brings back from round to round, so that it cannot be changed on the way.
//!
//! The seal is a keyed hash that only this process can make. It is no cryptography, and good enough for a server that
//! protects nothing.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Seals what was answered so far, for the fixture `of` only.
pub(super) fn seal(of: &str, answered: &[Value]) -> String {
    let text = Value::from(answered).to_string();
    format!("{}.{:016x}", URL_SAFE_NO_PAD.encode(&text), KEY.hash_one((of, &text)))
}

/// What was sealed; `None` if it was not sealed here, for this fixture, exactly so.
pub(super) fn open(of: &str, state: &str) -> Option<Vec<Value>> {
    let (text, seal) = state.split_once('.')?;
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let right = seal == format!("{:016x}", KEY.hash_one((of, &text)));
    right.then(|| serde_json::from_str(&text).ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_sealed_here_is_opened() {
        let answered = vec![json!({ "step1": { "action": "accept" } })];
        let state = seal("tool", &answered);
        assert_eq!(open("tool", &state), Some(answered));
        for forged in [format!("{state}-TAMPERED"), state.replacen('.', "", 1), String::new()] {
            assert_eq!(open("tool", &forged), None, "{forged}");
        }
        assert_eq!(open("another tool", &state), None);
        assert_ne!(seal("tool", &[]), state);
    }
}
