//! The audit log: who called what, and what became of it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{at, merged, servers, web};
use crate::support::{Gateway, gateway, until};

/// A configuration whose calls are written down beside it.
fn audited(config: Value, mut section: Value) -> Value {
    section["audit"] = merged(json!({ "file": "audit.log" }), section["audit"].clone());
    merged(config, json!({ "gateway": section }))
}

fn file(gateway: &Gateway) -> std::path::PathBuf {
    gateway.folder.path().join("audit.log")
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn calls(file: &Path) -> Vec<Value> {
    let mut lines = lines(file);
    lines.retain(|line| line["event"] == "call");
    lines
}

async fn until_calls(file: &Path, count: usize) -> Vec<Value> {
    until(&format!("{count} calls are written"), async || calls(file).len() >= count).await;
    calls(file)
}

#[tokio::test]
async fn every_call_is_a_line_that_says_who_and_what_and_how() {
    let http = web().await;
    let keys = json!({ "keys": [{ "name": "ada", "key": "0123456789abcdef-ada" }] });
    let config =
        audited(servers(json!({ "web": at(&http) })), json!({ "auth": keys, "audit": {} }));
    let mut gateway = gateway(&config).start();
    let http = gateway.http().header("authorization", "Bearer 0123456789abcdef-ada");
    let client = http.initialize().await;
    client.tool_names().await;
    client.call_text("web__echo", json!({ "text": "hunter2" })).await;
    client.call("web__rpc_error", json!({})).await;
    client.request("resources/read", json!({ "uri": "test://static/readme?token=hunter2" })).await;
    gateway.signal(Signal::TERM);
    gateway.ended().await;
    let all = lines(&file(&gateway));
    assert_eq!(all[0]["event"], "started");
    let calls = calls(&file(&gateway));
    let [echo, error, ..] = &calls[..] else { panic!("{calls:#?}") };
    for (name, value) in [
        ("key", json!("ada")),
        ("client", json!("test 1")),
        ("server", json!("web")),
        ("method", json!("tools/call")),
        ("name", json!("echo")),
        ("outcome", json!("answered")),
        ("error_code", Value::Null),
        ("resent", json!(false)),
        ("generation", json!(1)),
        ("trace_id", Value::Null),
    ] {
        assert_eq!(echo[name], value, "{name}");
    }
    assert!(echo["duration_ms"].as_f64().unwrap() > 0.0);
    assert!(echo["time"].as_str().unwrap().ends_with('Z'));
    let session = echo["session"].as_str().unwrap();
    assert_eq!(session.len(), 8);
    assert!(!client.id.contains(session));
    assert_eq!((&error["error_code"], &error["session"]), (&json!(-32050), &echo["session"]));
    let text = std::fs::read_to_string(file(&gateway)).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let mode = std::fs::metadata(file(&gateway)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn arguments_are_there_only_if_somebody_asked_for_them() {
    let http = web().await;
    let config = audited(
        servers(json!({ "web": at(&http) })),
        json!({ "record_arguments": true, "audit": {} }),
    );
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__echo", json!({ "text": "kept" })).await;
    let calls = until_calls(&file(&gateway), 1).await;
    assert_eq!(calls[0]["arguments"], json!({ "text": "kept" }));
}

#[tokio::test]
async fn a_full_file_is_put_aside_and_a_moved_one_is_opened_anew() {
    let http = web().await;
    let more = json!({ "audit": { "max_bytes": 1000, "keep": 2 } });
    let config = audited(servers(json!({ "web": at(&http) })), more);
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let aside = |number: u32| gateway.folder.path().join(format!("audit.log.{number}"));
    for _ in 0..20 {
        client.call_text("web__bump", json!({})).await;
    }
    until("two files are put aside", async || aside(1).exists() && aside(2).exists()).await;
    assert!(!aside(3).exists());
    for number in [1, 2] {
        assert!(std::fs::metadata(aside(number)).unwrap().len() <= 1000);
        assert!(!lines(&aside(number)).is_empty());
    }
    // As logrotate does.
    let moved = gateway.folder.path().join("moved");
    std::fs::rename(file(&gateway), &moved).unwrap();
    gateway.signal(Signal::HUP);
    until("a new file is written", async || {
        client.call_text("web__bump", json!({})).await;
        !calls(&file(&gateway)).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_file_that_cannot_be_written_keeps_nobody_from_calling() {
    let http = web().await;
    let config = audited(
        servers(json!({ "web": at(&http) })),
        json!({ "audit": { "file": "not-there/audit.log" } }),
    );
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let mut made = 5;
    for _ in 0..made {
        client.call_text("web__bump", json!({})).await;
    }
    until("it is told", async || gateway.stderr().contains("cannot write the audit log")).await;
    let folder = gateway.folder.path().join("not-there");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("audit.log");
    until("it is written again", async || {
        client.call_text("web__bump", json!({})).await;
        made += 1;
        !calls(&path).is_empty() && gateway.stderr().contains("the audit log is written again")
    })
    .await;
    assert_eq!(gateway.stderr().matches("cannot write the audit log").count(), 1);
    assert_eq!(lines(&path)[0]["event"], "lost");
    // Some of the first calls may still have waited to be written when the folder was made.
    until("each call, and the start, is written or counted", async || {
        let lines = lines(&path);
        let lost = lines[0]["lines"].as_u64().unwrap();
        lost > 0 && lost + lines.len() as u64 - 1 == made + 1
    })
    .await;
}

#[tokio::test]
async fn a_reload_can_begin_and_end_it() {
    let http = web().await;
    let plain = servers(json!({ "web": at(&http) }));
    let gateway = gateway(&plain).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    gateway.write_config(&audited(plain.clone(), json!({ "audit": {} })));
    until("calls are written", async || {
        client.call_text("web__bump", json!({})).await;
        !calls(&file(&gateway)).is_empty()
    })
    .await;
    gateway.write_config(&plain);
    until("they no longer are", async || {
        let before = calls(&file(&gateway)).len();
        client.call_text("web__bump", json!({})).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        calls(&file(&gateway)).len() == before
    })
    .await;
}

#[tokio::test]
async fn what_operators_do_is_written_too() {
    let http = web().await;
    let config = audited(servers(json!({ "web": at(&http) })), json!({ "audit": {} }));
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let operator = crate::support::Http::new(&gateway.at("/api/v1/servers/web/restart"));
    let answer = operator.post(&[], "{}").await;
    assert!(answer.status.is_success(), "{}", answer.text());
    let level = crate::support::Http::new(&gateway.at("/api/v1/log-level"));
    let content = [("content-type", "application/json")];
    let answer = level.send(http::Method::PUT, &content, r#"{"level":"debug"}"#).await;
    assert!(answer.status().is_success());
    until("both are written", async || lines(&file(&gateway)).len() >= 3).await;
    let all = lines(&file(&gateway));
    assert_eq!((&all[1]["action"], &all[1]["server"]), (&json!("restart"), &json!("web")));
    assert_eq!((&all[2]["event"], &all[2]["level"]), (&json!("log_level"), &json!("debug")));
}
