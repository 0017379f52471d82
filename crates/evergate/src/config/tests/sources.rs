//! Several files, and standard input.

use std::path::Path;

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn sources(folder: &Path, names: &[&str], stdin: Option<&str>) -> Sources {
    let files = names.iter().map(|name| folder.join(name)).collect();
    Sources { files, stdin: stdin.map(str::to_owned) }
}

#[test]
fn files_and_standard_input_are_one_configuration() {
    let folder = folder(&[
        ("a.json", r#"{ "mcpServers": { "a": { "command": "x" }, } } // Claude's"#),
        ("b.TOML", "[mcpServers.b]\nurl = 'http://h/'\nbearer_token_file = 'token'"),
        ("token", "x"),
    ]);
    let stdin = "[gateway]\nseparator = '_'";
    let config =
        sources(folder.path(), &["a.json", "b.TOML"], Some(stdin)).load(&environment).unwrap();
    assert_eq!(config.findings, []);
    assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(config.servers["b"].bearer_token_file, Some(folder.path().join("token")));
    assert_eq!(config.gateway.separator, "_");
}

#[test]
fn nothing_may_be_said_twice() {
    let both = r#"{ "mcpServers": { "a": { "command": "x" } }, "gateway": {}, "x": 1 }"#;
    let folder = folder(&[("a.json", both), ("b.json", both)]);
    let config =
        sources(folder.path(), &["a.json", "b.json"], Some(both)).load(&environment).unwrap();
    let said: Vec<String> = config.findings.iter().map(ToString::to_string).collect();
    let said = said.join("\n").replace(&format!("{}/", folder.path().display()), "");
    insta::assert_snapshot!(said, @"
    error: b.json: gateway: is in a.json too
    error: standard input: gateway: is in a.json too
    warning: a.json: x: is not a key that is known here
    error: b.json: mcpServers.a: is in a.json too
    warning: b.json: x: is not a key that is known here
    error: standard input: mcpServers.a: is in a.json too
    warning: standard input: x: is not a key that is known here
    ");
}

#[test]
fn what_cannot_be_parsed_names_its_place_but_shows_nothing_of_it() {
    let folder =
        folder(&[("a.toml", "[gateway]\nsession_key = 'hunter2"), ("a.json", "{\n\"k\": hunter2")]);
    let error = |names: &[&str], stdin| {
        let error =
            sources(folder.path(), names, stdin).load(&environment).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        error.replace(&format!("{}/", folder.path().display()), "")
    };
    insta::assert_snapshot!(
        [
            error(&["a.toml"], None),
            error(&["a.json"], None),
            error(&["none.json"], None),
            error(&[], Some("{ \"a\": 1")),
            error(&[], Some("[a]\nb")),
            error(
                &[],
                Some("{ \"mcpServers\": {\n\"a\": {}, \"a\": { \"command\": \"hunter2\" } } }")
            ),
        ]
        .join("\n")
    );
}

#[test]
fn standard_input_is_not_shown() {
    assert!(!format!("{:?}", sources(Path::new("."), &["a"], Some("hunter2"))).contains("hunter2"));
}
