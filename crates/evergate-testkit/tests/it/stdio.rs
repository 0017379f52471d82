//! The scripted stdio server as a real process.

use std::path::PathBuf;
use std::process::Stdio;

use evergate_testkit::{stdio_server_path, wait};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::raw_lines::{Lines, text};

const PROGRAM: &str = env!("CARGO_BIN_EXE_scripted-stdio-server");

type Client = Lines<ChildStdout, ChildStdin>;

fn spawn(flags: &[&str]) -> (Child, Client) {
    let mut child = Command::new(PROGRAM)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program is built");
    let (reader, writer) = (child.stdout.take(), child.stdin.take());
    (child, Lines::new(reader.expect("piped"), writer.expect("piped")))
}

/// A path for one test, removed first.
fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_file(&path));
    path
}

async fn exit_code(child: &mut Child) -> Option<i32> {
    child.wait().await.expect("waitable").code()
}

#[tokio::test]
async fn is_found_beside_the_tests() {
    let found = stdio_server_path().expect("built for this test");
    assert_eq!(found.canonicalize().unwrap(), PathBuf::from(PROGRAM).canonicalize().unwrap());
}

#[tokio::test]
async fn serves_until_its_input_ends() {
    let (mut child, mut client) = spawn(&["--stderr", "hello"]);
    client.initialize().await;
    let pid = child.id().unwrap().to_string();
    assert_eq!(text(&client.call(1, "pid", json!({})).await), pid);
    drop(client);
    assert_eq!(exit_code(&mut child).await, Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(said.trim_end(), "hello");
}

#[tokio::test]
async fn crashes_exits_and_leaves_a_record() {
    let state = scratch("state");
    let state_flag = state.to_str().unwrap();
    let (mut child, mut client) = spawn(&["--state-file", state_flag]);
    client.initialize().await;
    let arguments = json!({ "code": 9, "call_id": "first" });
    client.begin(1, "tools/call", json!({ "name": "crash", "arguments": arguments })).await;
    assert_eq!(client.line().await.unwrap(), None);
    assert_eq!(exit_code(&mut child).await, Some(9));

    let flags = ["--state-file", state_flag, "--exit-after", "2", "--exit-code", "3"];
    let (mut again, mut client) = spawn(&flags);
    let pid = again.id().unwrap();
    client.initialize().await;
    client.call(1, "bump", json!({ "call_id": "first" })).await;
    assert_eq!(text(&client.call(2, "bump", json!({ "call_id": "second" })).await), "2");
    assert_eq!(exit_code(&mut again).await, Some(3));
    let record = std::fs::read_to_string(&state).unwrap();
    let calls: Vec<_> = record.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(calls.iter().map(|call| call.1).collect::<Vec<_>>(), ["first", "first", "second"]);
    assert_eq!(calls[2].0, pid.to_string());
}

#[tokio::test]
async fn bad_starts() {
    let (mut child, _client) = spawn(&["--crash-on-start", "--exit-code", "5"]);
    assert_eq!(exit_code(&mut child).await, Some(5));
    let file = scratch("switch");
    let path = file.to_str().unwrap();
    let (_child, mut client) = spawn(&["--crash-while", path, "--extra-tool-if", path]);
    client.initialize().await;
    let unknown = client.request(1, "tools/call", json!({ "name": "extra" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    std::fs::write(&file, "").unwrap();
    let (mut child, _client) = spawn(&["--crash-while", path]);
    assert_eq!(exit_code(&mut child).await, Some(1));
    let (_child, mut client) = spawn(&["--extra-tool-if", path]);
    client.initialize().await;
    assert_eq!(text(&client.call(1, "extra", json!({})).await), "extra");
    let (mut child, _client) = spawn(&["--nonsense"]);
    assert_eq!(exit_code(&mut child).await, Some(64));
    let (mut child, mut client) = spawn(&["--help"]);
    assert_eq!(exit_code(&mut child).await, Some(0));
    assert!(client.line().await.unwrap().unwrap().contains("scripted MCP server"));

    let (_child, mut client) = spawn(&["--slow-start", "50", "--hang-initialize"]);
    client.begin(1, "initialize", json!({})).await;
    assert_eq!(client.request(2, "ping", json!({})).await["id"], 2, "only initialize hangs");
}

#[tokio::test]
async fn bad_lines() {
    let (_child, mut client) = spawn(&["--garbage"]);
    client.begin(1, "ping", json!({})).await;
    let mut garbage = 0;
    while !client.line().await.unwrap().unwrap().contains("\"id\":1") {
        garbage += 1;
    }
    assert!(garbage >= 2);

    let (_child, mut client) = spawn(&["--duplicate-answers"]);
    assert_eq!(client.request(1, "ping", json!({})).await, client.message().await);

    let (_child, mut client) = spawn(&["--oversized-line", "300000"]);
    client.initialize().await;
    assert!(text(&client.call(1, "bump", json!({})).await).len() >= 300_000);
}

#[cfg(unix)]
#[tokio::test]
async fn refuses_to_die_with_its_family() {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    let pids = scratch("pids");
    let flags = ["--ignore-sigterm", "--ignore-stdin-eof", "--spawn-grandchildren", "2"];
    let (mut child, mut client) =
        spawn(&[&flags[..], &["--pid-file", pids.to_str().unwrap()]].concat());
    client.initialize().await;
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(client.request(1, "ping", json!({})).await["id"], 1, "survives SIGTERM");
    drop(client.writer);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(child.try_wait().unwrap().is_none(), "survives the end of its input");

    let family = std::fs::read_to_string(&pids).unwrap();
    let family: Vec<_> =
        family.lines().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect();
    assert_eq!(family.len(), 2);
    child.kill().await.unwrap();
    for pid in family {
        test_kill_process(pid).expect("outlives its parent");
        kill_process(pid, Signal::KILL).unwrap();
        // An orphan that nobody reaps stays a zombie, which can still be signalled.
        wait::until("the grandchild is gone", || {
            test_kill_process(pid).is_err() || is_zombie(pid.as_raw_nonzero().get())
        })
        .await;
    }
}

#[cfg(unix)]
fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}
