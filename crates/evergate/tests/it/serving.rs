//! How serving begins and ends, as the command line decides it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::Instant;

use crate::evergate;

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn terminate(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

#[test]
fn the_command_line_has_the_last_word_on_an_address_that_others_can_reach() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evergate.json");
    std::fs::write(&path, r#"{ "mcpServers": {}, "gateway": { "listen": "0.0.0.0:0" } }"#).unwrap();
    let (path, state) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
    let serve = ["serve", "--config", path, "--state-dir", state];
    let refused = evergate(&serve);
    assert_eq!(refused.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--allow-unauthenticated"));
    assert_eq!(evergate(&["check", "--config", path]).status.code(), Some(0));
    for more in [&["--allow-unauthenticated"][..], &["--listen", "127.0.0.1:0"]] {
        let mut gateway = start(&[&serve[..], more].concat());
        let mut line = String::new();
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "{more:?}: {line}");
        terminate(&gateway);
        assert_eq!(gateway.wait().unwrap().code(), Some(0));
    }
}

/// As every other command does.
#[test]
fn the_file_of_the_folder_is_served_without_being_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.env_remove("RUST_LOG").current_dir(folder.path()).env("HOME", folder.path());
    command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let served = |command: &mut Command| {
        let mut gateway = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap();
        terminate(&gateway);
        let output = gateway.wait_with_output().unwrap();
        (line, String::from_utf8(output.stderr).unwrap())
    };
    let (_, said) = served(&mut command);
    assert!(said.contains("two demonstration servers are served"), "{said}");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(".mcp.json", r#"{ "mcpServers": { "a": { "command": "x", "disabled": true } } }"#);
    let (line, said) = served(&mut command);
    assert!(line.starts_with("http://127.0.0.1:"), "{said}");
    assert!(said.contains("using .mcp.json of the current folder"), "{said}");
    assert!(!said.contains("demonstration"), "{said}");
    write("evergate.json", r#"{ "mcpServers": {} }"#);
    let (_, said) = served(
        Command::new(env!("CARGO_BIN_EXE_evergate"))
            .current_dir(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("HOME", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    assert!(said.contains("using evergate.json of the current folder"), "{said}");
}

/// The server ends with its input, which is when closing has begun; what started it then does not go away.
#[tokio::test]
async fn a_signal_ends_at_once_although_a_server_takes_its_time_to_close() {
    let folder = tempfile::tempdir().unwrap();
    let closing = folder.path().join("closing");
    let script = "trap '' TERM INT HUP; \"$0\" demo-server; : >\"$1\"; sleep 60";
    let (evergate, file) = (env!("CARGO_BIN_EXE_evergate"), closing.to_str().unwrap());
    let mut client = start(&["wrap", "--", "sh", "-c", script, evergate, file]);
    let mut input = client.stdin.take().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    writeln!(input, "{hello}").unwrap();
    let mut output = BufReader::new(client.stdout.take().unwrap());
    let mut welcome = String::new();
    output.read_line(&mut welcome).unwrap();
    assert!(welcome.contains("serverInfo"), "{welcome}");
    drop(input);
    let begin = Instant::now();
    while !closing.exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not close");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let begin = Instant::now();
    terminate(&client);
    let code = client.wait().unwrap().code();
    // Closing would take five seconds.
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(code, Some(70));
}
