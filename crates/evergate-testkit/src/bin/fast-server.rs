//! An MCP server that only answers, as fast as one thread can: see `evergate_testkit::FastServer`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line program")]

use std::io;
use std::process::ExitCode;

use evergate_testkit::{FastServer, FastServerSettings};
use tokio::net::TcpListener;

const HELP: &str = "\
An MCP server that only answers, as fast as one thread can, for measuring what stands in front of it.

Usage: fast-server [OPTIONS]

  --tools N   tools in its list (default 1): echo, tool1, tool2, ..., each with the argument bytes
  --sse       answer with event streams instead of JSON
  --id-last   write the id of an answer behind its result
  --port P    listen there instead of at a free port
  --stdio     speak on standard input and output instead of over HTTP
  --help      print this

Over HTTP it prints its URL first. Every path is the same server.
";

fn main() -> ExitCode {
    let mut settings = FastServerSettings { tools: 1, event_streams: false, id_last: false };
    let (mut stdio, mut port) = (false, 0);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|value| value.parse().ok());
        match &*arg {
            "--tools" if let Some(tools) = number() => settings.tools = usize::from(tools),
            "--port" if let Some(given) = number() => port = given,
            "--sse" => settings.event_streams = true,
            "--id-last" => settings.id_last = true,
            "--stdio" => stdio = true,
            "--help" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            _ => {
                eprintln!("not understood: {arg}\n\n{HELP}");
                return ExitCode::from(64);
            }
        }
    }
    let server = FastServer::new(settings);
    let ended = if stdio {
        server.serve_stdio(io::stdin().lock(), io::stdout().lock())
    } else {
        serve(server, port)
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn serve(server: FastServer, port: u16) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        println!("http://{}/mcp", listener.local_addr()?);
        server.serve_http(listener).await
    })
}
