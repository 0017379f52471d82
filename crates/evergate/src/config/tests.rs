mod gateway;
mod servers;
mod sources;

use serde_json::json;

use super::*;

fn environment(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("hunter2".into()),
        "LONG" => Some("long-enough-hunter2".into()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn read(document: &Value, environment: &dyn Fn(&str) -> Option<String>) -> Config {
    let folder = PathBuf::from("/etc/evergate");
    super::read(&[Document { name: "a.json".into(), folder, value: document.clone() }], environment)
}

fn findings(document: &Value) -> String {
    let config = read(document, &environment);
    config.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_of_another_client_works_as_it_is() {
    let config = read(
        &json!({ "mcpServers": {
            "files": { "command": "npx", "args": ["-y", "server", "."], "env": { "N": 1, "T": "${TOKEN}" } },
            "docs": { "type": "http", "url": "https://u.example/mcp?key=${TOKEN}", "headers": { "a": "b" } },
            "old": { "transport": "sse", "url": "http://old/sse", "disabled": true, "autoApprove": ["x"] },
        } }),
        &environment,
    );
    assert_eq!(config.findings, []);
    let summaries: Vec<&str> =
        config.servers.values().map(|server| server.summary.as_str()).collect();
    assert_eq!(summaries, ["http: https://u.example/mcp", "stdio: npx", "http: http://old/sse"]);
    assert!(config.servers["old"].disabled && !config.servers["docs"].disabled);
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let document = json!({ "mcpServers": {
        "a": { "command": "x", "url": "http://x/" },
        "b": {},
        "c": 7,
        "d": { "url": "ftp://x/", "headers": { "bad name": "x" } },
        "e": { "command": 1, "args": "x", "timeout": "soon", "type": "sse" },
        "f": { "command": "x", "lifecycle": { "restrat": "never", "max_attempts": -2, "backoff": { "jitter": 3 } } },
        "g": { "command": "x", "comand": "y", "timeout": 1500, "env": { "X": "${unclosed" } },
    }, "inputs": [] });
    insta::assert_snapshot!(findings(&document), @r#"
    error: mcpServers.a: has both a command and a url: remove one of them
    error: mcpServers.b: has neither a command nor a url
    error: mcpServers.c: must be an object, not a number
    error: mcpServers.d.headers: "bad name" is not a header name
    error: mcpServers.d.url: must be http or https, not ftp
    error: mcpServers.e.command: must be a string, not a number
    error: mcpServers.e.args: must be a list of strings, not a string
    error: mcpServers.e.type: must be "stdio" for a server with a command
    error: mcpServers.e.timeout: "soon" is not a duration such as "45s", "500ms", "2m" or "1h"
    error: mcpServers.e.command: must not be empty
    error: mcpServers.f.lifecycle.max_attempts: must be -1 (no limit), 0 or more
    error: mcpServers.f.lifecycle.restrat: is not a key that is known here; did you mean "restart"?
    error: mcpServers.f.lifecycle.backoff: jitter must be between 0 and 1
    error: mcpServers.g.env.X: has a "${" that is not closed or names nothing
    note: mcpServers.g.timeout: 1500 was understood as milliseconds; write "1.5s" to be clear
    warning: mcpServers.g.comand: is not a key that is known here; did you mean "command"?
    warning: inputs: is not a key that is known here
    "#);
}

#[test]
fn an_unset_variable_switches_off_only_the_server_that_needs_it() {
    let config = read(
        &json!({ "mcpServers": {
            "a": { "command": "x", "env": { "KEY": "${MISSING}" } },
            "b": { "command": "x", "env": { "KEY": "${MISSING:-fallback} ${EMPTY:-e} ${env:TOKEN}" } },
        } }),
        &environment,
    );
    assert!(!config.has_errors());
    let reason = config.servers["a"].unusable.as_deref();
    assert_eq!(reason, Some("mcpServers.a.env.KEY: the environment variable MISSING is not set"));
    assert_eq!(config.servers["b"].unusable, None);
}

#[test]
fn variables_are_filled_in_as_in_a_shell() {
    let expand = |text| variables::expand(text, &environment);
    assert_eq!(expand("a${TOKEN}b$c").unwrap(), "ahunter2b$c");
    assert_eq!(expand("${env:TOKEN}").unwrap(), "hunter2");
    assert_eq!(expand("${EMPTY}|${EMPTY:-x}|${NONE:-y:z}").unwrap(), "|x|y:z");
    assert_eq!(expand("${NONE}"), Err(variables::Unset::Variable("NONE".into())));
    assert_eq!(expand("${"), Err(variables::Unset::Malformed));
    assert_eq!(expand("${}"), Err(variables::Unset::Malformed));
}

#[test]
fn without_servers_there_is_nothing_to_use() {
    assert_eq!(
        findings(&json!({})),
        "error: mcpServers: is missing: an object of servers by name is expected"
    );
    assert_eq!(
        findings(&json!([])),
        "error: the whole file: must be an object\nerror: mcpServers: is missing: an object of servers by name is expected"
    );
}

#[test]
fn every_key_reaches_the_settings() {
    let config = read(
        &json!({ "mcpServers": { "a": {
            "url": "http://h/mcp", "type": "sse", "timeout": "7s", "required": true, "replay": "never", "protocol": "legacy",
            "lifecycle": {
                "restart": "on_failure", "on_exhausted": "fail", "max_attempts": -1, "hold": "1s",
                "connect_timeout": "2s", "close_timeout": "3s", "list_timeout": "4s", "max_timeout": "2h",
                "stable_after": "6s",
                "backoff": { "initial": "100ms", "max": "1m", "multiplier": 3, "jitter": 0.5 },
            },
        }, "b": { "command": "x", "lifecycle": { "profile": "strict" } } } }),
        &environment,
    );
    assert_eq!(config.findings, []);
    insta::assert_debug_snapshot!(config.servers["a"].settings);
    let strict = format!("{:?}", config.servers["b"].settings);
    assert!(strict.contains("required: true") && strict.contains("restart: Never"), "{strict}");
}
