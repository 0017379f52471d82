//! Making a session fit into its id.
//!
//! A client that describes itself at length is still served. Who it is matters least, so that goes first; then the
//! capabilities nobody here acts on; last the details of those that matter.

use std::collections::BTreeMap;

use evergate_runtime::RawJson;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::SessionFacts;

/// What servers ask of clients, the most used first.
const KNOWN_CAPABILITIES: [&str; 4] = ["elicitation", "sampling", "roots", "tasks"];
/// Longer names and versions are cut.
const MAX_NAME_CHARS: usize = 100;
const MAX_VERSION_CHARS: usize = 40;

/// The text of the facts in at most `limit` bytes.
pub(super) fn smaller(facts: &SessionFacts, limit: usize) -> Option<Vec<u8>> {
    let fits = |capabilities: &RawJson, client_info: &RawJson| {
        facts.write(capabilities, client_info).filter(|text| text.len() <= limit)
    };
    if let Some(whole) = fits(&facts.capabilities, &facts.client_info) {
        return Some(whole);
    }
    let client_info = short_info(&facts.client_info);
    if let Some(text) = fits(&facts.capabilities, &client_info) {
        return Some(text);
    }
    let known = known_capabilities(&facts.capabilities);
    let mut kept: Map<String, Value> =
        known.keys().map(|key| ((*key).to_owned(), Value::Object(Map::new()))).collect();
    let mut best = fits(&Value::Object(kept.clone()).into(), &client_info)?;
    for key in KNOWN_CAPABILITIES {
        let Some(details) = known.get(key) else { continue };
        let mut more = kept.clone();
        more.insert(key.to_owned(), details.clone());
        if let Some(text) = fits(&Value::Object(more.clone()).into(), &client_info) {
            (kept, best) = (more, text);
        }
    }
    Some(best)
}

/// The name and the version, cut.
fn short_info(client_info: &RawJson) -> RawJson {
    let info: Map<String, Value> = client_info.parse().unwrap_or_default();
    let cut = |key, chars| -> String {
        let text = info.get(key).and_then(Value::as_str).unwrap_or_default();
        text.chars().take(chars).collect()
    };
    let short = json!({
        "name": cut("name", MAX_NAME_CHARS),
        "version": cut("version", MAX_VERSION_CHARS),
    });
    short.into()
}

/// The capabilities a server may ask for, as far as the client has them.
fn known_capabilities(capabilities: &RawJson) -> BTreeMap<&'static str, Value> {
    let all: BTreeMap<String, &RawValue> =
        serde_json::from_slice(capabilities.as_bytes()).unwrap_or_default();
    KNOWN_CAPABILITIES
        .into_iter()
        .filter_map(|key| Some((key, serde_json::from_str(all.get(key)?.get()).ok()?)))
        .filter(|(_, details): &(_, Value)| details.is_object())
        .collect()
}
