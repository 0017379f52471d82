//! The `gateway` section.

use std::time::Duration;

use super::*;
use crate::config::gateway::Naming;

const SECRET: &str = "0123456789abcdef";

fn with_gateway(gateway: &Value) -> Config {
    read(&json!({ "mcpServers": {}, "gateway": gateway }), &environment)
}

fn errors(gateway: &Value) -> String {
    findings(&json!({ "mcpServers": {}, "gateway": gateway }))
}

#[test]
fn every_key_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "  secret-of-the-file-1234\n").unwrap();
    let config = with_gateway(&json!({
        "listen": "localhost:9000", "separator": "___", "naming": "bare",
        "auth": { "allow_unauthenticated": true, "keys": [
            { "name": "a", "key": "${LONG}", "rate_limit": "60/1m", "servers": ["docs", "f*"], "tools": ["docs__*"] },
            { "name": "b", "key_file": file },
        ] },
        "allowed_hosts": ["MCP.example:8080"], "allowed_origins": ["https://App.example"],
        "session_key": ["${LONG}", { "file": file }], "session_idle": "1h", "max_sessions": 5,
        "max_body_bytes": "1MiB", "max_result_bytes": 1000, "max_buffered_bytes": "1GiB", "payload_dir": "out", "payload_threshold": "1KiB",
        "lenient": true, "drain": "0s", "startup_wait": "0s", "stream_after": "2s", "keep_alive": "1s", "per_client_idle": "1m",
        "otlp": { "endpoint": "https://otel.example/hunter2", "headers": { "api-key": "hunter2" }, "service_name": "gate", "sample": 0.5 },
        "audit": { "file": "audit.log", "max_bytes": "1MiB", "keep": 2 },
    }));
    assert_eq!(config.findings, []);
    let gateway = &config.gateway;
    let secrets: Vec<&str> = gateway.auth.iter().map(|key| key.key.expose()).collect();
    assert_eq!(secrets, ["long-enough-hunter2", "secret-of-the-file-1234"]);
    let sealing: Vec<&str> = gateway.session_keys.iter().map(Secret::expose).collect();
    assert_eq!(sealing, secrets);
    assert_eq!(gateway.naming, Naming::Bare);
    let shown = format!("{gateway:#?}");
    assert!(!shown.contains("hunter2") && !shown.contains("secret-of"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn without_a_section_the_defaults_hold() {
    let gateway = with_gateway(&Value::Null).gateway;
    assert_eq!((gateway.separator.as_str(), gateway.naming), ("__", Naming::Prefix));
    assert_eq!(gateway.session_idle, Duration::from_secs(6 * 60 * 60));
    assert_eq!((gateway.max_body_bytes, gateway.max_result_bytes), (4_194_304, 16_777_216));
    assert!(gateway.listen.is_none() && gateway.auth.is_empty() && !gateway.lenient);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let gateway = json!({
        "lissten": 1, "listen": "8080", "separator": "::", "naming": "short", "max_sessions": 0,
        "max_body_bytes": "4M", "session_idle": "0s", "drain": "3y", "keep_alive": "9000h",
        "allowed_hosts": ["http://x/"], "allowed_origins": ["app.example", "https://app.example/path", "*"],
        "session_key": ["short", 7, {}, { "file": "/no/such/file" }], "payload_threshold": 1,
        "auth": { "key": [], "keys": [
            { "name": "a", "key": SECRET },
            { "name": "a", "key": format!("{SECRET}2") },
            { "name": "b", "key": SECRET },
            { "name": "c", "key": "" },
            { "name": "d", "key": "tooshort" },
            { "name": "e", "key": "${MISSING}" },
            { "name": "f" },
            { "key": SECRET, "key_file": "/no/such/file" },
            { "name": "", "key": "${LONG}", "tools": "docs__*" },
            "h",
        ] },
    });
    let shown = errors(&gateway);
    assert!(!shown.contains(SECRET) && !shown.contains("tooshort"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn an_unset_variable_anywhere_in_the_section_is_an_error() {
    let shown =
        errors(&json!({ "payload_dir": "${MISSING}", "session_key": { "file": "${MISSING}" } }));
    insta::assert_snapshot!(shown, @"
    error: gateway.session_key.file: the environment variable MISSING is not set
    error: gateway.payload_dir: the environment variable MISSING is not set
    ");
}

#[test]
fn an_address_that_others_can_reach_needs_a_key_or_the_command_lines_word() {
    let open = json!({ "listen": "0.0.0.0:8080" });
    assert!(errors(&open).starts_with("warning: gateway.listen: 0.0.0.0:8080 can be reached"));
    assert!(!with_gateway(&open).has_errors(), "the command line may allow it");
    let key = json!({ "keys": [{ "name": "a", "key": SECRET }] });
    for auth in [key, json!({ "allow_unauthenticated": true })] {
        assert_eq!(errors(&json!({ "listen": "0.0.0.0:8080", "auth": auth })), "");
    }
    let gateway = with_gateway(&Value::Null).gateway;
    assert!(gateway.may_listen_on("[::1]:80".parse().unwrap()).is_ok());
    assert!(gateway.may_listen_on("10.0.0.1:80".parse().unwrap()).is_err());
}

#[test]
fn no_keys_at_all_is_not_the_same_as_an_empty_list() {
    assert_eq!(errors(&json!({ "auth": {} })), "");
    let shown = errors(&json!({ "auth": { "keys": [] }, "session_key": [] }));
    assert!(
        shown.contains("gateway.auth.keys: is empty")
            && shown.contains("gateway.session_key: is an empty")
    );
}
