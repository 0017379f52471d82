//! The server that the official conformance suite is run against: see `evergate_testkit::Server::conformance`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line program")]

use std::net::Ipv4Addr;
use std::process::ExitCode;

use evergate_testkit::{Eras, HttpServer, Server, serve_lines};

const HELP: &str = "\
An MCP server with every fixture that the official conformance suite expects.

Usage: conformance-server [OPTIONS]

  --eras E    legacy (up to 2025-11-25), modern (2026-07-28) or both (the default)
  --port P    listen there; otherwise at the port in the variable PORT, or at a free one
  --stdio     speak on standard input and output instead of over HTTP
  --help      print this

Over HTTP it prints its URL first. What a fixture wants of the client it asks by requests in legacy, and by
results in modern.
";

fn main() -> ExitCode {
    let variable = std::env::var("PORT").ok().and_then(|port| port.parse().ok());
    let (mut eras, mut port, mut stdio) = (Eras::Both, variable.unwrap_or(0), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match &*argument {
            "--eras" => match &*value() {
                "legacy" => eras = Eras::Legacy,
                "modern" => eras = Eras::Modern,
                "both" => eras = Eras::Both,
                _ => return misunderstood(&argument),
            },
            "--port" if let Ok(given) = value().parse() => port = given,
            "--stdio" => stdio = true,
            "--help" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            _ => return misunderstood(&argument),
        }
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(problem) => {
            eprintln!("cannot start: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let server = Server::conformance();
    server.set_eras(eras);
    runtime.block_on(async {
        if stdio {
            serve_lines(&server, tokio::io::stdin(), tokio::io::stdout()).await;
        } else {
            let http = HttpServer::start_on(server, (Ipv4Addr::LOCALHOST, port).into()).await;
            println!("{}", http.url());
            std::future::pending::<()>().await;
        }
    });
    // Standard input may still be waited for on another thread.
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

fn misunderstood(argument: &str) -> ExitCode {
    eprintln!("not understood: {argument}\n\n{HELP}");
    ExitCode::from(64)
}
