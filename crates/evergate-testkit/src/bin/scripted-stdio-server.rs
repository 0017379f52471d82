//! A scripted MCP server on standard input and output that misbehaves as its flags say.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line program")]
#![expect(clippy::exit, reason = "dying at once, without unwinding, is what it is for")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use evergate_testkit::{Eras, Fault, Server, serve_lines};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

const HELP: &str = "\
A scripted MCP server on standard input and output.

Usage: scripted-stdio-server [OPTIONS]

  --modern                 speak 2026-07-28 and no revision with a handshake
  --exit-after N           exit when N tool calls were executed and every request answered
  --exit-code C            the code for --exit-after and --crash-on-start (default 1)
  --ignore-sigterm         survive SIGTERM (Unix)
  --ignore-stdin-eof       keep running after standard input closes
  --spawn-grandchildren N  start N child processes that sleep for ever
  --pid-file PATH          write the pids of these children, one per line
  --garbage                print lines that are not JSON at start and before each answer
  --oversized-line BYTES   answer tool calls with a line of more than BYTES bytes
  --slow-start MS          read nothing for this long
  --hang-initialize        never answer initialize
  --duplicate-answers      answer every request twice
  --stderr TEXT            print TEXT on standard error at start
  --state-file PATH        append `<pid> <call_id>` for each executed tool call
  --stall-once PATH        unless PATH exists, create it and hang in the first tool call
  --crash-on-start         exit at once
  --crash-while PATH       exit at once if PATH exists
  --extra-tool-if PATH     offer the tool `extra` too if PATH exists at start
  --relay ADDR             be only the pipe to a server that speaks lines at this TCP address
  --help                   print this

Of --garbage, --oversized-line, --hang-initialize and --duplicate-answers one acts on a request:
the one that stands last in this list.

Beside the built-in tools of evergate-testkit there are `crash` {\"code\": C}, which exits at once
without an answer, and `pid`, which returns the process id.
";

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch of the command line")]
struct Flags {
    modern: bool,
    exit_after: Option<u64>,
    exit_code: Option<u8>,
    ignore_sigterm: bool,
    ignore_stdin_eof: bool,
    grandchildren: u64,
    pid_file: Option<PathBuf>,
    garbage: bool,
    oversized_line: Option<usize>,
    slow_start: Duration,
    hang_initialize: bool,
    duplicate_answers: bool,
    stderr: Option<String>,
    state_file: Option<PathBuf>,
    stall_once: Option<PathBuf>,
    crash_on_start: bool,
    crash_while: Option<PathBuf>,
    extra_tool_if: Option<PathBuf>,
    relay: Option<String>,
    help: bool,
    /// Internal: be one of the grandchildren.
    sleep_for_ever: bool,
}

fn main() -> ExitCode {
    let flags = match Flags::parse(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(64);
        }
    };
    if flags.help {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if let Some(text) = &flags.stderr {
        eprintln!("{text}");
    }
    if flags.crash_on_start || exists(flags.crash_while.as_ref()) {
        return flags.exit_code();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(flags));
    // Standard input may still be waited for on another thread.
    runtime.shutdown_background();
    code
}

async fn run(flags: Flags) -> ExitCode {
    if flags.sleep_for_ever {
        return std::future::pending().await;
    }
    #[cfg(unix)]
    let _caught = flags.ignore_sigterm.then(|| {
        use tokio::signal::unix::{SignalKind, signal};
        // Catching it is enough: nobody looks at what was caught.
        signal(SignalKind::terminate())
    });
    if let Err(error) = spawn_grandchildren(&flags) {
        eprintln!("cannot start grandchildren: {error}");
        return ExitCode::FAILURE;
    }
    tokio::time::sleep(flags.slow_start).await;
    if let Some(address) = &flags.relay {
        return relay(address).await;
    }
    if flags.garbage {
        println!("Starting server, this is not JSON\n\n{{not json either");
    }
    let server = Server::new();
    if flags.modern {
        server.set_eras(Eras::Modern);
    }
    script(&server, &flags);
    let answered_enough = server.wait_for(|counters| {
        let requests = counters.requests.iter().filter(|(method, _)| !is_notification(method));
        let received = requests.map(|(_, count)| count).sum();
        // Answers come in any order, so the last call is answered when everything is.
        flags.exit_after.is_some_and(|limit| counters.calls >= limit)
            && counters.answered >= received
    });
    let serving = async {
        serve_lines(&server, tokio::io::stdin(), tokio::io::stdout()).await;
        if flags.ignore_stdin_eof {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = answered_enough => flags.exit_code(),
        () = serving => ExitCode::SUCCESS,
    }
}

/// A child process whose mind is elsewhere: in a test that wants to look into it and change it.
async fn relay(address: &str) -> ExitCode {
    let stream = match tokio::net::TcpStream::connect(address).await {
        Ok(stream) => stream,
        Err(error) => {
            eprintln!("cannot reach {address}: {error}");
            return ExitCode::FAILURE;
        }
    };
    drop(stream.set_nodelay(true));
    let (mut from_server, mut to_server) = stream.into_split();
    let (mut input, mut output) = (tokio::io::stdin(), tokio::io::stdout());
    let inward = async {
        drop(tokio::io::copy(&mut input, &mut to_server).await);
        drop(to_server.shutdown().await);
        // The other direction ends when the server has said the rest.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_server, &mut output) => ExitCode::SUCCESS,
        () = inward => ExitCode::SUCCESS,
    }
}

/// Makes the server misbehave as the flags want.
fn script(server: &Server, flags: &Flags) {
    if flags.duplicate_answers {
        server.inject(Fault::DuplicateAnswer).on_every_request().forever();
    }
    if flags.hang_initialize {
        server.inject(Fault::HangBeforeHeaders).on("initialize").forever();
    }
    if let Some(bytes) = flags.oversized_line {
        server.inject(Fault::Oversized(bytes)).on("tools/call").forever();
    }
    if flags.garbage {
        server.inject(Fault::Garbage).on_every_request().forever();
    }
    server.tool("crash", Value::Null, |arguments| {
        let code = arguments["code"].as_i64().and_then(|code| i32::try_from(code).ok());
        std::process::exit(code.unwrap_or(1))
    });
    server.tool(
        "pid",
        Value::Null,
        |_| json!({ "content": [{ "type": "text", "text": std::process::id().to_string() }] }),
    );
    if exists(flags.extra_tool_if.as_ref()) {
        let content = json!([{ "type": "text", "text": "extra" }]);
        server.tool("extra", Value::Null, move |_| json!({ "content": content }));
    }
    let (state_file, stall_once) = (flags.state_file.clone(), flags.stall_once.clone());
    server.on_call(move |_, call_id| {
        if let Some(path) = &state_file {
            let line = format!("{} {}\n", std::process::id(), call_id.unwrap_or("-"));
            let file = OpenOptions::new().create(true).append(true).open(path);
            // One write per line, so that servers that overlap do not mix theirs.
            if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
                eprintln!("cannot write {}: {error}", path.display());
                std::process::exit(74);
            }
        }
        // `create_new` makes one process of many the one that hangs.
        if let Some(path) = &stall_once
            && OpenOptions::new().write(true).create_new(true).open(path).is_ok()
        {
            // There is one thread: nothing is answered from here on.
            loop {
                std::thread::park();
            }
        }
    });
}

fn exists(path: Option<&PathBuf>) -> bool {
    path.is_some_and(|path| path.exists())
}

fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

fn spawn_grandchildren(flags: &Flags) -> std::io::Result<()> {
    let mut pids = String::new();
    for _ in 0..flags.grandchildren {
        let mut sleeper = Command::new(std::env::current_exe()?);
        sleeper.arg("--sleep-for-ever");
        sleeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = sleeper.spawn()?;
        pids += &child.id().to_string();
        pids.push('\n');
    }
    match &flags.pid_file {
        // Renamed into place, so that a reader sees all pids or none.
        Some(path) => {
            let unfinished = path.with_extension("unfinished");
            std::fs::write(&unfinished, pids)?;
            std::fs::rename(unfinished, path)
        }
        None => Ok(()),
    }
}

// === impl Flags ===

impl Flags {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self::default();
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{flag} needs a value"));
            let number = |text: String| {
                text.parse::<u64>().map_err(|_| format!("{flag} needs a number, not {text:?}"))
            };
            match flag.as_str() {
                "--modern" => flags.modern = true,
                "--exit-after" => flags.exit_after = Some(number(value()?)?),
                "--exit-code" => {
                    let code = u8::try_from(number(value()?)?);
                    flags.exit_code = Some(code.map_err(|_| format!("{flag} is at most 255"))?);
                }
                "--ignore-sigterm" => flags.ignore_sigterm = true,
                "--ignore-stdin-eof" => flags.ignore_stdin_eof = true,
                "--spawn-grandchildren" => flags.grandchildren = number(value()?)?,
                "--pid-file" => flags.pid_file = Some(value()?.into()),
                "--garbage" => flags.garbage = true,
                "--oversized-line" => {
                    let bytes = usize::try_from(number(value()?)?);
                    flags.oversized_line = Some(bytes.map_err(|_| format!("{flag} is too big"))?);
                }
                "--slow-start" => flags.slow_start = Duration::from_millis(number(value()?)?),
                "--hang-initialize" => flags.hang_initialize = true,
                "--duplicate-answers" => flags.duplicate_answers = true,
                "--stderr" => flags.stderr = Some(value()?),
                "--state-file" => flags.state_file = Some(value()?.into()),
                "--stall-once" => flags.stall_once = Some(value()?.into()),
                "--crash-on-start" => flags.crash_on_start = true,
                "--crash-while" => flags.crash_while = Some(value()?.into()),
                "--extra-tool-if" => flags.extra_tool_if = Some(value()?.into()),
                "--relay" => flags.relay = Some(value()?),
                "--help" | "-h" => flags.help = true,
                "--sleep-for-ever" => flags.sleep_for_ever = true,
                _ => return Err(format!("unknown option {flag}")),
            }
        }
        Ok(flags)
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code.unwrap_or(1))
    }
}
