//! `events`.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shell::{child, on, reaches, serving, start_on};
use crate::support::until;

#[tokio::test]
async fn events_come_as_they_happen_and_of_one_server_if_asked() {
    let gateway =
        serving(json!({ "docs": child(&[]), "files": child(&[]) }), &["docs", "files"]).await;
    let (all, one) =
        (start_on(&gateway, &["events"]), start_on(&gateway, &["events", "files", "--after", "0"]));
    let json = start_on(&gateway, &["events", "--json", "--after", "0"]);
    one.says("files: connecting → ● connected (handshake done, connection 1)").await;
    json.says("\"kind\":\"transition\"").await;
    // Whoever began now needs a moment to be there.
    until("somebody hears of it", async || {
        on(&gateway, &["restart", "docs"]);
        all.lines().iter().any(|line| line.contains("docs: restart was asked for"))
    })
    .await;
    all.says("docs: reconnecting → ● connected").await;
    assert!(!all.lines().iter().any(|line| line.contains("files")), "{:?}", all.lines());
    assert!(!one.lines().iter().any(|line| line.contains("docs")), "{:?}", one.lines());
    for line in json.lines() {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert!(event["n"].as_u64() > Some(0), "{line}");
    }
}

#[tokio::test]
async fn a_restart_of_the_gateway_is_told_and_survived() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let events = start_on(&gateway, &["events"]);
    let watching = start_on(&gateway, &["status", "--watch"]);
    watching.says("docs: connected").await;
    until("it listens", async || {
        on(&gateway, &["refresh", "docs", "--no-wait"]);
        !events.lines().is_empty()
    })
    .await;
    let gateway = gateway.restart(Signal::KILL).await;
    events.warns("the gateway is away").await;
    events.warns("the gateway was restarted").await;
    events.says("docs: connecting → ● connected").await;
    watching.says("the gateway is away").await;
    watching.says("the gateway is back, restarted").await;
    reaches(&gateway, "docs", "connected").await;
}

#[tokio::test]
async fn nobody_has_to_wait_for_an_event_when_the_reader_is_gone() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let state = gateway.state_dir();
    let script = "\"$0\" events --after 0 --state-dir \"$1\" | head -n 1";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_evergate"), state.to_str().unwrap()]);
    let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the pipeline ends", async || child.try_wait().unwrap().is_some()).await;
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}
