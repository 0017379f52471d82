//! `check`, `tools` and `call` with real files and real servers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{evergate, stderr, stdout};

fn file(name: &str, text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

fn with_stdin(args: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
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

/// Everything the gateway section can say, and no secret.
#[test]
fn check_shows_the_gateway_without_its_secrets() {
    let document = json!({
        "mcpServers": {
            "docs": {
                "url": "https://docs.example/mcp", "required": true, "isolation": "per_client",
                "tools": { "allow": ["get_*"], "deny": ["get_secret"], "overrides": { "get_all": { "timeout": "5m" } } },
                "headers_from_client": ["x-user"],
            },
        },
        "gateway": {
            "listen": "localhost:9000", "separator": "___", "lenient": true, "payload_dir": "/tmp/payloads",
            "session_key": "hunter2-hunter2-hunter2", "allowed_origins": ["https://app.example"],
            "allowed_hosts": ["mcp.example"],
            "auth": { "keys": [
                { "name": "developers", "key": "hunter2-hunter2-developers" },
                { "name": "ci", "key": "hunter2-hunter2-ci", "servers": ["docs"], "tools": ["docs___get_*"] },
            ] },
        },
    });
    let output = with_stdin(&["check", "--config-stdin"], &document.to_string());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stdout(&output).contains("hunter2"));
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn check_lists_many_problems_at_once() {
    let text = r#"
[gateway]
listen = "0.0.0.0:8080"
separater = "__"
[[gateway.auth.keys]]
name = "ci"
key = "${EVERGATE_TEST_IS_NOT_SET}"

[mcpServers.docs]
url = "docs.example/mcp"
timeout = "soon"
tools = { alow = ["*"] }
lifecycle = { max_in_flight = 0 }
[mcpServers.both]
command = "x"
url = "http://h/"
"#;
    let output = with_stdin(&["check", "--config-stdin"], text);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(stderr(&output), "evergate: standard input cannot be used\n");
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn several_sources_are_one_configuration() {
    let (_folder, first) =
        file("mcp.json", r#"{ "mcpServers": { "a": { "command": "x" }, } } // a comma"#);
    let (_folder, second) = file("more.toml", "[mcpServers.b]\ncommand = 'y'");
    let stdin = r#"{ "gateway": { "naming": "bare" } }"#;
    let args = ["check", "--config", &first, "--config", &second, "--config-stdin"];
    let output = with_stdin(&args, stdin);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(["stdio: x", "stdio: y", "TOOL"].iter().all(|part| shown.contains(part)), "{shown}");
    let twice = evergate(&["check", "--config", &first, "--config", &first]);
    assert_eq!(twice.status.code(), Some(64));
    assert!(
        stdout(&twice).contains(&format!("mcpServers.a: is in {first} too")),
        "{}",
        stdout(&twice)
    );
}

#[test]
fn the_usual_names_are_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
        command.arg("check").current_dir(folder.path()).env_remove("RUST_LOG").output().unwrap()
    };
    let none = check();
    assert_eq!(none.status.code(), Some(64));
    assert!(
        stderr(&none)
            .contains("one of evergate.toml, evergate.json, .mcp.json in the current folder"),
        "{}",
        stderr(&none)
    );
    // Each is preferred to those written before it.
    for name in [".mcp.json", "evergate.json", "evergate.toml"] {
        let toml = name.ends_with("toml");
        let text = if toml { "mcpServers = {}" } else { r#"{ "mcpServers": {} }"# };
        std::fs::write(folder.path().join(name), text).unwrap();
        let found = check();
        assert_eq!(found.status.code(), Some(0), "{}", stdout(&found));
        assert_eq!(stderr(&found), format!("evergate: using {name} of the current folder\n"));
    }
}

#[test]
fn schema_prints_a_json_schema() {
    let output = evergate(&["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let schema: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let entry = &schema["properties"]["mcpServers"]["additionalProperties"];
    assert_eq!(entry["properties"]["isolation"]["enum"], json!(["shared", "per_client"]));
    assert_eq!(entry["additionalProperties"], Value::Null);
    let gateway = &schema["properties"]["gateway"];
    assert_eq!(gateway["additionalProperties"], json!(false));
    assert_eq!(gateway["properties"]["max_sessions"]["default"], json!(10000));
}

#[test]
fn the_help_of_check_names_the_keys() {
    let help = stdout(&evergate(&["check", "--help"]));
    for key in ["mcpServers.*.lifecycle.backoff", "gateway.auth.keys[]", "  headers_from_client "] {
        assert!(help.contains(key), "{key}: {help}");
    }
}

#[test]
fn tools_and_call_obey_the_filter() {
    let demo = json!({ "command": env!("CARGO_BIN_EXE_evergate"), "args": ["demo-server"], "tools": ["e*"] });
    let (_folder, path) = file("mcp.json", &json!({ "mcpServers": { "demo": demo } }).to_string());
    let listed = evergate(&["tools", "--config", &path]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let shown = stdout(&listed);
    assert!(
        shown.lines().all(|line| line.starts_with("demo             e")) && shown.contains("echo"),
        "{shown}"
    );
    let refused = evergate(&["call", "--config", &path, "demo", "pid"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        stderr(&refused).contains("does not allow the tool \"pid\" of demo"),
        "{}",
        stderr(&refused)
    );
    let answered = evergate(&["call", "--config", &path, "demo", "echo", r#"{"text":"hello"}"#]);
    assert_eq!(stdout(&answered), "hello\n", "{}", stderr(&answered));
}

/// The server sees the token, refuses it, and nobody asks again.
#[test]
fn the_token_of_a_file_reaches_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8(head).unwrap().to_lowercase()
    });
    let entry = json!({ "url": url, "type": "streamable-http", "bearer_token_file": "token" });
    let (folder, path) = file("mcp.json", &json!({ "mcpServers": { "a": entry } }).to_string());
    std::fs::write(folder.path().join("token"), "secret-token\n").unwrap();
    let output = evergate(&["tools", "--config", &path]);
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("auth_required"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("secret-token"));
    let head = server.join().unwrap();
    assert!(head.contains("\r\nauthorization: bearer secret-token\r\n"), "{head}");
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
    for bad in ["{", "[]", "7", "\"text\"", "null"] {
        let refused = call(&["demo", "echo", bad]);
        assert_eq!(refused.status.code(), Some(64), "{bad}");
        assert!(stderr(&refused).contains("the arguments"), "{}", stderr(&refused));
    }
}

#[test]
fn what_is_done_to_servers_has_examples_of_its_own() {
    for command in ["restart", "enable", "disable", "refresh"] {
        let help = stdout(&evergate(&[command, "--help"]));
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let own = format!("evergate {command} ");
        assert!(examples.lines().all(|line| line.trim_start().starts_with(&own)), "{help}");
        assert!(help.contains("Exits with 0 if it worked"), "{help}");
    }
}
