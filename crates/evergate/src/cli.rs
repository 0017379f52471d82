//! The command line.

mod actions;
mod call;
mod check;
mod completions;
mod connect;
mod doctor;
mod events;
mod following;
mod import;
mod logs;
mod man;
mod running;
#[cfg(test)]
mod samples;
mod schema;
mod serve;
mod source;
mod status;
mod stdio;
mod terminal;
mod tools;
mod why;
mod words;
mod wrap;

use clap::{Parser, Subcommand};

use crate::admin::model::Action;
use crate::demo;
use crate::exit_code::Failure;
use crate::logging::{self, LogFormat};
use crate::serve::HandedOver;

/// Keeps MCP connections alive.
///
/// Servers restart, sessions expire, processes crash, and the agent that uses them does not notice: its next call
/// waits a bounded time and succeeds, and a call whose fate is truly unknown ends at once with an error that says so.
///
/// Without a command it serves: all servers of the configuration behind one URL.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit codes: 0 ok, 1 a server is in trouble, 64 bad usage or configuration, 69 unavailable, 70 internal,\n\
                  77 a key is missing.\n\
                  RUST_LOG chooses what is logged, as in RUST_LOG=debug."
)]
pub(crate) struct Cli {
    /// How logs are written to standard error.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: LogFormat,
    #[command(flatten)]
    serve: serve::Serve,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Stdio(stdio::Stdio),
    Wrap(wrap::Wrap),
    Check(check::Check),
    Tools(tools::Tools),
    Call(call::Call),
    Status(status::Status),
    Why(why::Why),
    /// Drop servers' connections, or end their processes, and start anew.
    ///
    /// Calls wait meanwhile, as with every reconnect.
    #[command(
        after_help = "Exits with 0 if it worked, with 1 if it was refused or its effect did not show in time.\n\n\
        Examples:\n  \
        evergate restart docs\n  \
        evergate restart docs search      two at once\n  \
        evergate restart docs --wait=2m   a server that takes its time\n  \
        evergate restart docs --no-wait"
    )]
    Restart(actions::OnServers),
    /// Switch servers on that are switched off, or that were given up.
    ///
    /// Lasts until the gateway restarts, or the configuration says otherwise.
    #[command(
        after_help = "Exits with 0 if it worked, with 1 if it was refused or its effect did not show in time.\n\n\
        Examples:\n  \
        evergate enable docs\n  \
        evergate enable docs search      two at once\n  \
        evergate enable docs --wait=2m   a server that takes its time to start"
    )]
    Enable(actions::OnServers),
    /// Switch servers off: their calls end, their tools are no longer offered.
    ///
    /// Lasts until the gateway restarts, or the configuration says otherwise.
    #[command(
        after_help = "Exits with 0 if it worked, with 1 if it was refused or its effect did not show in time.\n\n\
        Examples:\n  \
        evergate disable docs\n  \
        evergate disable docs search     two at once"
    )]
    Disable(actions::OnServers),
    /// Have servers list anew what they offer.
    #[command(
        after_help = "Exits with 0 if it worked, with 1 if it was refused or its effect did not show in time.\n\n\
        Examples:\n  \
        evergate refresh docs            after its tools changed and it did not say so\n  \
        evergate refresh docs --wait=2m  a server that takes its time to list"
    )]
    Refresh(actions::OnServers),
    Events(events::Events),
    Logs(logs::Logs),
    Import(import::Import),
    Connect(connect::Connect),
    Doctor(doctor::Doctor),
    /// Print the JSON Schema of a configuration, for editors.
    Schema,
    Completions(completions::Completions),
    Man(man::Man),
    /// Show what recovery looks like: two servers, everything that usually goes wrong, what became of each call.
    Demo,
    /// The demonstration's own child: an MCP server on standard input and output.
    #[command(hide = true)]
    DemoServer,
}

// === impl Cli ===

impl Cli {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let command = self.command.unwrap_or(Command::Serve(self.serve));
        // A service tells what happens to it; a one-shot command only what it was asked for.
        let level = match command {
            Command::Serve(_) => "info",
            Command::Stdio(_) | Command::Wrap(_) => "warn",
            _ => "error",
        };
        logging::start(self.log_format, level);
        // Before there are threads.
        let handed_over = match command {
            Command::Serve(_) => HandedOver::take()?,
            _ => HandedOver::default(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = match command {
            Command::Serve(serve) => runtime.block_on(serve.run(handed_over)),
            Command::Stdio(stdio) => runtime.block_on(stdio.run()),
            Command::Wrap(wrap) => runtime.block_on(wrap.run()),
            Command::Check(check) => check.run(),
            Command::Tools(tools) => runtime.block_on(tools.run()),
            Command::Call(call) => runtime.block_on(call.run()),
            Command::Status(status) => runtime.block_on(status.run()),
            Command::Why(why) => runtime.block_on(why.run()),
            Command::Restart(servers) => runtime.block_on(servers.run(Action::Restart)),
            Command::Enable(servers) => runtime.block_on(servers.run(Action::Enable)),
            Command::Disable(servers) => runtime.block_on(servers.run(Action::Disable)),
            Command::Refresh(servers) => runtime.block_on(servers.run(Action::Refresh)),
            Command::Events(events) => runtime.block_on(events.run()),
            Command::Logs(logs) => runtime.block_on(logs.run()),
            Command::Import(import) => import.run(),
            Command::Connect(connect) => connect.run(),
            Command::Doctor(doctor) => runtime.block_on(doctor.run()),
            Command::Schema => schema::run(),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
            Command::Demo => runtime.block_on(demo::run()).map_err(Failure::from),
            Command::DemoServer => {
                runtime.block_on(demo::serve_stdio());
                Ok(())
            }
        };
        // A read from standard input that nobody waits for any more must not hold up the end.
        runtime.shutdown_background();
        result
    }
}
