//! The program, run as in a shell, and servers to look at.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use evergate_testkit::stdio_server_path;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Gateway, gateway, until};

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command that goes on. Killed when dropped.
pub(crate) struct Going {
    pub(crate) child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    err: Arc<Mutex<String>>,
}

/// Runs the program in an empty home, so that it finds no gateway but the one it is told of.
pub(crate) fn run(args: &[&str]) -> Said {
    run_in(Path::new("/nonexistent"), args, &[])
}

/// The same with a home of one's own and variables.
pub(crate) fn run_in(home: &Path, args: &[&str], variables: &[(&str, &str)]) -> Said {
    let output = command(home, args).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("it was killed");
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(args).env("HOME", home).stdin(Stdio::null());
    for variable in ["RUST_LOG", "XDG_STATE_HOME", "EVERGATE_KEY", "COLUMNS", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command on one gateway: the words, and how to find it.
pub(crate) fn on(gateway: &Gateway, args: &[&str]) -> Said {
    let state = gateway.state_dir();
    let mut all = args.to_vec();
    all.extend(["--state-dir", state.to_str().unwrap()]);
    run(&all)
}

/// The same for one that goes on.
pub(crate) fn start_on(gateway: &Gateway, args: &[&str]) -> Going {
    let state = gateway.state_dir();
    let mut all = args.to_vec();
    all.extend(["--state-dir", state.to_str().unwrap()]);
    let mut child = command(Path::new("/nonexistent"), &all)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, err) = (Arc::default(), Arc::default());
    let (sink, out): (Arc<Mutex<Vec<String>>>, _) =
        (Arc::clone(&lines), child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            sink.lock().unwrap().push(line);
        }
    });
    let (sink, mut pipe): (Arc<Mutex<String>>, _) =
        (Arc::clone(&err), child.stderr.take().unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(read) = pipe.read(&mut buffer)
            && read > 0
        {
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    });
    Going { child, lines, err }
}

impl Going {
    /// Waits for a line with this text.
    pub(crate) async fn says(&self, text: &str) {
        until(&format!("a line with {text:?}; there are {:?}", self.lines()), async || {
            self.lines().iter().any(|line| line.contains(text))
        })
        .await;
    }

    pub(crate) async fn warns(&self, text: &str) {
        until(&format!("a warning with {text:?}"), async || {
            self.err.lock().unwrap().contains(text)
        })
        .await;
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) async fn ended(&mut self) -> i32 {
        let mut code = None;
        until("the command ends", async || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        })
        .await;
        code.unwrap().code().expect("it was killed")
    }

    pub(crate) fn interrupt(&self) {
        signal(self.child.id(), Signal::INT);
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// A gateway's entry for a child process; it reconnects without delay.
pub(crate) fn child(args: &[&str]) -> Value {
    let program = stdio_server_path().expect("build it with: cargo build -p evergate-testkit");
    json!({ "command": program, "args": args, "lifecycle": quick() })
}

pub(crate) fn quick() -> Value {
    json!({ "backoff": { "initial": "50ms", "max": "100ms", "jitter": 0 }, "max_attempts": -1 })
}

/// A gateway with these servers, of which those that are named are connected.
pub(crate) async fn serving(servers: Value, connected: &[&str]) -> Gateway {
    serving_with(servers, json!({}), connected).await
}

/// The same with a gateway section.
pub(crate) async fn serving_with(servers: Value, section: Value, connected: &[&str]) -> Gateway {
    let gateway = gateway(&json!({ "mcpServers": servers, "gateway": section })).start();
    for name in connected {
        reaches(&gateway, name, "connected").await;
    }
    gateway
}

/// What the gateway says of one server, without the command line's help.
pub(crate) fn server(gateway: &Gateway, name: &str) -> Value {
    let said = on(gateway, &["why", name, "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

pub(crate) async fn reaches(gateway: &Gateway, name: &str, state: &str) {
    until(&format!("{name} is {state}"), async || server(gateway, name)["state"] == state).await;
}
