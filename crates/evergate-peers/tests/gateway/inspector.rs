//! The inspector's command line: a new client for every request, by somebody else's hand.

use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::*;

async fn inspect(url: &str, era: &str, arguments: &[&str]) -> Output {
    // It keeps a file in the home folder, which is not ours to fill.
    let home = tempfile::tempdir().unwrap();
    let launcher =
        "node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let mut command = Command::new(evergate_peers::installed("node/node_modules/.bin/node"));
    command.arg(evergate_peers::installed(launcher)).args(["--cli", url, "--transport", "http"]);
    command
        .args(["--protocol-era", era, "--format", "json"])
        .args(arguments)
        .env("HOME", home.path())
        .kill_on_drop(true);
    timeout(PATIENCE, command.output()).await.expect("the inspector hangs").unwrap()
}

async fn answer(url: &str, era: &str, arguments: &[&str]) -> Value {
    let output = inspect(url, era, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["result"].clone()
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn command_line() {
    serves("legacy").await;
}

/// The same by a client without a handshake.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn command_line_without_handshake() {
    serves("modern").await;
}

/// The same by a client that finds out.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn command_line_finds_out() {
    serves("auto").await;
}

async fn serves(era: &str) {
    let answer = async |url: &str, arguments: &[&str]| answer(url, era, arguments).await;
    let (mut http, stdio) = (Upstream::everything_http(), Upstream::everything_stdio());
    let gateway = Gateway::start(&[("http", &http), ("stdio", &stdio)]).await;
    let url = gateway.url();
    let tools = answer(url, &["--method", "tools/list"]).await;
    let names = tools["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert_eq!(
        names
            .filter(|name| ["http__echo", "stdio__echo"].contains(&name.as_str().unwrap()))
            .count(),
        2
    );
    for _ in 0..2 {
        for tool in ["http__echo", "stdio__echo"] {
            let call = ["--method", "tools/call", "--tool-name", tool, "--tool-arg", "message=hi"];
            assert_eq!(text(&answer(url, &call).await), "Echo: hi");
        }
        http.kill_and_restart().await;
    }
    let read = ["--method", "resources/read", "--uri", "demo://resource/dynamic/text/1"];
    assert!(answer(url, &read).await["contents"][0]["text"].is_string());
    let prompt = ["--method", "prompts/get", "--prompt-name", "stdio__simple-prompt"];
    assert_eq!(answer(url, &prompt).await["messages"][0]["role"], json!("user"));
    let unknown = ["--method", "tools/call", "--tool-name", "nobody__nothing"];
    assert!(!inspect(url, era, &unknown).await.status.success());
    gateway.stop().await;
}
