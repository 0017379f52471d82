//! The dashboard in a browser. The steps are `peers/dashboard/*.test.mjs`; here they get a gateway and servers to play with.

use std::path::PathBuf;

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::*;

/// Where the pictures of the README go, when they are to be made anew.
const PICTURES: &str = "EVERGATE_PICTURES";

fn node(script: &str, arguments: &[&str]) -> Command {
    let node = evergate_peers::installed("node/node_modules/.bin/node");
    let peers = evergate_peers::installed("");
    let mut command = Command::new(node);
    command.args(arguments).arg(evergate_peers::ours("dashboard").join(script));
    command.env("EVERGATE", built("evergate"));
    command.env("EVERGATE_SCRIPTED_SERVER", built("scripted-stdio-server"));
    command.env("EVERGATE_PEERS_DIR", peers).kill_on_drop(true);
    command
}

async fn passes(script: &str) {
    // Steps of one file share a browser, so they come one after the other.
    let mut command = node(script, &["--test-reporter=spec", "--test"]);
    let output = timeout(PATIENCE * 3, command.output()).await.expect("the browser hangs").unwrap();
    let [shown, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{script}:\n{shown}\n{told}");
}

#[tokio::test]
#[ignore = "needs npm peers and Chromium; ./scripts/test runs it"]
async fn dashboard_shows_and_steers() {
    passes("steer.test.mjs").await;
}

#[tokio::test]
#[ignore = "needs npm peers and Chromium; ./scripts/test runs it"]
async fn dashboard_with_nothing_to_show() {
    passes("states.test.mjs").await;
}

#[tokio::test]
#[ignore = "needs npm peers and Chromium; ./scripts/test runs it"]
async fn dashboard_for_and_against_everybody() {
    passes("readers.test.mjs").await;
}

/// From a client's configuration to a gateway that recovers.
#[tokio::test]
#[ignore = "needs npm peers and Chromium; ./scripts/test runs it"]
async fn the_first_hour_of_a_newcomer() {
    passes("first_hour.test.mjs").await;
}

/// Nothing to test: makes the README's pictures, if asked for.
#[tokio::test]
#[ignore = "needs npm peers and Chromium; ./scripts/test runs it"]
async fn dashboard_pictures() {
    let Some(folder) = std::env::var_os(PICTURES) else { return };
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut command = node("pictures.mjs", &[]);
    let made = command.env(PICTURES, root.join(folder)).status();
    assert!(timeout(PATIENCE, made).await.expect("the browser hangs").unwrap().success());
}
