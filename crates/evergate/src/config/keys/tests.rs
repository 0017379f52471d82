use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::page::page;
use super::table::TABLE;
use super::*;
use crate::config::reader::Notes;
use crate::config::{Document, digest, read_noting};

/// A document in which every section is present, so that every key is looked up. Both kinds of a server are needed.
fn everything() -> Value {
    let tools = json!({ "overrides": { "a*": {} } });
    let lifecycle = json!({ "backoff": {}, "cooldown": {}, "rate_limit": {} });
    json!({
        "mcpServers": { "a": { "command": "x", "tools": tools, "lifecycle": lifecycle } },
        "gateway": {
            "auth": { "keys": [{}] },
            "session_key": { "file": "/none" },
            "otlp": {},
            "audit": {},
        },
    })
}

fn notes(value: Value) -> Notes {
    let mut notes = Notes::default();
    let document = Document { name: "x".into(), folder: PathBuf::from("/none"), value };
    read_noting(&[document], &|_| None, &mut notes);
    notes
}

#[test]
fn the_reader_asks_for_exactly_the_keys_of_the_table() {
    let asked = notes(everything()).asked;
    let listed: BTreeSet<String> =
        TABLE.iter().filter(|key| !key.is_nameless()).map(|key| key.path.to_owned()).collect();
    assert_eq!(asked, listed);
}

#[test]
fn every_key_is_in_the_table_once_and_its_parent_too() {
    let mut paths = BTreeSet::new();
    for key in TABLE {
        assert!(paths.insert(key.path), "{} is there twice", key.path);
        assert!(key.parent().is_empty() || paths.contains(key.parent()), "{}", key.path);
        assert!(!key.about.ends_with('.') && !key.about.is_empty(), "{}", key.path);
    }
}

/// Puts a value at the place that a path of the table names.
fn at(path: &str, value: Value) -> Value {
    let mut document = value;
    for part in path.split('.').rev() {
        document = match part.strip_suffix("[]") {
            Some(list) => json!({ list: [document] }),
            None if part == "*" => json!({ "a": document }),
            None => json!({ part: document }),
        };
    }
    if path.starts_with("gateway") {
        document["mcpServers"] = json!({});
    } else {
        let entry = &mut document["mcpServers"]["a"];
        let remote = ["headers_from_client", "bearer_token_file", "headers", "type", "transport"];
        let remote = remote
            .iter()
            .any(|key| entry.get(key).is_some_and(|kind| kind != "stdio" && kind != "local"));
        if ["command", "url", "httpUrl"].iter().all(|key| entry.get(key).is_none()) {
            entry[if remote { "url" } else { "command" }] = json!("http://h/");
        }
    }
    document
}

fn errors(path: &str, value: Value) -> Vec<String> {
    let about = |finding: &crate::config::Finding| {
        let own = path.replace(".*", ".a").replace("[]", "[0]");
        finding.severity == crate::config::Severity::Error && finding.path.starts_with(&own)
    };
    let findings = notes(at(path, value)).findings;
    findings.iter().filter(|finding| about(finding)).map(ToString::to_string).collect()
}

/// What the table calls right is taken, its defaults included, and what it calls wrong is an error at its place.
#[test]
fn the_table_tells_the_truth_about_values() {
    for key in TABLE.iter().filter(|key| !key.is_nameless() && key.path.contains('.')) {
        let mut good: Vec<Value> = match key.kind {
            Kind::Choice(words) => words.iter().map(|word| json!(word)).collect(),
            Kind::Choices(words) => vec![json!(words), json!([words[0]])],
            Kind::Flag => vec![json!(true), json!(false)],
            Kind::Integer | Kind::Count => vec![json!(7)],
            Kind::Number => vec![json!(1), json!(1.0)],
            Kind::Duration => vec![json!("2h")],
            Kind::DurationOrNumber => vec![json!("2h"), json!(30), json!(30_000)],
            Kind::DurationOrNever => vec![json!("2h"), json!("never")],
            Kind::Rate => vec![json!("60/1m")],
            Kind::Size => vec![json!(7), json!("7KiB")],
            Kind::Texts | Kind::Patterns if key.name() == "allowed_origins" => {
                vec![json!(["http://a.b"])]
            }
            Kind::Texts | Kind::Patterns => vec![json!(["a"])],
            Kind::Pairs => vec![json!({ "a": "b", "c": 1 })],
            _ => Vec::new(),
        };
        if !key.default.is_empty() {
            good.push(serde_json::from_str(key.default).unwrap_or_else(|_| json!(key.default)));
        }
        for value in good {
            assert_eq!(errors(key.path, value.clone()), [""; 0], "{} = {value}", key.path);
        }
        if key.kind != Kind::Ignored {
            let wrong = if matches!(key.kind, Kind::Number | Kind::Integer | Kind::Count) {
                json!("x")
            } else if matches!(key.kind, Kind::Duration | Kind::DurationOrNever) {
                json!(30)
            } else {
                json!(-3)
            };
            assert!(!errors(key.path, wrong).is_empty(), "{} takes anything", key.path);
        }
    }
}

/// Writing the default changes nothing. What the runtime keeps to itself cannot be compared here.
#[test]
fn the_table_tells_the_truth_about_defaults() {
    let read = |value: Value| {
        let document = Document { name: "x".into(), folder: PathBuf::from("/none"), value };
        let (gateway, servers) = read_noting(&[document], &|_| None, &mut Notes::default());
        let server = servers.get("a").map(|server| {
            (server.settings.clone(), server.disabled, server.required, server.isolation)
        });
        format!("{gateway:?} {server:?}")
    };
    for key in TABLE.iter().filter(|key| !key.default.is_empty()) {
        let default = serde_json::from_str(key.default).unwrap_or_else(|_| json!(key.default));
        let mut without = at(key.path, default);
        let with = read(without.clone());
        let pointer =
            format!("/{}", key.parent().replace("[]", "/0").replace('.', "/").replace('*', "a"));
        without.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(key.name());
        assert_eq!(with, read(without), "{} is not {} by default", key.path, key.default);
    }
}

/// A key that is read but in neither list would be forgotten by a reload, or would needlessly reconnect.
#[test]
fn every_key_of_a_server_concerns_its_connection_or_does_not() {
    let not_concerned = [
        "headers_from_client",
        "disabled",
        "enabled",
        "required",
        "isolation",
        "tools",
        "includeTools",
        "excludeTools",
        "disabledTools",
        "autoApprove",
        "alwaysAllow",
        "description",
        "icon",
    ];
    let listed: BTreeSet<&str> =
        TABLE.iter().filter(|key| key.parent() == "mcpServers.*").map(KeyDoc::name).collect();
    let classified: BTreeSet<&str> =
        digest::CONNECTION.iter().copied().chain(not_concerned).collect();
    assert_eq!(listed, classified);
}

#[test]
fn the_committed_schema_and_reference_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let schema = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    let stale = "; write it again with\nUPDATE_REFERENCE=1 cargo test -p evergate up_to_date";
    for (name, expected) in [("evergate.schema.json", schema), ("config.md", page())] {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, expected).unwrap();
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == expected, "{name} is not what the table says{stale}");
    }
}

#[test]
fn the_help_fits_a_screen_and_names_every_key() {
    let help = help();
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for key in TABLE.iter().filter(|key| !key.is_nameless() && key.kind != Kind::Ignored) {
        assert!(help.contains(&format!("\n  {} ", key.name())), "{}", key.path);
    }
}
