use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

const OLD: &str = "an old key of the gateway";
const NEW: &str = "a new key of the gateway";

fn keys(texts: &[&str]) -> SessionKeys {
    SessionKeys::new(texts).unwrap()
}

fn raw(text: &'static str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

fn facts() -> SessionFacts {
    SessionFacts {
        uid: SessionFacts::new_uid(),
        created: 1_760_000_000,
        caller: Some("alice".into()),
        scope: Some("files".into()),
        version: "2025-11-25".into(),
        capabilities: raw(r#"{"roots":{"listChanged":true}, "x": 18446744073709551617}"#),
        client_info: raw(r#"{"name":"inspector","version":"1.0","title":"ä"}"#),
    }
}

fn object(json: &RawJson) -> Value {
    json.parse().unwrap()
}

#[test]
fn what_was_sealed_is_opened() {
    let keys = keys(&[NEW]);
    let all = facts();
    assert_eq!(keys.open(&keys.seal(&all).unwrap()), Some(all));
    let few = SessionFacts { caller: None, scope: None, capabilities: raw("{}"), ..facts() };
    assert_eq!(keys.open(&keys.seal(&few).unwrap()), Some(few));
}

#[test]
fn every_uid_survives() {
    let keys = keys(&[NEW]);
    for uid in [[0; 16], [0xff; 16], *b"\0\x01some bytes\xfe\xff\x80\0"] {
        let facts = SessionFacts { uid, ..facts() };
        assert_eq!(keys.open(&keys.seal(&facts).unwrap()).unwrap().uid, uid);
    }
}

#[test]
fn an_id_is_visible_ascii_and_says_nothing() {
    let keys = keys(&[NEW]);
    let facts = facts();
    let (one, two) = (keys.seal(&facts).unwrap(), keys.seal(&facts).unwrap());
    assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    assert_ne!(one, two, "nonces are random");
    let bytes = URL_SAFE_NO_PAD.decode(&one).unwrap();
    assert!(!bytes.windows(5).any(|window| window == b"alice" || window == b"files"));
}

#[test]
fn no_byte_can_be_changed() {
    let keys = keys(&[NEW]);
    let id = keys.seal(&facts()).unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(&id).unwrap();
    for at in 0..bytes.len() {
        let mut tampered = bytes.clone();
        tampered[at] ^= 1;
        assert_eq!(keys.open(&URL_SAFE_NO_PAD.encode(tampered)), None, "byte {at}");
    }
    for at in 0..id.len() {
        let other = if id.as_bytes()[at] == b'A' { "B" } else { "A" };
        let mut tampered = id.clone();
        tampered.replace_range(at..=at, other);
        assert_eq!(keys.open(&tampered), None, "character {at}");
    }
}

#[test]
fn nothing_can_be_cut_off_or_added() {
    let keys = keys(&[NEW]);
    let id = keys.seal(&facts()).unwrap();
    for end in 0..id.len() {
        assert_eq!(keys.open(&id[..end]), None, "the first {end}");
        assert_eq!(keys.open(&id[id.len() - end..]), None, "the last {end}");
    }
    for more in ["A", "AAAA", "=", " ", "\n", "ä"] {
        assert_eq!(keys.open(&format!("{id}{more}")), None);
        assert_eq!(keys.open(&format!("{more}{id}")), None);
    }
}

#[test]
fn garbage_is_not_ours() {
    let keys = keys(&[NEW]);
    let huge = "A".repeat(10_000_000);
    for id in ["", "x", "AQ", "../../etc/passwd", "\0", "ä", &"A".repeat(2048), &huge] {
        assert_eq!(keys.open(id), None);
    }
}

#[test]
fn an_old_key_still_opens_and_a_foreign_one_does_not() {
    let before = keys(&[OLD]);
    let facts = facts();
    let id = before.seal(&facts).unwrap();
    let after = keys(&[NEW, OLD]);
    assert_eq!(after.open(&id), Some(facts.clone()));
    assert_eq!(keys(&[NEW]).open(&id), None);
    let renewed = after.seal(&facts).unwrap();
    assert_eq!(keys(&[NEW]).open(&renewed), Some(facts), "the first key seals");
    assert_eq!(before.open(&renewed), None);
}

#[test]
fn bad_keys_are_named() {
    assert_eq!(SessionKeys::new(&[] as &[&str]).unwrap_err(), BadKey::None);
    let short = SessionKeys::new(&[NEW, "   too short    "]).unwrap_err();
    assert_eq!(short, BadKey::TooShort { position: 2 });
    assert_eq!(short.to_string(), "session key 2 has less than 16 characters");
}

#[test]
fn white_space_around_a_key_does_not_count() {
    let facts = facts();
    let id = keys(&[NEW]).seal(&facts).unwrap();
    assert_eq!(keys(&[&format!(" {NEW}\n")]).open(&id), Some(facts));
}

#[test]
fn keys_do_not_print() {
    assert_eq!(format!("{:?}", keys(&[NEW, OLD])), "SessionKeys(2)");
}

#[test]
fn uids_differ() {
    let uids: HashSet<_> = (0..1000).map(|_| SessionFacts::new_uid()).collect();
    assert_eq!(uids.len(), 1000);
}

#[test]
fn a_talkative_client_keeps_its_capabilities() {
    let keys = keys(&[NEW]);
    let client_info = json!({
        "name": "n".repeat(500),
        "version": "1.2.3",
        "icons": [{ "src": "x".repeat(5000) }],
    });
    let facts = SessionFacts { client_info: client_info.into(), ..facts() };
    let id = keys.seal(&facts).unwrap();
    assert!(id.len() <= 2048);
    let opened = keys.open(&id).unwrap();
    assert_eq!(opened.capabilities, facts.capabilities);
    assert_eq!(object(&opened.client_info), json!({ "name": "n".repeat(100), "version": "1.2.3" }));
    assert_eq!((opened.uid, opened.caller), (facts.uid, facts.caller));
}

#[test]
fn large_capabilities_keep_what_servers_ask_for() {
    let keys = keys(&[NEW]);
    let capabilities = json!({
        "experimental": { "x": "x".repeat(5000) },
        "sampling": { "tools": {} },
        "elicitation": { "form": {}, "url": {} },
        "tasks": { "padding": "x".repeat(5000) },
        "roots": null,
    });
    let facts = SessionFacts { capabilities: capabilities.into(), ..facts() };
    let id = keys.seal(&facts).unwrap();
    assert!(id.len() <= 2048);
    assert_eq!(
        object(&keys.open(&id).unwrap().capabilities),
        json!({ "sampling": { "tools": {} }, "elicitation": { "form": {}, "url": {} }, "tasks": {} })
    );
}

#[test]
fn an_id_is_as_long_as_allowed_and_no_longer() {
    let keys = keys(&[NEW]);
    let longest = |padding: usize| {
        let client_info = json!({ "name": "c", "version": "1", "padding": "x".repeat(padding) });
        keys.seal(&SessionFacts { client_info: client_info.into(), ..facts() }).unwrap().len()
    };
    let lengths: Vec<usize> = (1000..1600).map(longest).collect();
    assert!(lengths.iter().all(|length| *length <= 2048));
    assert!(lengths.iter().any(|length| *length > 2000), "nothing is reduced too early");
}

#[test]
fn names_of_our_own_that_do_not_fit_are_an_error() {
    let facts = SessionFacts { caller: Some("c".repeat(2000)), ..facts() };
    assert_eq!(keys(&[NEW]).seal(&facts), Err(CannotSeal::TooLarge));
}

#[test]
fn nonsense_instead_of_objects_is_survived() {
    let keys = keys(&[NEW]);
    let nonsense: RawJson = json!(["x".repeat(5000)]).into();
    let facts = SessionFacts { capabilities: nonsense.clone(), client_info: nonsense, ..facts() };
    let opened = keys.open(&keys.seal(&facts).unwrap()).unwrap();
    assert_eq!(object(&opened.capabilities), json!({}));
    assert_eq!(object(&opened.client_info), json!({ "name": "", "version": "" }));
}

proptest! {
    #[test]
    fn any_text_is_refused_without_panic(id in ".{0,300}") {
        prop_assert_eq!(keys(&[NEW]).open(&id), None);
    }

    #[test]
    fn any_bytes_are_refused_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Some(first) = bytes.first_mut() {
            *first = FORMAT;
        }
        prop_assert_eq!(keys(&[NEW]).open(&URL_SAFE_NO_PAD.encode(bytes)), None);
    }
}
