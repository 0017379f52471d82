//! The command line.

mod call;
mod check;
mod source;
mod tools;

use clap::{Parser, Subcommand};

use crate::demo;
use crate::exit_code::Failure;

/// Keeps MCP connections alive.
///
/// Servers restart, sessions expire, processes crash, and the agent that uses them does not notice: its next call
/// waits a bounded time and succeeds, and a call whose fate is truly unknown ends at once with an error that says so.
///
/// Without a command it runs a demonstration: two MCP servers, everything that usually goes wrong with them, and what
/// happened to each call. It takes about five seconds and touches nothing outside this process and its child.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 ok, 64 bad usage or configuration, 69 unavailable, 70 internal.\n\
                  Set RUST_LOG=info to see every transition as a log line on stderr."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the demonstration (the default).
    Demo,
    Check(check::Check),
    Tools(tools::Tools),
    Call(call::Call),
    /// The demonstration's own child: an MCP server on standard input and output.
    #[command(hide = true)]
    DemoServer,
}

// === impl Cli ===

impl Cli {
    pub(crate) fn run(self) -> Result<(), Failure> {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        match self.command.unwrap_or(Command::Demo) {
            Command::Demo => Ok(runtime.block_on(demo::run())?),
            Command::Check(check) => check.run(),
            Command::Tools(tools) => runtime.block_on(tools.run()),
            Command::Call(call) => runtime.block_on(call.run()),
            Command::DemoServer => {
                runtime.block_on(demo::serve_stdio());
                Ok(())
            }
        }
    }
}
