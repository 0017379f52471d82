//! `check`, `tools` and `call` with real files and real servers.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{evergate, stderr, stdout};

fn file(name: &str, text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

/// One server that works, and one that is not there.
fn two_servers() -> (TempDir, String) {
    let demo = json!({ "command": env!("CARGO_BIN_EXE_evergate"), "args": ["demo-server"] });
    let gone = json!({ "command": "/no/such/command" });
    file("mcp.json", &json!({ "mcpServers": { "demo": demo, "gone": gone } }).to_string())
}

#[test]
fn check_says_what_would_happen() {
    let text = r#"
[mcpServers.docs]
url = "https://docs.example/mcp?key=hunter2"
timeout = 30

[mcpServers.files]
command = "npx"
args = ["-y", "server"]
disabled = true

[mcpServers.search]
command = "search"
env = { KEY = "${EVERGATE_TEST_IS_NOT_SET}" }
"#;
    let (_folder, path) = file("mcp.toml", text);
    let output = evergate(&["check", "--config", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
}

/// The help names every key that the reader knows, and the reader knows every key that the help names.
#[test]
fn the_help_of_check_names_the_keys_that_work() {
    let help = stdout(&evergate(&["check", "--help"]));
    let lifecycle = json!({
        "profile": "strict", "restart": "never", "max_attempts": -1, "on_exhausted": "fail", "hold": "1s",
        "connect_timeout": "1s", "close_timeout": "1s", "list_timeout": "1s", "max_timeout": "2h",
        "stable_after": "1s", "backoff": { "initial": "1s", "max": "2s", "multiplier": 2, "jitter": 0 },
    });
    let common = json!({
        "disabled": false, "enabled": true, "required": true, "timeout": "45s", "replay": "safe",
        "lifecycle": lifecycle,
    });
    let mut child = json!({ "command": "x", "args": [], "env": {}, "cwd": "/" });
    let mut remote = json!({ "url": "http://h/", "headers": {}, "type": "http" });
    for entry in [&mut child, &mut remote] {
        entry.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
    }
    let backoff = &lifecycle["backoff"];
    for keys in [&child, &remote, &lifecycle, backoff] {
        for key in keys.as_object().unwrap().keys() {
            assert!(help.contains(key), "{key} is not in the help");
        }
    }
    let servers = json!({ "mcpServers": { "child": child, "remote": remote } });
    let (_folder, path) = file("mcp.json", &servers.to_string());
    let output = evergate(&["check", "--config", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(!stdout(&output).contains("not a key"), "{}", stdout(&output));
}

#[test]
fn a_bad_file_is_64_and_names_every_problem() {
    let (_folder, path) = file("mcp.json", r#"{ "mcpServers": { "a": {}, "b": { "url": "x" } } }"#);
    for command in [vec!["check"], vec!["tools"], vec!["call", "a", "t"]] {
        let output = evergate(&[&command[..], &["--config", &path]].concat());
        assert_eq!(output.status.code(), Some(64), "{command:?}");
        let shown = stdout(&output) + &stderr(&output);
        assert!(
            shown.contains("mcpServers.a: has neither") && shown.contains("mcpServers.b.url"),
            "{shown}"
        );
    }
    let (_folder, path) = file("mcp.json", "{ not json");
    let output = evergate(&["check", "--config", &path]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("is not valid JSON: key must be a string at line 1 column 3"));
    let missing = Path::new("/no/such/file.json").display().to_string();
    let output = evergate(&["check", "--config", &missing]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("cannot read /no/such/file.json"));
}

#[test]
fn tools_lists_what_can_be_reached_and_reports_the_rest() {
    let (_folder, path) = two_servers();
    let one = evergate(&["tools", "--config", &path, "demo"]);
    assert_eq!(one.status.code(), Some(0), "{}", stderr(&one));
    assert!(
        stdout(&one).lines().any(|line| line.starts_with("demo             echo")),
        "{}",
        stdout(&one)
    );
    let all = evergate(&["tools", "--config", &path, "--json"]);
    assert_eq!(all.status.code(), Some(69));
    assert!(
        stderr(&all).contains("gone: permanently_failed (command_not_found)"),
        "{}",
        stderr(&all)
    );
    let first: Value = serde_json::from_str(stdout(&all).lines().next().unwrap()).unwrap();
    assert_eq!((&first["server"], first["tool"]["name"].is_string()), (&json!("demo"), true));
}

#[test]
fn call_prints_the_text_or_the_whole_result() {
    let (_folder, path) = two_servers();
    let call = |more: &[&str]| evergate(&[&["call", "--config", &path], more].concat());
    let text = call(&["demo", "echo", r#"{"text":"hello"}"#]);
    assert_eq!(
        (text.status.code(), stdout(&text).as_str()),
        (Some(0), "hello\n"),
        "{}",
        stderr(&text)
    );
    let raw = call(&["demo", "echo", r#"{"text":"hello"}"#, "--json"]);
    assert!(serde_json::from_str::<Value>(&stdout(&raw)).unwrap()["content"].is_array());
    let refused = call(&["demo", "no_such_tool"]);
    assert_eq!(refused.status.code(), Some(69));
    assert!(stderr(&refused).contains("[answered]"), "{}", stderr(&refused));
    let down = call(&["gone", "echo"]);
    assert_eq!(down.status.code(), Some(69));
    assert!(stderr(&down).contains("command_not_found") && stderr(&down).contains("[not_sent]"));
    let unknown = call(&["nobody", "echo"]);
    assert_eq!(unknown.status.code(), Some(64));
    assert!(stderr(&unknown).contains("there are: demo, gone"));
    let bad = call(&["demo", "echo", "{"]);
    assert_eq!(bad.status.code(), Some(64));
}
